"""What a session has said and done so far: each thing becomes one event of ours, once."""

from __future__ import annotations

from collections import Counter
from typing import Any

from segue.agents.local.values import TEXT_CHARS, clip, shrink, split
from segue.domain.events import AgentOutput, AgentRaw, AgentText, AgentTool, Event, event_data
from segue.domain.text import LONGEST_ANSWER

_WORDS = 20


class Transcript:
    """Collects events, in bounded memory. Vendors show things again: each has an id and counts once."""

    def __init__(self, kept_bytes: int, muted: bool = False) -> None:
        """`muted`: nothing counts before our message, because a session shows its earlier turns again."""
        self.muted = muted
        self._room, self._said, self._dropped = kept_bytes, LONGEST_ANSWER, 0
        self._seen: set[str] = set()
        self._words: set[str] = set()
        self._word = ""
        self._new: list[Event] = []
        self._tools: dict[str, str] = {}
        self._counts = Counter[str]()
        self.text = ""
        """The last message."""
        self.plan = ""
        self.lost = False
        """True if an event was too large to be read: it may have been the plan or the answer."""
        self.notes: dict[str, Any] = {}
        """What a vendor remembers from look to look."""

    def is_new(self, name: str) -> bool:
        """Note an id, and return whether it was not seen before; without an id everything is new."""
        if not name:
            return True
        new = name not in self._seen
        self._seen.add(name)
        return new

    def say(self, text: str) -> None:
        """Add a message for the user."""
        if text.strip() and not self.muted:
            self.text = text[: LONGEST_ANSWER + 1]
            for piece in split(self.text, TEXT_CHARS):
                self.put(AgentText(piece))

    def begin_tool(self, name: str, key: str, given: Any) -> None:
        """Add a tool that starts."""
        self._tools[key] = clip(name, 100)
        self.put(AgentTool(clip(name, 100), shrink(given), clip(key, 200), "started"))

    def end_tool(self, key: str, status: str, result: Any, name: str = "", given: Any = None) -> None:
        """Add a tool that has ended."""
        if not self.muted:
            self.count("tools", f"tools_{status or 'unknown'}")
        called = clip(name, 100) or self._tools.pop(key, "unknown")
        self.put(AgentTool(called, shrink(given), clip(key, 200), "completed", status, shrink(result)))

    def count(self, *names: str) -> None:
        """Count something under each of the names."""
        self._counts.update(names)

    def add(self, kind: str, data: Any) -> None:
        """Add something that no other event describes."""
        self.put(AgentRaw(clip(kind, 100), data=shrink(data)))

    def add_unknown(self, kind: str, data: Any) -> None:
        """Add and count something that nobody has documented."""
        self.count("unknown_events")
        self.add(kind, data)

    def set_status(self, word: str, known: bool) -> None:
        """Add the state if it has changed; unknown words are reported once."""
        if word == self._word:
            return
        self._word = word
        if known:
            self.add("status", {"status": word})
        elif word not in self._words and len(self._words) < _WORDS:
            self._words.add(word)
            note = "unknown status; it is watched until its deadline"
            self.add("unknown_status", {"status": clip(word, 100), "note": note})

    def take(self) -> list[Event]:
        """Return what is new since the last call."""
        new, self._new = self._new, []
        return new

    def close(self) -> list[Event]:
        """Return the rest, and how much had to be dropped."""
        cut = [AgentOutput("out", cut_bytes=self._dropped)] if self._dropped else []
        return [*self.take(), *cut]

    def facts(self) -> dict[str, int]:
        """Return the counts by name."""
        return dict(sorted(self._counts.items()))

    def put(self, event: Event) -> None:
        """Keep an event as long as there is room; what the agent says has its own."""
        if self.muted:
            return
        size = len(str(event_data(event)))
        if isinstance(event, AgentText) and self._said > 0:
            self._said -= len(event.text)
        elif self._room > 0:
            self._room -= size
        else:
            self._dropped += size
            return
        self._new.append(event)
