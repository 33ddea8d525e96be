"""Counts: which script entry serves a run, which fault hits a request, who asks too often."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from segue.sim.cloud.answers import Refusal
from segue.sim.cloud.script import Entry, Fault

SLOW_LISTS: dict[str, tuple[tuple[int, float], ...]] = {
    r"/v[01]/repositories": ((1, 60.0), (30, 3600.0)),
    r"/v0/agents/[^/]+/artifacts.*": ((300, 60.0), (6000, 3600.0)),
}


@dataclass(slots=True)
class Play:
    """An entry that serves a run, with the words its texts may use."""

    entry: Entry
    words: dict[str, str]

    def fill(self, text: str) -> str:
        """The text with `{turn}`, `{launch}`, `{prompt}`, `{slug}` and named groups filled in."""
        return re.sub(r"\{(\w+)\}", lambda found: self.words.get(found[1], found[0]), text)

    def has(self, fault: str) -> bool:
        """Whether this goes wrong."""
        return fault in self.entry.faults


@dataclass(slots=True)
class Playbook:
    """The entries and how often each was used."""

    entries: list[Entry]
    _used: dict[int, int] = field(default_factory=dict)

    def pick(self, prompt: str, turn: int, launch: int) -> Play:
        """The first entry that fits and is not used up; one that does the default when none does."""
        words = {"prompt": prompt, "turn": str(turn), "launch": str(launch), "slug": slug(prompt)}
        for index, entry in enumerate(self.entries):
            found = re.search(entry.prompt or "", prompt)
            fits = entry.turn in (None, turn) and entry.launch in (None, launch)
            if found and fits and (not entry.times or self._used.get(index, 0) < entry.times):
                self._used[index] = self._used.get(index, 0) + 1
                groups = {name: value or "" for name, value in found.groupdict().items()}
                return Play(entry, words | groups)
        return Play(Entry(), words)

    def put_first(self, entries: list[Entry]) -> None:
        """Try these before the others."""
        self.entries = [*entries, *self.entries]
        self._used = {index + len(entries): count for index, count in self._used.items()}


@dataclass(slots=True)
class FaultCounter:
    """The faults of requests and how many requests each has met."""

    faults: list[Fault]
    _met: dict[int, int] = field(default_factory=dict)

    def hit(self, method: str, path: str) -> Fault | None:
        """The first fault that hits this request."""
        chosen: Fault | None = None
        for index, fault in enumerate(self.faults):
            if not _fits(fault.pattern, method, path):
                continue
            met = self._met[index] = self._met.get(index, 0) + 1
            if chosen is None and met > fault.after and (not fault.times or met <= fault.after + fault.times):
                chosen = fault
        return chosen


@dataclass(slots=True)
class Limiter:
    """Rate limits as sliding windows per key."""

    clock: Callable[[], float] = time.time
    _calls: dict[tuple[str, str], deque[float]] = field(default_factory=dict)

    def count(self, key: str, name: str, windows: Sequence[tuple[int, float]]) -> dict[str, str]:
        """Count a request; gives the headers, raises a Refusal when it is one too many."""
        now = self.clock()
        calls = self._calls.setdefault((key, name), deque())
        while calls and calls[0] <= now - max(seconds for _, seconds in windows):
            calls.popleft()
        for limit, seconds in windows:
            within = len(calls) if len(windows) == 1 else sum(1 for call in calls if call > now - seconds)
            if within >= limit:
                wait = max(1, round(calls[len(calls) - within] + seconds - now))
                headers = _headers(limit, 0, now + wait) | {"Retry-After": str(wait)}
                raise Refusal("rate_limit_exceeded", headers=headers)
        calls.append(now)
        limit, seconds = windows[0]
        return _headers(limit, max(0, limit - len(calls)), calls[0] + seconds)


def slug(text: str) -> str:
    """A few words of the text as a name."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return "-".join(words[:6])[:40].strip("-") or "task"


def _fits(pattern: str, method: str, path: str) -> bool:
    wanted, _, where = pattern.partition(" ")
    return wanted in ("*", method) and _path_fits(where or "*", path)


def _path_fits(where: str, path: str) -> bool:
    if where == "*":
        return True
    return re.fullmatch("[^/]*".join(re.escape(part) for part in where.split("*")), path) is not None


def _headers(limit: int, remaining: int, reset: float) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(limit),
        "X-RateLimit-Remaining": str(remaining),
        "X-RateLimit-Reset": str(round(reset)),
    }
