"""A run as its events show it: tasks, launches, usage, cost and work time. Everybody shows these numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from segue.domain.events import (
    AgentEnded,
    AgentReplaced,
    Committed,
    DiagnosticRun,
    Event,
    GatePassed,
    GateReached,
    PlanRevised,
    PromptSent,
    Recorded,
    RunEnded,
    RunParked,
    RunResumed,
    RunStarted,
    SearchDone,
    StateImported,
    StepEnded,
    StepStarted,
    Tampered,
    TaskBlocked,
    TaskEnded,
    TaskMarked,
    TaskStarted,
    VerdictGiven,
    WaitBegan,
    WaitEnded,
)
from segue.domain.outcome import Usage
from segue.domain.proof import Level, Proof
from segue.domain.run import RunState
from segue.domain.task import TaskKind
from segue.domain.verdict import Result
from segue.view.levels import describe_proof, is_pass

_UNDER_WAY = ("running", "parked", "stopped")


class TaskView(Struct):
    """One task of a run, or with an empty key the planning before the first one."""

    key: str
    title: str
    state: str = "pending"
    """pending, running, parked, blocked, done, skipped, replanned, needs_human or stopped."""
    phase: str = ""
    attempts: int = 0
    """Launches of agents for this task, in every phase."""
    kind: TaskKind | None = None
    """What it asks for; None before it began."""
    verdict: str | None = None
    """FAIL or PARTIAL as last concluded; PASS only when it is done and proven."""
    proof: Proof | None = None
    """The evidence that it is done; None: it is not, or an older version did not record any."""
    tampering: int = 0
    """How many things an agent changed that decide whether its work counts."""
    blocked_by: tuple[str, ...] = ()
    """The tasks that must be done before it can begin."""
    reason: str = ""
    branch: str | None = None
    commit: str | None = None
    remaining: int = 0
    """Review findings that are still open."""
    started: int | None = None
    ended: int | None = None
    wake: float | None = None
    """When it continues, while it is parked."""
    usage: Usage = field(default_factory=Usage)
    work_ms: int = 0
    """Time spent working on it: not between sessions, not while waiting for a usage limit."""

    @property
    def seconds(self) -> float | None:
        """How long it was worked on; None before it began."""
        return None if self.started is None else self.work_ms / 1000

    @property
    def conclusion(self) -> str:
        """What is known about its work, in words that follow the level of proof; empty: nothing yet."""
        if self.proof is None:
            return self.verdict or ""
        if self.verdict == Result.PARTIAL:
            return f"{self.verdict} ({self.proof.words})"
        return describe_proof(self.proof)


class RunView(Struct):
    """A run as seen from its events; `apply` takes them one by one, in order."""

    tasks: dict[str, TaskView] = field(default_factory=dict)
    planning: TaskView | None = None
    """The steps before the first task, in runs whose tasks an agent plans."""
    launches: int = 0
    usage: Usage = field(default_factory=Usage)
    work_ms: int = 0
    fallbacks: int = 0
    searches: int = 0
    plans: int = 0
    phases: Counter[str] = field(default_factory=Counter)
    """Launches by phase."""
    limits: dict[str, float] = field(default_factory=dict)
    """Agents (`name` or `name:model`) that reached a usage limit, and until when."""
    isolation: str = ""
    """The sandbox of the agents in the last session."""
    branch: str | None = None
    """The branch of the last task that was done: the next one builds on it."""
    repeatable: set[str] = field(default_factory=set)
    """Tasks that are done and have something of their own to run again: scenarios, or commands to verify."""
    waits: dict[str, tuple[int, WaitBegan]] = field(default_factory=dict)
    """The services that are waited for now, and since when in milliseconds since the epoch."""
    gate: str | None = None
    """The task after which the run waits for a person."""
    passed: set[str] = field(default_factory=set)
    """The tasks after which a person has let the run go on."""
    active: TaskView | None = None
    _clock: int | None = None
    _steps: dict[str, _StepView] = field(default_factory=dict)
    _reports: list[tuple[TaskView | None, _StepView]] = field(default_factory=list)

    @classmethod
    def of(cls, titles: Mapping[str, str], events: Iterable[Recorded] = ()) -> RunView:
        """Return the view of a run that was to do these tasks, after some events."""
        view = cls({key: TaskView(key, title) for key, title in titles.items()})
        for event in events:
            view.apply(event)
        return view

    def apply(self, recorded: Recorded) -> None:
        """Take the next event into account."""
        fold = _FOLDS.get(type(recorded.event))
        if fold is not None:
            fold(self, recorded.event, recorded)

    @property
    def done(self) -> int:
        """How many tasks are done or skipped."""
        return sum(task.state in ("done", "skipped") for task in self.tasks.values())

    def close(self, state: RunState) -> RunView:
        """Show what was under way as stopped, and stop the clock, when nobody works on the run."""
        if state not in (RunState.RUNNING, RunState.PARKED):
            self._clock = None
            for task in self.tasks.values():
                if task.state in ("running", "parked"):
                    task.state = "stopped"
        return self

    def seconds(self, now: float) -> float:
        """Return how long the run has worked, with the time since the last event while it works."""
        since = max(0.0, now * 1000 - self._clock) if self._clock is not None else 0.0
        return (self.work_ms + since) / 1000

    def task_seconds(self, task: TaskView, now: float) -> float | None:
        """Return how long a task was worked on until now."""
        if task.started is None:
            return None
        since = self._clock if task is self.active else None
        return (task.work_ms + (max(0.0, now * 1000 - since) if since is not None else 0.0)) / 1000

    def _tick(self, ts: int) -> None:
        """Count the time since the last event as work, while the clock runs."""
        if self._clock is None:
            self._clock = ts
        passed = max(0, ts - self._clock)
        self.work_ms += passed
        if self.active is not None:
            self.active.work_ms += passed
        self._clock = ts

    def _task(self, key: str, title: str = "") -> TaskView:
        task = self.tasks.get(key)
        if task is None:
            task = self.tasks[key] = TaskView(key, title or f"Task {key}")
        return task

    def _owner(self, step: str | None) -> TaskView | None:
        """Return the task a step belongs to; the planning for steps of the whole run."""
        parts = (step or "").split("/")
        if parts[0] == "task" and len(parts) > 2:
            return self._task(parts[1])
        if parts[0] == "run" and len(parts) > 2:
            if self.planning is None:
                self.planning = TaskView("", "Plan the steps")
            return self.planning
        return None

    def _session(self, event: RunStarted | RunResumed, at: Recorded) -> None:
        if isinstance(event, RunResumed) and self._clock is not None and event.last_seen is not None:
            self._tick(min(event.last_seen, at.ts))
        if self.active is not None and self.active.state in _UNDER_WAY:
            self.active.state = "pending"
        self.active = None
        self._clock = at.ts
        self.isolation = event.isolation

    def _ended(self, event: RunEnded, at: Recorded) -> None:
        self._tick(at.ts)
        if self.active is not None and self.active.state in _UNDER_WAY:
            self.active.state = "parked" if event.state == RunState.PARKED else "stopped"
        self.waits.clear()
        self._clock = None

    def _wait_began(self, event: WaitBegan, at: Recorded) -> None:
        self.waits[event.service] = (at.ts, event)

    def _wait_ended(self, event: WaitEnded, _at: Recorded) -> None:
        self.waits.pop(event.service, None)

    def _parked(self, event: RunParked, at: Recorded) -> None:
        self._tick(at.ts)
        if event.task in self.tasks:
            task = self.tasks[event.task]
            task.state, task.wake = "parked", event.until
        self._clock = None

    def _task_started(self, event: TaskStarted, at: Recorded) -> None:
        self._tick(at.ts)
        task = self._task(event.task, event.title)
        task.started = task.started or at.ts
        task.ended = task.proof = None
        task.blocked_by = ()
        task.kind, task.state, task.reason = event.kind, "running", ""
        self.active = task

    def _gate_reached(self, event: GateReached, _at: Recorded) -> None:
        self.gate = event.task

    def _gate_passed(self, event: GatePassed, _at: Recorded) -> None:
        self.gate = None
        self.passed.add(event.task)

    def _task_blocked(self, event: TaskBlocked, at: Recorded) -> None:
        self._tick(at.ts)
        task = self._task(event.task, event.title)
        task.state, task.blocked_by = "blocked", event.by
        task.reason = f"waits for {', '.join(event.by)}: {event.why}"

    def _task_marked(self, event: TaskMarked, _at: Recorded) -> None:
        if event.by is None:
            return
        task = self._task(event.task)
        task.blocked_by = ()
        task.state, task.reason = ("skipped" if event.skipped else "done"), event.reason
        task.proof = None if event.skipped else Proof(level=Level.ACCEPTED, by=event.by)
        if task.verdict == Result.PASS:
            task.verdict = None  # what proved it no longer counts

    def _imported(self, event: StateImported, _at: Recorded) -> None:
        """Show tasks as pending that no longer count as done."""
        for key, task in self.tasks.items():
            taken_back = event.done is not None and key not in event.done and key not in event.skipped
            if task.state in ("done", "skipped") and (taken_back or key == event.task):
                task.state, task.reason = "pending", ""
                task.proof = task.commit = task.verdict = None

    def _task_ended(self, event: TaskEnded, at: Recorded) -> None:
        self._tick(at.ts)
        task = self._task(event.task)
        task.ended, task.reason, task.remaining = at.ts, event.reason, event.remaining
        task.commit = event.commit or task.commit
        task.branch = event.branch or task.branch
        task.state = _end_state(event)
        task.proof = event.proof if task.state == "done" else None
        self._repeat_later(task)
        if event.done:
            self.branch = event.branch
            task.verdict = _end_verdict(event, task.verdict)
        self.active = None

    def _repeat_later(self, task: TaskView) -> None:
        shown = task.proof is not None and any(check.scenario and not check.of for check in task.proof.checks)
        if shown or (task.proof is not None and task.kind is TaskKind.VERIFY_ONLY):
            self.repeatable.add(task.key)
        else:
            self.repeatable.discard(task.key)

    def _step_started(self, event: StepStarted, at: Recorded) -> None:
        if event.phase == "sleep" or _is_decision(at):  # nobody works
            return
        self._tick(at.ts)
        name = f"{event.agent}:{event.model}" if event.model else event.agent or ""
        self._steps[at.step or ""] = _StepView(event.phase or "", name)
        task = self._owner(at.step)
        if task is None or event.phase in (None, "commit", "revise"):
            return
        task.phase = event.phase or task.phase
        if task is self.planning and task.started is None:
            task.started, task.state = at.ts, "running"
            self.active = task

    def _step_ended(self, event: StepEnded, at: Recorded) -> None:
        if _is_decision(at):
            return
        self._tick(at.ts)
        task = self._owner(at.step)
        if task is not None and task.state == "parked":
            task.state, task.wake = "running", None
        if task is self.planning and task is not None and self.active is task:
            task.state, task.ended = ("done" if event.ok else "needs_human"), at.ts

    def _prompted(self, _event: PromptSent, at: Recorded) -> None:
        self._tick(at.ts)
        step = self._steps.get(at.step or "")
        if step is None or step.launched:  # an adopted launch is the same launch
            return
        step.launched = True
        self.launches += 1
        self.phases[step.phase] += 1
        task = self._owner(at.step)
        if task is not None:
            task.attempts += 1
            task.verdict = None

    def _agent_ended(self, event: AgentEnded, at: Recorded) -> None:
        self._tick(at.ts)
        step = self._steps.setdefault(at.step or "", _StepView("", ""))
        if event.failure is not None and event.failure.until is not None:
            self.limits[step.agent] = event.failure.until
        first, step.usage = step.usage is None, event.usage or Usage()
        task = self._owner(at.step)
        if first:
            self._reports.append((task, step))
            self.usage += step.usage
            if task is not None:
                task.usage += step.usage
        else:  # an adopted launch reports its end again: the last report counts
            self.usage = _total(self._reports)
            if task is not None:
                task.usage = _total(report for report in self._reports if report[0] is task)

    def _verdict(self, event: VerdictGiven, at: Recorded) -> None:
        self._tick(at.ts)
        task = self._owner(at.step)
        if task is not None:
            task.reason = event.reason
            task.verdict = None if event.result is Result.PASS else event.result.value

    def _tampered(self, event: Tampered, _at: Recorded) -> None:
        self._task(event.task).tampering += len(event.findings)

    def _committed(self, event: Committed, at: Recorded) -> None:
        self._tick(at.ts)
        self._task(event.task).commit = event.commit

    def _plan_revised(self, event: PlanRevised, at: Recorded) -> None:
        self._tick(at.ts)
        self.plans += 1
        begun = {key: task for key, task in self.tasks.items() if task.started or key in event.titles}
        new = {key: TaskView(key, title) for key, title in event.titles.items() if key not in begun}
        self.tasks = {**begun, **new}
        for key, title in event.titles.items():
            self.tasks[key].title = title

    def _replaced(self, _event: AgentReplaced, at: Recorded) -> None:
        self._tick(at.ts)
        self.fallbacks += 1

    def _searched(self, _event: SearchDone, at: Recorded) -> None:
        self._tick(at.ts)
        self.searches += 1

    def _diagnosed(self, _event: DiagnosticRun, at: Recorded) -> None:
        self._tick(at.ts)


class _StepView(Struct):
    phase: str
    agent: str
    launched: bool = False
    usage: Usage | None = None
    """What it used, as last reported."""


def _is_decision(at: Recorded) -> bool:
    """Return whether a step is a person's decision about a task: nobody works on the run at that time."""
    return (at.step or "").endswith("/end")


