"""What a session has said and done so far: each thing becomes one event of ours, once."""

from __future__ import annotations

from collections import Counter
from typing import Any

from segue.agents.local.values import clip, shrink
from segue.domain.events import AgentOutput, AgentRaw, AgentText, Event, event_data
from segue.domain.text import LONGEST_ANSWER

_WORDS = 20


class Transcript:
    """Collects events, in bounded memory."""

    def __init__(self, kept_bytes: int) -> None:
        self._room, self._said, self._dropped = kept_bytes, LONGEST_ANSWER, 0
        self._words: set[str] = set()
        self._word = ""
        self._new: list[Event] = []
        self._counts = Counter[str]()
        self.text = ""
        """The last message."""
        self.plan = ""
        self.lost = False
        """True if an event was too large to be read: it may have been the plan or the answer."""

    def count(self, *names: str) -> None:
        """Count something under each of the names."""
        self._counts.update(names)

    def add(self, kind: str, data: Any) -> None:
        """Add something that no other event describes."""
        self.put(AgentRaw(clip(kind, 100), data=shrink(data)))

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
        size = len(str(event_data(event)))
        if isinstance(event, AgentText) and self._said > 0:
            self._said -= len(event.text)
        elif self._room > 0:
            self._room -= size
        else:
            self._dropped += size
            return
        self._new.append(event)
