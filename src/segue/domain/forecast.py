"""What several tasks at once can save, before anything is started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from msgspec import Struct

from segue.domain.graph import WaitKind, Waits
from segue.domain.schedule import Schedule


class Holdup(Struct, frozen=True):
    """A reason for which tasks begin later than they could."""

    why: str
    tasks: int
    """How many tasks it is the last thing they wait for."""


class Forecast(Struct, frozen=True):
    """How a run would go if all tasks took equally long, succeeded and did not collide when merged."""

    tasks: int
    jobs: int
    rounds: int
    """How many times the length of one task it takes."""
    chain: tuple[str, ...]
    """The tasks that the last one to end has waited for, one after the other, and itself."""
    longest: int
    """How many rounds it takes with any number of jobs: the length of this chain."""
    width: int
    """How many tasks are ever at work at once, if as many may be as can."""
    holdups: tuple[Holdup, ...]
    """What holds it up, most first."""

    @property
    def speedup(self) -> float:
        """How many times as fast it is as one task after the other."""
        return self.tasks / max(1, self.rounds)

    @property
    def bound(self) -> float:
        """How many times as fast it can be at most, with any number of jobs."""
        return self.tasks / max(1, self.longest)


def make_forecast(keys: Sequence[str], waits: Waits, done: Collection[str], jobs: int) -> Forecast:
    """Return how `keys` would be run, `jobs` at once; nobody waits for what is `done`."""
    rounds, _, _ = _simulate(keys, waits, done, jobs)
    longest, width, begun = _simulate(keys, waits, done, len(keys))
    counts = Counter(_describe(waits, key, *let) for key, let in begun.items() if let[0])
    holdups = tuple(Holdup(why, count) for why, count in counts.most_common())
    return Forecast(len(keys), jobs, rounds, _chain(begun), longest, width, holdups)


def _simulate(
    keys: Sequence[str], waits: Waits, done: Collection[str], jobs: int
) -> tuple[int, int, dict[str, tuple[str, str]]]:
    """Return the rounds it takes, the most tasks of one, and what let each task begin, in their order."""
    schedule = Schedule(keys, waits, done)
    begun: dict[str, tuple[str, str]] = {}
    rounds = width = 0
    while batch := schedule.ready(jobs):
        begun |= {key: schedule.begin(key) for key in batch}
        for key in batch:
            schedule.end(key, "done")
        rounds, width = rounds + 1, max(width, len(batch))
    return rounds, width, begun


def _chain(begun: dict[str, tuple[str, str]]) -> tuple[str, ...]:
    """Return the tasks that led to the last one, each the last that the next one waited for."""
    chain: list[str] = []
    key = next(reversed(begun), "")
    while key in begun:
        chain.append(key)
        key = begun[key][0]
    return tuple(reversed(chain))


def _describe(waits: Waits, key: str, after: str, why: str) -> str:
    """Return the reason in words that fit the other tasks that wait for the same."""
    kind = next(one.kind for one in waits[key] if one.why == why and after in one.keys)
    if kind is WaitKind.STATED:
        return "dependencies that are stated"
    if kind is WaitKind.ORDER:
        return "the order of the tasks"
    return f"{key}{why.removeprefix('it')}" if why.startswith("it ") else why
