"""Talk to one agent as its client in the Agent Client Protocol. Standard library only.

Everything that is seen is printed line by line (see `child` for the lines). We offer neither files nor a
terminal: agents have their own tools for both.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from segue.agents.acp.tools import AcpToolCall, choose_option, is_allowed
from segue.agents.local.values import Json, as_list, as_table, as_text, clip, shrink

AcpMessage = dict[str, Any]

AUTH_REQUIRED = -32000
INTERNAL_ERROR = -32603
"""The agent's own fault, by the words of JSON-RPC, and not one of what it was asked."""
_PAUSES = (0.5, 5.0)
"""Seconds before an agent that failed itself is asked for a session again."""
_METHOD_NOT_FOUND = -32601
_FOR_PEOPLE = (
    *("user_message_chunk", "available_commands_update", "session_info_update", "config_option_update"),
)
_SILENCE = 1.0
_OPEN_TOOLS = 1000
_LONGEST_PAUSE = 60.0


class Wire(Protocol):
    """The connection to the agent."""

    def send(self, message: AcpMessage) -> None:
        """Send a message; it is lost if the agent is gone."""

    def receive(self, timeout: float | None) -> AcpMessage | None:
        """Return the next message; None if there will be no more. Raises TimeoutError."""


class AcpRefusal(Exception):
    """The agent answered a request with an error, or cannot do what is asked."""

    def __init__(self, stage: str, message: str, code: Any = None, data: Any = None) -> None:
        super().__init__(message)
        self.stage, self.code, self.data = stage, code, data


class AgentGone(Exception):
    """The agent closed its end, or never answered."""


