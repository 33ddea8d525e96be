"""Schedules tasks as others begin and end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from segue.domain.graph import Blocked, Dependency, Waits, describe_cycle, find_block, find_cycles

End = Literal["done", "failed", "asked", "again"]
"""How the work on a task ended; asked: a person must do it; again: it is still to be done."""


class Schedule:
    """The tasks of a run that several agents work on at once.

    A task begins when everything it waits for is over. A failed one blocks those that cannot be done without
    it, and those that cannot be done without them. A task that is blocked or not in the schedule is over as
    soon as everything it waits for is.
    """

    def __init__(self, keys: Sequence[str], waits: Waits, done: Collection[str] = ()) -> None:
        """Schedule `keys` in this order; `waits` may know more tasks, and of `done` nothing is expected."""
        self._ended: dict[str, End] = {}
        self._at_work: dict[str, None] = {}
        self._reported: set[str] = set()
        self.update(keys, waits, done)

    def update(self, keys: Sequence[str], waits: Waits, done: Collection[str] = ()) -> None:
        """Apply what has changed in the source; what has begun or ended stays so."""
        self._keys, self._waits, self._done = tuple(keys), waits, {*done}
        over = self._done | {key for key, how in self._ended.items() if how == "done"}
        pending = {key: ways for key, ways in waits.items() if key not in over - self._at_work.keys()}
        self._cycles = {key: cycle for cycle in find_cycles(pending) for key in cycle}
        self._settle()
        self._reported &= self._blocked.keys()

    def ready(self, most: int | None = None) -> list[str]:
        """Return the tasks that may begin, the first `most` of them, in their order."""
        return self._ready[:most]

    def begin(self, key: str) -> None:
        """Begin a task. One that an earlier process has begun may begin although it is not ready."""
        if key in self._at_work or key in self._ended:
            raise ValueError(f"Task {key} has begun already.")
        self._at_work[key] = None
        self._settle()

    def end(self, key: str, how: End) -> None:
        """End a task that has begun."""
        del self._at_work[key]
        if how != "again":
            self._ended[key] = how
        self._settle()

    def reopen(self, key: str) -> None:
        """Forget how a task ended that was not done: it may begin again."""
        if self._ended.get(key, "done") == "done":
            raise ValueError(f"Task {key} has not failed.")
        del self._ended[key]
        self._reported.clear()
        self._settle()

    def newly_blocked(self) -> list[tuple[str, Blocked]]:
        """Return the tasks that have become blocked since the last call, and by which others."""
        new = [
            (key, self._blocked[key]) for key in self._keys if key in self._blocked.keys() - self._reported
        ]
        self._reported.update(self._blocked)
        return new

    def waiting(self, key: str) -> Dependency | None:
        """Return the first thing that a task still waits for, with only those tasks that are not over."""
        for wait in self._waits.get(key, ()):
            if left := tuple(other for other in wait.keys if not self._is_over(other)):
                return Dependency(left, wait.kind, wait.why)
        return None

    @property
    def at_work(self) -> tuple[str, ...]:
        """The tasks that have begun and not ended, in the order in which they began."""
        return tuple(self._at_work)

    @property
    def is_over(self) -> bool:
        """Whether nothing is at work and nothing can begin: every task has ended or is blocked."""
        return not self._at_work and not self._ready

    def _is_over(self, key: str) -> bool:
        return key in self._over or key not in self._waits

    def _is_free(self, key: str) -> bool:
        return all(self._is_over(other) for wait in self._waits.get(key, ()) for other in wait.keys)

    def _settle(self) -> None:
        """Work out which tasks are blocked, over or ready now."""
        gone = (self._done | self._ended.keys()) - self._at_work.keys()
        left = [key for key in self._keys if key not in gone and key not in self._at_work]
        self._blocked = self._find_blocked(left)
        self._over = gone | self._cycles.keys() - self._at_work.keys()
        passive = {*self._waits} - {*left} - self._at_work.keys() | self._blocked.keys()
        rest = [key for key in self._waits if key in passive and key not in self._over]
        while new := [key for key in rest if self._is_free(key)]:
            self._over.update(new)
            rest = [key for key in rest if key not in self._over]
        self._ready = [key for key in left if key not in self._blocked and self._is_free(key)]

    def _find_blocked(self, left: Sequence[str]) -> dict[str, Blocked]:
        """Return the tasks that cannot be done, or not before a person has done another one, and why."""
        failed = {key for key, how in self._ended.items() if how == "failed"} | self._cycles.keys() & left
        asked = {key for key, how in self._ended.items() if how == "asked"}
        before = -1
        while before != (before := len(failed) + len(asked)):
            for key in left:
                waits = self._waits.get(key, ())
                if key not in failed and find_block(waits, failed, ()):
                    failed.add(key)
                elif key not in asked and find_block(waits, (), asked):
                    asked.add(key)
        blocked: dict[str, Blocked] = {}
        for key in left:
            if cycle := self._cycles.get(key):
                blocked[key] = Blocked(tuple(one for one in cycle if one != key), describe_cycle(cycle))
            elif why := find_block(self._waits.get(key, ()), failed, asked):
                blocked[key] = why
        return blocked
