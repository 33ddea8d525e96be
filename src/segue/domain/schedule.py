"""Schedules tasks as others begin and end, and forecasts what running several at once can save."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct

from segue.domain.graph import Blocked, Dependency, WaitKind, Waits, describe_cycle, find_cycles

End = Literal["done", "failed", "asked", "again"]
"""How the work on a task ended; asked: a person must do it; again: it is still to be done."""


class _Group:
    """Tasks that are waited for together; all who wait for the same ones share it."""

    __slots__ = ("asked", "failed", "keys", "left", "needed_by", "rest", "tasks")

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys
        self.left = 0
        """How many of them are not over."""
        self.rest: tuple[str, ...] | None = None
        """Which ones, if somebody has asked since the last change."""
        self.failed = self.asked = False
        """Whether one of them will not be done, or waits for a person."""
        self.tasks: list[str] = []
        """Who waits for them."""
        self.needed_by: list[tuple[str, WaitKind]] = []
        """Who cannot be done without them."""


class Schedule:
    """The tasks of a run that several agents work on at once.

    A task begins when everything it waits for is over. A failed one blocks those that cannot be done without
    it, and those that cannot be done without them. A task that is blocked or not in the schedule is over as
    soon as everything it waits for is: so who collides with it does not meet those it would have waited for.
    """

    def __init__(self, keys: Sequence[str], waits: Waits, done: Collection[str] = ()) -> None:
        """Schedule `keys` in this order; `waits` may know more tasks, and of `done` nothing is expected."""
        self._ended: dict[str, End] = {}
        self._at_work: dict[str, None] = {}
        self._reported: set[str] = set()
        self._let_begin: dict[str, tuple[str, str]] = {}
        self._build(keys, waits, done)

    def ready(self, most: int | None = None) -> list[str]:
        """Return the tasks that may begin, the first `most` of them, in their order."""
        return [self._keys[place] for place in islice(self._ready, most)]

    def begin(self, key: str) -> tuple[str, str]:
        """Begin a task; return the task whose end let it begin and why it waited, or nothing if it did not.

        One that an earlier process has begun already may begin although it is not ready.
        """
        if key in self._at_work or key in self._ended:
            raise ValueError(f"Task {key} has begun already.")
        self._at_work[key] = None
        place = bisect_left(self._ready, self._place[key])
        if self._ready[place : place + 1] == [self._place[key]]:
            del self._ready[place]
        return self._let_begin.pop(key, ("", ""))

    def end(self, key: str, how: End) -> None:
        """End a task that has begun."""
        del self._at_work[key]
        if how == "again":
            if not self._missing.get(key) and self._arrive(key):
                self._finish([key])
            return
        self._ended[key] = how
        if how != "done":
            self._block_after(key, how == "failed")
        self._finish([key])

    def reopen(self, key: str) -> None:
        """Forget how a task ended that was not done: with the next update it may begin again."""
        if self._ended.get(key, "done") == "done":
            raise ValueError(f"Task {key} has not failed.")
        del self._ended[key]
        self._reported.clear()

    def newly_blocked(self) -> list[tuple[str, Blocked]]:
        """Return the tasks that have become blocked since the last call, and by which others."""
        new = sorted(self._unreported, key=self._place.__getitem__)
        self._reported.update(new)
        self._unreported.clear()
        known: dict[tuple[int, bool], tuple[str, ...]] = {}
        return [(key, self._explain(key, known)) for key in new]

    def waiting(self, key: str) -> Dependency | None:
        """Return the first thing that a task still waits for, with only those tasks that are not over."""
        for dependency in self._waits.get(key, ()):
            group = self._groups[id(dependency.keys)]
            if group.left:
                if group.rest is None:
                    group.rest = tuple(
                        one for one in group.keys if one in self._missing and one not in self._over
                    )
                return Dependency(group.rest, dependency.kind, dependency.why)
        return None

    @property
    def at_work(self) -> tuple[str, ...]:
        """The tasks that have begun and not ended, in the order in which they began."""
        return tuple(self._at_work)

    @property
    def is_over(self) -> bool:
        """Whether nothing is at work and nothing can begin: every task has ended or is blocked."""
        return not self._at_work and not self._ready

    def update(self, keys: Sequence[str], waits: Waits, done: Collection[str] = ()) -> None:
        """Apply what has changed in the source; what has begun or ended stays so."""
        self._build(keys, waits, done)

    def _build(self, keys: Sequence[str], waits: Waits, done: Collection[str]) -> None:
        finished = {*done, *(key for key, how in self._ended.items() if how == "done")} - self._at_work.keys()
        self._keys = tuple(keys)
        self._place = {key: place for place, key in enumerate(self._keys)}
        self._waits: Waits = {key: ways for key, ways in waits.items() if key not in finished}
        self._missing = dict.fromkeys((key for key in (*self._waits, *keys) if key not in finished), 0)
        """How many groups each task waits for; those that need nothing any more are not in it."""
        self._groups: dict[int, _Group] = {}
        self._groups_with: dict[str, list[_Group]] = {}
        self._over: set[str] = set()
        self._ready: list[int] = []
        self._blocked: dict[str, bool] = {}
        """Which tasks are blocked, and whether by more than a question to a person."""
        self._unreported: list[str] = []
        for key, ways in self._waits.items():
            self._connect(key, ways)
        self._cycles = {key: cycle for cycle in find_cycles(self._waits) for key in cycle}
        self._settle()

    def _connect(self, key: str, ways: Iterable[Dependency]) -> None:
        for dependency in ways:
            group = self._groups.get(id(dependency.keys))
            if group is None:
                group = self._groups[id(dependency.keys)] = _Group(dependency.keys)
                for other in dict.fromkeys(dependency.keys):
                    if other in self._missing:
                        group.left += 1
                        self._groups_with.setdefault(other, []).append(group)
            if dependency.kind.blocks:
                group.needed_by.append((key, dependency.kind))
            if group.left and group.tasks[-1:] != [key]:
                group.tasks.append(key)
                self._missing[key] += 1

    def _settle(self) -> None:
        """Find out which tasks are blocked, over or ready before anything else happens."""
        let_begin, self._let_begin = self._let_begin, {}
        for key in self._cycles:
            if self._block(key, hard=True):
                self._block_after(key, hard=True)
        for key, how in self._ended.items():
            if how != "done":
                self._block_after(key, how == "failed")
        gone = [key for key in self._missing if key in self._ended or key in self._cycles]
        free = [key for key, missing in self._missing.items() if not missing]
        self._finish([*gone, *(key for key in free if self._arrive(key))])
        ready = set(self.ready())
        self._let_begin = {key: why for key, why in let_begin.items() if key in ready}
        self._reported &= self._blocked.keys()
        self._unreported = [key for key in self._blocked if key not in self._reported]

    def _arrive(self, key: str) -> bool:
        """Let a task begin that waits for nothing any more; return whether it is over, as it never will."""
        if key in self._at_work or key in self._ended:
            return False
        if key in self._blocked or key not in self._place:
            return True
        insort(self._ready, self._place[key])
        return False

    def _finish(self, keys: list[str]) -> None:
        """Let tasks be over, and all that are over with them."""
        while keys:
            key = keys.pop()
            if key in self._over:
                continue
            self._over.add(key)
            for group in self._groups_with.get(key, ()):
                group.left -= 1
                group.rest = None
                if not group.left:
                    keys += [task for task in group.tasks if self._release(task, key, group)]

    def _release(self, task: str, key: str, group: _Group) -> bool:
        self._missing[task] -= 1
        if self._missing[task]:
            return False
        why = next(one.why for one in self._waits[task] if one.keys is group.keys)
        self._let_begin[task] = (key, why)
        return self._arrive(task)

    def _block_after(self, key: str, hard: bool) -> None:
        """Block what cannot be done without a task; `hard`: it will not be done, else a person is asked."""
        queue = [(key, hard)]
        while queue:
            key, hard = queue.pop()
            for group in self._groups_with.get(key, ()):
                if group.failed or (group.asked and not hard):
                    continue
                group.failed, group.asked = hard, True
                for task, kind in group.needed_by:
                    if (hard or kind is WaitKind.STATED) and self._block(task, hard):
                        queue.append((task, hard))

    def _block(self, task: str, hard: bool) -> bool:
        """Block a task that has not begun; return whether that is news."""
        if task in self._at_work or task in self._ended or task not in self._place:
            return False
        known = self._blocked.get(task)
        if known or known is hard:
            return False
        self._blocked[task] = hard
        if known is None:
            self._unreported.append(task)
        return True

    def _explain(self, key: str, known: dict[tuple[int, bool], tuple[str, ...]]) -> Blocked:
        if key in self._cycles:
            cycle = self._cycles[key]
            return Blocked(tuple(one for one in cycle if one != key), describe_cycle(cycle))
        for dependency in self._waits[key]:
            group, stated = self._groups[id(dependency.keys)], dependency.kind is WaitKind.STATED
            if dependency.kind.blocks and (group.failed or (group.asked and stated)):
                place = (id(group), stated)
                if place not in known:
                    known[place] = tuple(one for one in group.keys if self._is_bad(one, stated))
                return Blocked(known[place], dependency.why)
        raise AssertionError(f"nothing blocks {key}")

    def _is_bad(self, key: str, stated: bool) -> bool:
        how, hard = self._ended.get(key), self._blocked.get(key)
        return how == "failed" or bool(hard) or (stated and (how == "asked" or hard is False))


class Holdup(Struct, frozen=True):
    """A reason why tasks begin later than they could."""

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
