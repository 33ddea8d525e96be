"""Print what Cursor's `agent` prints: text, json, or stream-json with thoughts, messages and tools."""

from __future__ import annotations

import json
import sys
import time
import uuid
from typing import Any

_PIECE = 12
_LONG = 10 * 1024 * 1024


class CursorOutput:
    """Prints one session in the requested format."""

    def __init__(self, form: str, partial: bool, shape: str, session: str, model: str) -> None:
        self._form = form
        self._partial = partial
        self._shape = shape
        self._session = session
        self._model = model
        self._messages: list[str] = []
        self._began = time.monotonic()

    def start(self, source: str, cwd: str, prompt: str) -> None:
        """Print the first two lines."""
        self._line(
            "system", "init", apiKeySource=source, cwd=cwd, model=self._model, permissionMode="default"
        )
        self._line("user", message=_message("user", prompt))

    def think(self, deltas: int) -> None:
        """Print a thought in many small lines."""
        for number in range(deltas):
            self._line("thinking", "delta", text=f"thought {number} ", timestamp_ms=_now())
        if deltas:
            self._line("thinking", "completed", timestamp_ms=_now())

    def say(self, text: str, last: bool = False) -> None:
        """Print a message; with partial output in pieces, then again as a whole."""
        self._messages.append(text)
        if not self._partial:
            self._line("assistant", message=_message("assistant", text))
            return
        for start in range(0, len(text), _PIECE):
            piece = text[start : start + _PIECE]
            self._line("assistant", message=_message("assistant", piece), timestamp_ms=_now())
        flush: dict[str, Any] = {} if last else {"model_call_id": "model-1", "timestamp_ms": _now()}
        self._line("assistant", message=_message("assistant", text), **flush)

    def use_tool(
        self, kind: str, args: dict[str, Any], status: str, value: dict[str, Any], **more: Any
    ) -> None:
        """Print a tool call that starts and ends with `status`; `more` are siblings of the status."""
        call_id = f"tool_{uuid.uuid4()}\nfc_{uuid.uuid4().hex[:8]}"  # real ones may contain a line break
        for subtype in ("started", "completed"):
            result = {status: value, **more} if subtype == "completed" else None
            call = self._call(kind, args, result) | {
                "toolCallId": call_id,
                "startedAtMs": str(_now()),
                "hookAdditionalContexts": [],
            }
            self._line(
                "tool_call",
                subtype,
                call_id=call_id,
                tool_call=call,
                model_call_id="model-1",
                timestamp_ms=_now(),
            )

    def start_tool(self, kind: str, args: dict[str, Any]) -> None:
        """Print a tool call that never ends."""
        call = self._call(kind, args, None)
        self._line("tool_call", "started", call_id="tool_open", tool_call=call, timestamp_ms=_now())

    def ask_user(self, kind: str) -> None:
        """Print a question to the user that nobody answers."""
        self._line("interaction_query", "request", query_type=kind, query={"id": 1})
        self._line("interaction_query", "response", query_type=kind, response={"skipped": True})

    def print_odd_lines(self, faults: set[str]) -> None:
        """Print lines that a reader must survive."""
        if "not_json" in faults:
            _print("w: a warning that is no JSON\n")
        if "unknown_event" in faults:
            self._line("telemetry", "ping", payload={"deep": [1, 2, 3]})
        if "bad_utf8" in faults:
            text = json.dumps({"type": "assistant", "message": _message("assistant", "caf@")})
            sys.stdout.buffer.write(text.encode().replace(b"@", b"\xe9\xff") + b"\n")
            sys.stdout.buffer.flush()
        if "long_line" in faults:
            value = {"content": "x" * _LONG, "isEmpty": False, "totalLines": 1, "path": "big.txt"}
            self.use_tool("read", {"path": "big.txt"}, "success", value)

    def finish(self, usage: dict[str, int] | None, truncated: bool, is_error: bool) -> None:
        """Print the last line: the answer, or the result with all messages."""
        if self._form == "text":
            _print((self._messages[-1] if self._messages else "") + "\n")
            return
        took = int((time.monotonic() - self._began) * 1000)
        result = {
            "type": "result",
            "subtype": "error" if is_error else "success",
            "is_error": is_error,
            "duration_ms": took,
            "duration_api_ms": took,
            "result": "".join(self._messages),
            "session_id": self._session,
            "request_id": str(uuid.uuid4()),
            **({"usage": usage} if usage else {}),
        }
        text = json.dumps(result)
        _print(text[: len(text) // 2] if truncated else text + "\n")

    def _call(self, kind: str, args: dict[str, Any], result: dict[str, Any] | None) -> dict[str, Any]:
        ending = {} if result is None else {"result": result}
        if self._shape == "function":
            return {"function": {"name": kind, "arguments": json.dumps(args)}, **ending}
        if self._shape == "case":
            return {"tool": {"case": f"{kind}ToolCall", "value": {"args": args, **ending}}}
        return {f"{kind}ToolCall": {"args": args, **ending}}

    def _line(self, kind: str, subtype: str | None = None, **fields: Any) -> None:
        if self._form != "stream-json":
            return
        head = {"type": kind} | ({"subtype": subtype} if subtype else {})
        _print(json.dumps({**head, **fields, "session_id": self._session}) + "\n")


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def _now() -> int:
    return int(time.time() * 1000)


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
