"""What launches may cost: per run, task and day, before they begin and while they work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from segue.domain.events import AgentUsage, Event
from segue.domain.outcome import Budget, Failure, FailureKind, Outcome, Scope, Usage

if TYPE_CHECKING:
    from segue.view.run import RunView

SCOPES: tuple[Scope, ...] = ("run", "task", "day")
_PER = {"run": "", "task": " per task", "day": " per day"}
_FRESH = 5.0
"""Seconds for which what a day has cost is not read again while an agent works."""


class Budgets(Struct):
    """The caps of all scopes, and what was spent in each."""

    caps: Mapping[Scope, Budget]
    read_day: Callable[[], Usage] = Usage
    """Returns what the launches of today have used that have ended, in all runs."""
    live: dict[str, tuple[str, Usage]] = field(default_factory=dict)
    """What launches that are at work have used so far, by step, each with its task."""
    _day: tuple[float, Usage] = (-_FRESH, Usage())

    def exceeded(
        self, view: RunView, task: str, more: int = 0, *, at_work: bool = False
    ) -> tuple[Scope, str] | None:
        """Return which cap forbids to spend more, and in which scope; None if none does.

        `more` launches were admitted that the view does not count yet. Who is `at_work` was admitted.
        """
        for scope, cap in self._caps(task):
            used = self._used(scope, view, task, fresh=not at_work)
            launches = view.launches + more if scope == "run" and not at_work else -1
            if reason := cap.exceeded(launches, used, path(scope), _PER[scope]):
                return scope, reason
        return None

    def passed(self, view: RunView, task: str) -> str:
        """Return by how much what was used is more than the caps allow, in words; empty: it is not."""
        over = (
            words
            for scope, cap in self._caps(task)
            for words in cap.passed(self._used(scope, view, task), path(scope), _PER[scope])
        )
        return "; ".join(over)

    def money_left(self, view: RunView, task: str) -> float | None:
        """Return how many dollars a launch may cost; None: as many as it likes."""
        left = [
            cap.cost_usd - (self._used(scope, view, task).cost_usd or 0.0)
            for scope, cap in self._caps(task)
            if cap.cost_usd is not None
        ]
        return max(0.0, min(left)) if left else None

    def _caps(self, task: str) -> Iterator[tuple[Scope, Budget]]:
        for scope in SCOPES:
            cap = self.caps.get(scope, Budget())
            if cap != Budget() and (task or scope != "task"):
                yield scope, cap

    def _used(self, scope: Scope, view: RunView, task: str, *, fresh: bool = True) -> Usage:
        known = view.usage
        if scope == "task":
            known = view.tasks[task].usage if task in view.tasks else Usage()
        elif scope == "day":
            if fresh or time.monotonic() - self._day[0] > _FRESH:
                self._day = time.monotonic(), self.read_day()
            known = self._day[1]
        for owner, used in self.live.values():
            if scope != "task" or owner == task:
                known += used
        return known


def path(scope: Scope) -> str:
    """Return the table of the settings that has the caps of a scope."""
    return "limits" if scope == "run" else f"limits.{scope}"


class BudgetWatch:
    """Looks at what a launch reports while it works, and says when a cap is reached."""

    def __init__(self, budgets: Budgets, view: RunView, key: str, task: str) -> None:
        self._budgets, self._view, self._key, self._task = budgets, view, key, task
        self._began = time.monotonic()
        self._used: Usage | None = None

    def see(self, event: Event) -> Failure | None:
        """Return why the launch must end, if it must."""
        return self.count(event.count()) if isinstance(event, AgentUsage) else None

    def count(self, used: Usage) -> Failure | None:
        """Return why a launch that has used so much must end, if it must."""
        self._used = used
        self._budgets.live[self._key] = self._task, used
        found = self._budgets.exceeded(self._view, self._task, at_work=True)
        if found is None:
            return None
        return Failure(FailureKind.BUDGET, f"It was ended at work: {found[1]}. What it did is kept.")

    def end_with(self, failure: Failure) -> Outcome:
        """Return the outcome of a launch that is ended, with what it has reported so far."""
        return Outcome(failure=failure, usage=self._used, duration=time.monotonic() - self._began)

    def forget(self) -> None:
        """Forget the launch: its report counts from now on."""
        self._budgets.live.pop(self._key, None)
