"""What launches may cost: per run, task, day and repository, before they begin and while they work."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from segue.domain.events import AgentUsage, Event
from segue.domain.outcome import Budget, Failure, FailureKind, Outcome, Scope, Spent, Usage

if TYPE_CHECKING:
    from segue.view.run import RunView

SCOPES: tuple[Scope, ...] = ("run", "task", "day", "repository")
_PER = {"run": "", "task": " per task", "day": " per day", "repository": " of this repository"}


class Budgets(Struct):
    """The caps of all scopes, and what was spent in each."""

    caps: Mapping[Scope, Budget]
    read: Callable[[Scope, str], Spent] = lambda _scope, _task: Spent()
    """Returns what launches that have ended cost in a scope; of a task, by its key."""
    live: dict[str, tuple[str, Spent]] = field(default_factory=dict)
    """What launches that are at work have used so far, by step, each with its task."""

    def exceeded(
        self, view: RunView, task: str, more: int = 0, *, at_work: bool = False
    ) -> tuple[Scope, str] | None:
        """Return which cap forbids to spend more, and in which scope; None if none does.

        `more` launches were admitted that the view does not count yet. Who is `at_work` was admitted.
        """
        for scope in SCOPES:
            cap = self.caps.get(scope, Budget())
            if cap == Budget() or (scope == "task" and not task):
                continue
            spent = self._spent(scope, cap, view, task)
            launches = view.launches + more if scope == "run" and not at_work else -1
            if reason := cap.exceeded(launches, spent.usage, spent.seconds, path(scope), _PER[scope]):
                return scope, reason
        return None

    def seconds_left(self, view: RunView, task: str) -> float | None:
        """Return how long a launch may take before a cap on time is reached; None: there is none."""
        left = [
            cap.seconds - self._spent(scope, cap, view, task).seconds
            for scope in SCOPES
            if (cap := self.caps.get(scope, Budget())).seconds is not None and (task or scope != "task")
        ]
        return min(left, default=None)

    def _spent(self, scope: Scope, cap: Budget, view: RunView, task: str) -> Spent:
        known = Spent(view.usage)
        if scope == "task":
            known = Spent(view.tasks[task].usage if task in view.tasks else Usage())
        if scope in ("day", "repository") or cap.seconds is not None:
            known = self.read(scope, task)
        for owner, spent in self.live.values():
            if scope != "task" or owner == task:
                known += spent
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
        self.seconds = budgets.seconds_left(view, task)
        """How long it may work; None: as long as it likes."""

    def see(self, event: Event) -> Failure | None:
        """Return why the launch must end, if it must."""
        if not isinstance(event, AgentUsage):
            return None
        self._used = event.count()
        return self._find_reached()

    def late(self) -> Failure:
        """Return the failure of a launch whose time is used up."""
        return self._find_reached() or _over_budget("its time (limits.seconds) is used up")

    def end_with(self, failure: Failure) -> Outcome:
        """Return the outcome of a launch that is ended, with what it has reported so far."""
        return Outcome(failure=failure, usage=self._used, duration=time.monotonic() - self._began)

    def forget(self) -> None:
        """Forget the launch: its report counts from now on."""
        self._budgets.live.pop(self._key, None)

    def _find_reached(self) -> Failure | None:
        spent = Spent(self._used or Usage(), time.monotonic() - self._began)
        self._budgets.live[self._key] = self._task, spent
        found = self._budgets.exceeded(self._view, self._task, at_work=True)
        return _over_budget(found[1]) if found is not None else None


def _over_budget(reason: str) -> Failure:
    return Failure(FailureKind.BUDGET, f"It was ended at work: {reason}. What it did is kept.")
