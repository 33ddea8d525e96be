"""Join the pieces of a message, and read the use of a tool."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Any

from segue.agents.cursor.tools import read_tool_use
from segue.agents.local.values import TEXT_CHARS, as_text, clip, shrink
from segue.domain.event import Event, EventType
from segue.system.redact import Redactor

_UTF8 = codecs.getincrementaldecoder("utf-8")
_EVENT_CHARS = 16 * 1024


class MessageBuffer:
    """A message that comes in pieces; secrets are redacted even where pieces meet."""

    def __init__(self, redactor: Redactor) -> None:
        self._clean = redactor.stream()
        # A piece that is held back, because a secret may begin in it, may end within a character.
        self._decoder = _UTF8("replace")
        self._pending = ""
        self._said = ""
        self.last = ""

    def add(self, piece: str) -> list[Event]:
        """Add a piece; a long message becomes several events."""
        self._pending += self._decoder.decode(self._clean.feed(piece.encode("utf-8", "replace")))
        return self._event() if len(self._pending) >= _EVENT_CHARS else []

    def flush(self) -> list[Event]:
        """Return the rest of the message, which is over."""
        self._pending += self._decoder.decode(self._clean.close(), True)
        events = self._event()
        self._said = ""
        return events

    def _event(self) -> list[Event]:
        # Postgres refuses the null character.
        text, self._pending = self._pending.replace("\0", "\ufffd"), ""
        if not text:
            return []
        self._said = (self._said + text)[-TEXT_CHARS:]
        if not self._said.strip():
            return []
        self.last = self._said
        return [Event(EventType.AGENT_TEXT, {"text": text})]


def read_tool(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of an `agent.tool` event, from a `tool_call` of the stream."""
    call = {"name": as_text(data.get("name")) or "unknown", "arguments": data.get("args")}
    use = read_tool_use({"function": call, "result": data.get("result")})
    assert use is not None, "a call with a name is always understood"
    state = data.get("status")
    tool: dict[str, Any] = {
        "name": clip(use.name, 100),
        "id": clip(str(data.get("callId") or ""), 200),
        "state": "started" if state == "running" else "completed",
        "input": shrink(use.input),
    }
    if state != "running":
        status = use.status or ("error" if state == "error" else None)
        tool |= {"status": status, "result": shrink(use.result)}
    return tool