class AcpClient:
    """One conversation: sends requests, and prints or answers what comes in meanwhile."""

    def __init__(
        self,
        wire: Wire,
        print_line: Callable[[AcpMessage], None],
        job: Json,
        more: Iterator[AcpMessage],
    ) -> None:
        """`more` waits for what to prompt next, after each turn."""
        self._more = more
        self.stage = "initialize"
        self._wire, self._print, self._job = wire, print_line, job
        self._last_id = 0
        self._session = ""
        self._replayed = 0
        self._retrying_since: float | None = None
        self._tools: dict[str, AcpToolCall] = {}
        self._updates: dict[str, Callable[[AcpMessage, bool], None]] = {
            "agent_message_chunk": self._text,
            "agent_thought_chunk": lambda update, _inner: self._print(
                {"type": "thought", "text": as_text(as_table(update.get("content")).get("text"))}
            ),
            "tool_call": self._tool,
            "tool_call_update": self._tool,
            "usage_update": lambda update, _inner: self._print({"type": "usage", "update": shrink(update)}),
            "plan": lambda update, _inner: self._print(
                {"type": "plan", "entries": shrink(update.get("entries"))}
            ),
            "current_mode_update": lambda update, _inner: self._print(
                {"type": "mode", "mode": shrink(update.get("currentModeId"))}
            ),
            **dict.fromkeys(_FOR_PEOPLE, lambda _update, _inner: None),
        }

    def run(self) -> None:
        """Have the whole conversation; the last line is the result of the last turn."""
        self._initialize()
        found = self._open_session()
        self._set_mode(found)
        self.stage = "prompt"
        ended_well = self._prompt(self._job["prompt"])
        while ended_well and (said := next(self._more, None)) is not None:
            self._print({"type": "said", "number": said["number"]})
            ended_well = self._prompt(said["text"])

    def _prompt(self, text: str) -> bool:
        """Have one turn; return whether another one may follow."""
        prompt = [{"type": "text", "text": text}]
        answer = self._request("session/prompt", {"sessionId": self._session, "prompt": prompt}, None)
        reason = answer.get("stopReason")
        self._print({"type": "result", "stop_reason": reason, "answer": shrink(dict(answer))})
        return reason == "end_turn"

    def cancel(self, patience: float) -> None:
        """Ask the agent to stop, and wait a moment for its answer."""
        if self.stage != "prompt":
            return
        self._wire.send(
            {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self._session}}
        )
        deadline = time.monotonic() + patience
        while (message := self._wire.receive(max(0.0, deadline - time.monotonic()))) is not None:
            if "method" not in message and message.get("id") == self._last_id:
                return
            self._handle(message)

    def _initialize(self) -> None:
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        asked = {"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": self._job["client"]}
        answer = self._request("initialize", asked, self._job["start_timeout"])
        self._can = as_table(answer.get("agentCapabilities"))
        methods = [as_table(method).get("id") for method in as_list(answer.get("authMethods"))]
        kept = {"agent": answer.get("agentInfo"), "auth_methods": methods, "can": dict(self._can)}
        self._print({"type": "start", "protocol": answer.get("protocolVersion"), **shrink(kept)})
        if answer.get("protocolVersion") != 1:
            raise AcpRefusal(
                "initialize", f"it speaks version {answer.get('protocolVersion')} of the protocol, not 1"
            )

    def _open_session(self) -> Json:
        """Start or continue the session; authenticate if the agent asks for it."""
        try:
            return self._insist_on_session()
        except AcpRefusal as refusal:
            method = self._job["auth_method"]
            if refusal.code != AUTH_REQUIRED or not method:
                raise
        self.stage = "authenticate"
        self._request("authenticate", {"methodId": method}, self._job["start_timeout"])
        return self._start_session()

    def _insist_on_session(self) -> Json:
        """Ask again when the agent failed itself, as OpenCode does when busy; nothing was done yet."""
        for pause in _PAUSES:
            try:
                return self._start_session()
            except AcpRefusal as refusal:
                if refusal.code != INTERNAL_ERROR:
                    raise
                self._print({"type": "retry", "seconds": pause, "reason": str(refusal)})
                time.sleep(pause)
        return self._start_session()

    def _start_session(self) -> Json:
        self.stage = "session"
        where = {"cwd": self._job["cwd"], "mcpServers": []}
        wanted = self._job["session"]
        if not wanted:
            answer = self._request("session/new", where, self._job["start_timeout"])
            self._session, how = str(answer.get("sessionId") or ""), "new"
            if not self._session:
                raise AcpRefusal("session", "it opened a session without an id")
        else:
            methods = self._find_methods()
            self._wait()
            self._session = wanted
            answer, how = self._continue({"sessionId": wanted, **where}, methods)
            if how == "load":
                self._await_silence()
        self._print({"type": "session", "id": self._session, "how": how, "replayed": self._replayed})
        if begun := self._job.get("begun"):
            with contextlib.suppress(OSError):
                Path(begun).touch()
        return answer

    def _await_silence(self) -> None:
        """Wait for silence: some agents answer first and replay the session afterwards, as if it were new."""
        deadline = time.monotonic() + self._job["start_timeout"]
        while time.monotonic() < deadline:
            try:
                message = self._wire.receive(_SILENCE)
            except TimeoutError:
                return
            if message is None:
                raise AgentGone("it closed its output")
            self._handle(message)

    def _continue(self, asked: AcpMessage, methods: Sequence[str]) -> tuple[Json, str]:
        """Continue a session with the first method that the agent has: Qwen Code announces one it lacks."""
        for how in methods[:-1]:
            try:
                return self._request(f"session/{how}", asked, self._job["start_timeout"]), how
            except AcpRefusal as refusal:
                if refusal.code != _METHOD_NOT_FOUND:
                    raise
        return self._request(f"session/{methods[-1]}", asked, self._job["start_timeout"]), methods[-1]

    def _find_methods(self) -> list[str]:
        """Return the methods that continue a session; `load` also replays it, which nobody needs."""
        resumes = as_table(self._can.get("sessionCapabilities")).get("resume") is not None
        found = [*(["resume"] if resumes else []), *(["load"] if self._can.get("loadSession") else [])]
        if not found:
            raise AcpRefusal("session", "this agent cannot continue an earlier session")
        return found

    def _wait(self) -> None:
        pause = min(self._job["not_before"] - time.time(), _LONGEST_PAUSE)
        if pause > 0:
            self._print({"type": "wait", "seconds": round(pause, 1)})
            time.sleep(pause)

    def _set_mode(self, found: Json) -> None:
        """Set the mode and the model. A mode that cannot be set is an error: it may be a restriction."""
        mode, model = self._job["mode"], self._job["model"]
        if mode["name"] and mode["option"]:
            self._set_option("mode", mode["option"], mode["name"])
        elif mode["name"] and as_table(found.get("modes")).get("currentModeId") != mode["name"]:
            self.stage = "mode"
            asked = {"sessionId": self._session, "modeId": mode["name"]}
            self._request("session/set_mode", asked, self._job["start_timeout"])
        if model["name"]:
            self._set_option("model", model["option"], model["name"])

    def _set_option(self, stage: str, option: str | None, value: str) -> None:
        self.stage = stage
        if not option:
            raise AcpRefusal(stage, f"the {stage} of this agent cannot be set")
        asked = {"sessionId": self._session, "configId": option, "value": value}
        self._request("session/set_config_option", asked, self._job["start_timeout"])

    def _request(self, method: str, params: AcpMessage, timeout: float | None) -> Json:
        self._last_id += 1
        self._wire.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                message = self._wire.receive(
                    None if deadline is None else max(0.0, deadline - time.monotonic())
                )
            except TimeoutError:
                raise AgentGone(f"no answer to {method} within {timeout:g} seconds") from None
            if message is None:
                raise AgentGone("it closed its output")
            if "method" not in message and message.get("id") == self._last_id:
                return self._read_answer(message)
            self._handle(message)

    def _read_answer(self, message: AcpMessage) -> Json:
        error = message.get("error")
        if error is None:
            return as_table(message.get("result"))
        found = as_table(error)
        text = as_text(found.get("message")) or "it gave no reason"
        raise AcpRefusal(self.stage, text, found.get("code"), found.get("data"))

    def _handle(self, message: AcpMessage) -> None:
        """Print or answer what the agent says unasked."""
        method, params = message.get("method"), as_table(message.get("params"))
        if "retrying" in message:
            self._note_retry(str(message["retrying"]))
        elif "too_long" in message:
            self._print({"type": "lost", "bytes": message["too_long"]})
        elif method == "session/update":
            self._retrying_since = None
            self._update(params)
        elif message.get("id") is None or not isinstance(method, str):
            self._print({"type": "raw", "line": shrink(message)})
        elif method == "session/request_permission":
            result = {"outcome": self._permission(params)}
            self._wire.send({"jsonrpc": "2.0", "id": message["id"], "result": result})
        else:
            self._refuse(message, method)

    def _note_retry(self, text: str) -> None:
        """Print that the agent retries because its service refuses; give up after a while."""
        now = time.monotonic()
        self._print({"type": "retry", "text": text})
        if self._retrying_since is None:
            self._retrying_since = now
        elif now - self._retrying_since >= self._job["retry_grace"]:
            raise AcpRefusal(self.stage, text, data={"retried": True})

    def _refuse(self, message: AcpMessage, method: str) -> None:
        """Refuse a request outside of the protocol, or one for something that we do not offer."""
        self._print({"type": "raw", "line": shrink(message)})
        error = {"code": _METHOD_NOT_FOUND, "message": f"{method} is not offered"}
        self._wire.send({"jsonrpc": "2.0", "id": message["id"], "error": error})

    def _update(self, params: Json) -> None:
        if self.stage != "prompt":
            self._replayed += 1  # a session that is loaded is replayed
            return
        update = dict(as_table(params.get("update")))
        known = self._updates.get(str(update.get("sessionUpdate")))
        if known is None:
            self._print({"type": "raw", "line": shrink(update)})
        else:
            known(update, params.get("sessionId") not in (None, self._session))

    def _text(self, update: AcpMessage, inner: bool) -> None:
        text = as_table(update.get("content")).get("text")
        if used := as_table(as_table(update.get("_meta")).get("usage")):  # as Qwen tells it
            self._print({"type": "usage", "update": {"tokens": shrink(dict(used))}})
        if isinstance(text, str):
            line = {"type": "text", "text": text, "message": as_text(update.get("messageId"))}
            self._print({**line, **({"subagent": True} if inner else {})})
        else:
            self._print({"type": "raw", "line": shrink(update)})

    def _tool(self, update: AcpMessage, _inner: bool) -> None:
        call, new = self._call(update)
        if new:
            self._print(call.line("started"))
        if call.is_over:
            self._tools.pop(call.id, None)
            self._print(call.line("completed"))
        elif not new:
            self._print({"type": "tool", "state": "updated", "id": clip(call.id, 200)})

    def _call(self, update: Json) -> tuple[AcpToolCall, bool]:
        """Return what is known about a call, and whether it is new."""
        key = str(update.get("toolCallId") or "")
        new = key not in self._tools
        if new:
            if len(self._tools) >= _OPEN_TOOLS:
                self._tools.pop(next(iter(self._tools)))
            self._tools[key] = AcpToolCall(key)
        call = self._tools[key]
        call.learn(update)
        return call, new

    def _permission(self, params: Json) -> AcpMessage:
        """Answer according to the policy; some agents name a call here for the first time."""
        call, new = self._call(as_table(params.get("toolCall")))
        if new:
            self._print(call.line("started"))
        allowed = is_allowed(call.kind, self._job["policy"])
        option = choose_option(params.get("options"), allowed)
        # If there is no option that says no, the turn is cancelled; if none says yes, the tool is denied.
        allowed = allowed and option is not None
        call.rejected = not allowed
        line = {**call.line("started"), "type": "permission", "allowed": allowed, "option": option}
        line.pop("state")
        self._print(line)
        return {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}
