"""A run while it works, for people: its view, what each task did last, and the news."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from segue.cli.terminal.output import one_line
from segue.domain.amounts import describe_until, format_count, format_duration
from segue.domain.events import (
    AgentChosen,
    AgentReplaced,
    AgentStuck,
    BaseChecked,
    BudgetPassed,
    DiagnosticRun,
    Event,
    NoticeGiven,
    PlanRevised,
    Recorded,
    RunParked,
    SearchDone,
    StateImported,
    StepStarted,
    TaskCollided,
    VerdictGiven,
    WaitEnded,
)
from segue.domain.outcome import Budget
from segue.domain.verdict import Result
from segue.reports.event_text import describe_event
from segue.view.run import RunView
from segue.view.task import TaskView

_OPEN = ("pending", "running", "parked", "stopped")
_LEAST = 0.1
"""The share of its usual time that a task still takes at least, however long it has taken."""


class Estimate(Struct, frozen=True):
    """How long a run still takes."""

    seconds: float
    measured: int
    """How many tasks it is computed from."""

    @property
    def words(self) -> tuple[str, str]:
        """How long, and how that is known."""
        minutes = round(self.seconds / 60)
        left = format_duration(60.0 * minutes) if minutes > 2 else f"{max(1, round(self.seconds))}s"
        return f"about {left.removesuffix('00s')} left", f"measured on {format_count(self.measured, 'task')}"


def estimate(view: RunView, earlier: Mapping[str, float], jobs: int, now: float) -> Estimate | None:
    """Return how long the open tasks still take, if `jobs` are worked on at once; None: nothing is known.

    `earlier` has the seconds that tasks took before; what this run has measured itself counts instead.
    """
    known = {**earlier, **dict(_measure(view))}
    if not known:
        return None
    usual = sum(known.values()) / len(known)
    still = [_left(view, task, known.get(task.key, usual), now) for task in view.tasks.values()]
    seconds = max(max(still, default=0.0), sum(still) / max(1, jobs))
    return Estimate(seconds + _pause(view, now), len(known))


def _measure(view: RunView) -> Iterator[tuple[str, float]]:
    for task in view.tasks.values():
        if task.state == "done" and task.work_ms:
            yield task.key, task.work_ms / 1000


def _left(view: RunView, task: TaskView, usual: float, now: float) -> float:
    """Return how long a task still takes if it takes as long as usual."""
    if task.state not in _OPEN:
        return 0.0
    return max(usual - (view.task_seconds(task, now) or 0.0), _LEAST * usual)


def _pause(view: RunView, now: float) -> float:
    """Return how long nobody works, because every task under way waits for a usage limit."""
    tasks = [task for task in view.work.under_way.values() if task.key]
    wakes = [task.wake for task in tasks if task.state == "parked" and task.wake is not None]
    return max(0.0, min(wakes) - now) if wakes and len(wakes) == len(tasks) else 0.0


_NEWS: tuple[type[Event], ...] = (
    RunParked,
    WaitEnded,
    AgentChosen,
    AgentReplaced,
    AgentStuck,
    SearchDone,
    DiagnosticRun,
    PlanRevised,
    StateImported,
    BudgetPassed,
    NoticeGiven,
    TaskCollided,
)
"""What a person should not miss, although the next event comes soon."""
_LAST_NEWS = 3
_COMMAND = 30


class Progress(Struct):
    """A run as its display sees it; `take` is called for each event."""

    view: RunView
    budget: Budget = Budget()
    earlier: dict[str, float] = field(default_factory=dict)
    """How many seconds tasks of this source took before, by their keys."""
    jobs: int = 1
    """How many tasks are worked on at once."""
    last: dict[str, str] = field(default_factory=dict)
    """What happened last to a task, by its key; the planning has an empty one."""
    news: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=_LAST_NEWS))
    _found: dict[str, str] = field(default_factory=dict)
    """What the last attempt at a task was found to lack."""

    def take(self, recorded: Recorded) -> None:
        """See one event."""
        self.view.apply(recorded)
        self._take_return(recorded)
        text = describe_event(recorded)
        if not text:
            return
        if isinstance(recorded.event, _NEWS) or _is_red(recorded.event):
            self.news.append((recorded.ts / 1000, text))
        key = _task_of(recorded)
        if key is not None and not _is_finding(recorded.event):
            self.last[key] = _activity(text, key)

    def _take_return(self, recorded: Recorded) -> None:
        """Notice why a task is sent back: what was found, once an agent begins again."""
        event, key = recorded.event, _task_of(recorded)
        if key is None:
            return
        if isinstance(event, VerdictGiven) and event.result is not Result.PASS:
            self._found[key] = _shorten(event)
        elif isinstance(event, StepStarted) and event.proves:
            self.last[key] = "checking"
        elif isinstance(event, StepStarted) and event.agent and (reason := self._found.pop(key, "")):
            self.news.append((recorded.ts / 1000, f"task {key} is sent back: {reason}"))
            self.last[key] = f"sent back: {reason}"

    def rows(self) -> list[TaskView]:
        """Return the planning, if there was any, and the tasks."""
        planning = self.view.planning
        return [*([planning] if planning else []), *self.view.tasks.values()]

    def counts(self) -> list[str]:
        """Return the fallbacks, searches and plans so far, in words."""
        return list(_counts(self.view))

    def estimate(self, now: float) -> Estimate | None:
        """Return how long the rest takes; None: nothing is known yet."""
        return estimate(self.view, self.earlier, self.jobs, now)


def _shorten(verdict: VerdictGiven) -> str:
    """Return the reason of a verdict with a long command cut, and with what it printed last."""
    check = next((one for one in verdict.checks if verdict.reason.startswith(one.command)), None)
    if check is None:
        return verdict.reason
    printed = [] if check.runner else check.output.strip().splitlines()[-1:]
    return ": ".join(
        [f"{one_line(check.command, _COMMAND)}{verdict.reason.removeprefix(check.command)}", *printed]
    )


def _is_finding(event: Event) -> bool:
    """Return whether it says how an attempt ended: the row shows what happens now."""
    return isinstance(event, VerdictGiven) and event.result is Result.PASS and not event.criteria


def _is_red(event: Event) -> bool:
    return isinstance(event, BaseChecked) and any(check.words for check in event.checks)


def describe_waits(view: RunView, now: float) -> Iterator[str]:
    """Say what is waited for, since when, and until when."""
    for task in view.tasks.values():
        if task.stuck:
            yield f"The agent of task {task.key} seems stuck: {task.stuck}"
        if task.state == "parked" and task.wake:
            name = f"Task {task.key}" if task.key else "The plan"
            yield f"{name} waits {describe_until(task.wake, now)}: usage limit"
    for since, wait in view.waits.values():
        passed = format_duration(max(0.0, now - since / 1000))
        yield f"Waiting for {wait.service}, {passed} so far, {describe_until(wait.until, now)}: {wait.reason}"


def _counts(view: RunView) -> Iterator[str]:
    counted = (
        (view.fallbacks, "fallback", "fallbacks"),
        (view.searches, "search", "searches"),
        (view.plans, "plan made", "plans made"),
        (view.collisions, "collision", "collisions"),
    )
    for count, one, many in counted:
        if count:
            yield f"{count} {one if count == 1 else many}"


def _task_of(recorded: Recorded) -> str | None:
    """Return the key of the task an event is about, an empty one for the planning."""
    place = (recorded.step or "").split("/")
    if place[0] == "task":
        return place[1]
    if place[0] == "run" and len(place) > 2:
        return ""
    return getattr(recorded.event, "task", None)


def _activity(text: str, key: str) -> str:
    """Leave out what the row of the task says anyway."""
    for known in (f"task {key} ", "agent: ", "agent uses "):
        text = text.removeprefix(known)
    return text
