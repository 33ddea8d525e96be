"""Pick the script entry of a run and the fault of a request, and limit the rate of requests."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from segue.sim.cloud.answers import CloudRefusal
from segue.sim.cloud.script import CloudEntry, CloudFault
from segue.sim.script import Deck, equals, matches

SLOW_LISTS: dict[str, tuple[tuple[int, float], ...]] = {
    r"/v[01]/repositories": ((1, 60.0), (30, 3600.0)),
    r"/v0/agents/[^/]+/artifacts.*": ((300, 60.0), (6000, 3600.0)),
}


@dataclass(slots=True)
class CloudPlay:
    """The entry that a run plays, and the values of the placeholders in its texts."""

    entry: CloudEntry
    words: dict[str, str]

    def fill(self, text: str) -> str:
        """Fill in `{turn}`, `{launch}`, `{prompt}`, `{slug}` and named groups."""
        return re.sub(r"\{(\w+)\}", lambda found: self.words.get(found[1], found[0]), text)

    def has(self, fault: str) -> bool:
        """Return whether the entry has this fault."""
        return fault in self.entry.faults


def pick_play(deck: Deck[CloudEntry], prompt: str, turn: int, launch: int) -> CloudPlay:
    """Return what a run plays; without a matching entry, the default."""
    tests = {"prompt": matches(prompt), "turn": equals(turn), "launch": equals(launch)}
    entry = deck.pick(tests) or CloudEntry()
    words = {"prompt": prompt, "turn": str(turn), "launch": str(launch), "slug": make_slug(prompt)}
    found = re.search(entry.prompt or "", prompt)
    groups = found.groupdict() if found else {}
    return CloudPlay(entry, words | {name: value or "" for name, value in groups.items()})


@dataclass(slots=True)
class CloudFaults:
    """The faults of requests, and how many matching requests each has seen."""

    faults: list[CloudFault]
    _seen: dict[int, int] = field(default_factory=dict)

    def pick(self, method: str, path: str) -> CloudFault | None:
        """Count the request for every fault that matches it, and return the first fault that is due."""
        chosen: CloudFault | None = None
        for index, fault in enumerate(self.faults):
            if not _is_request_match(fault.pattern, method, path):
                continue
            seen = self._seen[index] = self._seen.get(index, 0) + 1
            if (
                chosen is None
                and seen > fault.after
                and (not fault.times or seen <= fault.after + fault.times)
            ):
                chosen = fault
        return chosen


@dataclass(slots=True)
class RateLimiter:
    """Rate limits as sliding windows per key."""

    clock: Callable[[], float] = time.time
    _calls: dict[tuple[str, str], deque[float]] = field(default_factory=dict)

    def count(self, key: str, name: str, windows: Sequence[tuple[int, float]]) -> dict[str, str]:
        """Count a request and return the headers; raises a CloudRefusal if it is one too many."""
        now = self.clock()
        calls = self._calls.setdefault((key, name), deque())
        while calls and calls[0] <= now - max(seconds for _, seconds in windows):
            calls.popleft()
        for limit, seconds in windows:
            within = len(calls) if len(windows) == 1 else sum(1 for call in calls if call > now - seconds)
            if within >= limit:
                wait = max(1, round(calls[len(calls) - within] + seconds - now))
                headers = _build_headers(limit, 0, now + wait) | {"Retry-After": str(wait)}
                raise CloudRefusal("rate_limit_exceeded", headers=headers)
        calls.append(now)
        limit, seconds = windows[0]
        return _build_headers(limit, max(0, limit - len(calls)), calls[0] + seconds)


def make_slug(text: str) -> str:
    """Make a name of the first words of the text."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return "-".join(words[:6])[:40].strip("-") or "task"


def _is_request_match(pattern: str, method: str, path: str) -> bool:
    wanted, _, where = pattern.partition(" ")
    return wanted in ("*", method) and _is_path_match(where or "*", path)


def _is_path_match(where: str, path: str) -> bool:
    if where == "*":
        return True
    return re.fullmatch("[^/]*".join(re.escape(part) for part in where.split("*")), path) is not None


def _build_headers(limit: int, remaining: int, reset: float) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(limit),
        "X-RateLimit-Remaining": str(remaining),
        "X-RateLimit-Reset": str(round(reset)),
    }
