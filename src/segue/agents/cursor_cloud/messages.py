"""Puts the pieces of a message together, and says of a tool's use what all agents say of it."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Any

from segue.agents.cursor.tools import bounded, clip, tool_use
from segue.domain.event import Event, EventType
from segue.system.redact import Redactor

_UTF8 = codecs.getincrementaldecoder("utf-8")
_EVENT_CHARS = 16 * 1024
_TEXT_CHARS = 64 * 1024


class Message:
    """The message that is being said, piece by piece; secrets are taken out also where pieces meet."""

    def __init__(self, redactor: Redactor) -> None:
        self._clean = redactor.stream()
        # What is held back as the beginning of a secret may be cut within a character.
        self._decoder = _UTF8("replace")
        self._pending = ""
        self._said = ""
        self.last = ""

    def add(self, piece: str) -> list[Event]:
        """Take the next piece; a long message becomes several events."""
        self._pending += self._decoder.decode(self._clean.feed(piece.encode("utf-8", "replace")))
        return self._event() if len(self._pending) >= _EVENT_CHARS else []

    def flush(self) -> list[Event]:
        """The message is over."""
        self._pending += self._decoder.decode(self._clean.close(), True)
        events = self._event()
        self._said = ""
        return events

    def _event(self) -> list[Event]:
        # Postgres refuses the null character.
        text, self._pending = self._pending.replace("\0", "\ufffd"), ""
        if not text:
            return []
        self._said = (self._said + text)[-_TEXT_CHARS:]
        if not self._said.strip():
            return []
        self.last = self._said
        return [Event(EventType.AGENT_TEXT, {"text": text})]


def tool_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of an `agent.tool` event, from a `tool_call` of the stream."""
    name = data.get("name")
    call = {"name": name if isinstance(name, str) and name else "unknown", "arguments": data.get("args")}
    use = tool_use({"function": call, "result": data.get("result")})
    assert use is not None, "a call with a name is always understood"
    state = data.get("status")
    told: dict[str, Any] = {
        "name": clip(use.name, 100),
        "id": clip(str(data.get("callId") or ""), 200),
        "state": "started" if state == "running" else "completed",
        "input": bounded(use.input),
    }
    if state != "running":
        status = use.status or ("error" if state == "error" else None)
        told |= {"status": status, "result": bounded(use.result)}
    return told