def _total(reports: Iterable[tuple[TaskView | None, _StepView]]) -> Usage:
    return sum((step.usage for _, step in reports if step.usage is not None), Usage())


def _end_state(event: TaskEnded) -> str:
    if event.skipped:
        return "skipped"
    if event.done:
        return "done"
    return "replanned" if event.replanned else "needs_human"


def _end_verdict(event: TaskEnded, last: str | None) -> str | None:
    """Return the verdict on a task that is done: PASS is said only of what is proven."""
    if event.remaining:
        return Result.PARTIAL.value
    passed = event.proof is not None and is_pass(event.proof) and not event.skipped
    return Result.PASS.value if passed else last


_FOLDS: dict[type[Event], Callable[[RunView, Any, Recorded], None]] = {
    RunStarted: RunView._session,
    RunResumed: RunView._session,
    RunEnded: RunView._ended,
    RunParked: RunView._parked,
    WaitBegan: RunView._wait_began,
    WaitEnded: RunView._wait_ended,
    TaskStarted: RunView._task_started,
    GateReached: RunView._gate_reached,
    GatePassed: RunView._gate_passed,
    TaskBlocked: RunView._task_blocked,
    TaskMarked: RunView._task_marked,
    StateImported: RunView._imported,
    TaskEnded: RunView._task_ended,
    StepStarted: RunView._step_started,
    StepEnded: RunView._step_ended,
    PromptSent: RunView._prompted,
    AgentEnded: RunView._agent_ended,
    VerdictGiven: RunView._verdict,
    Tampered: RunView._tampered,
    Committed: RunView._committed,
    PlanRevised: RunView._plan_revised,
    AgentReplaced: RunView._replaced,
    SearchDone: RunView._searched,
    DiagnosticRun: RunView._diagnosed,
}
FOLDED: tuple[type[Event], ...] = tuple(_FOLDS)
"""The kinds of events a view is computed from. All others change nothing in it."""
