"""A run as its events show it: tasks, launches, usage, cost and work time. Everybody shows these numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from segue.domain import events as e
from segue.domain.amounts import format_duration
from segue.domain.outcome import Usage
from segue.domain.proof import accept
from segue.domain.run import RunState
from segue.domain.task import TaskKind
from segue.domain.verdict import Result
from segue.view.before import RedBefore
from segue.view.task import TaskView, end_state, end_verdict
from segue.view.work import PROVING, LaunchView, Work, total_usage

_UNDER_WAY = ("running", "parked", "stopped")
_UNSEEN = (None, "commit", "revise", "aside", "clear", "back")
"""The phases of steps in which nobody works on a task: its phase stays what it was."""


class RunView(Struct):
    """A run as seen from its events; `apply` takes them one by one, in order."""

    tasks: dict[str, TaskView] = field(default_factory=dict)
    planning: TaskView | None = None
    """The steps before the first task, in runs whose tasks an agent plans."""
    launches: int = 0
    usage: Usage = field(default_factory=Usage)
    work: Work = field(default_factory=Work)
    """Who works when."""
    fallbacks: int = 0
    searches: int = 0
    plans: int = 0
    phases: Counter[str] = field(default_factory=Counter)
    """Launches by phase."""
    limits: dict[str, float] = field(default_factory=dict)
    """Agents (`name` or `name:model`) that reached a usage limit, and until when."""
    isolation: str = ""
    """The sandbox of the agents in the last session; `not isolated` if there was none in any of them."""
    branch: str | None = None
    """The branch of the last task that was done: the next one builds on it."""
    repeatable: set[str] = field(default_factory=set)
    """Tasks that are done and have something of their own to run again: scenarios, or commands to verify."""
    waits: dict[str, tuple[int, e.WaitBegan]] = field(default_factory=dict)
    """The services that are waited for now, and since when in milliseconds since the epoch."""
    gate: str | None = None
    """The task after which the run waits for a person."""
    gate_ts: int = 0
    """When that gate was announced last, in milliseconds since the epoch."""
    passed: set[str] = field(default_factory=set)
    """The tasks after which a person has let the run continue."""
    comments: dict[str, Mapping[int, str]] = field(default_factory=dict)
    """What people said about tasks that are not done since, and about the plan since they were shown it, by
    the number of its event."""
    said: set[str] = field(default_factory=set)
    """The ids of what was said to the process that drives the run."""
    heard: set[int] = field(default_factory=set)
    """What agents have got of it, by the number of its event."""
    waiting: dict[str, TaskView] = field(default_factory=dict)
    """The tasks that wait for others that are worked on, by key."""
    lane_count: int = 0
    """How many lanes this session has used so far; 0: it works on one task at a time."""
    collisions: int = 0
    """How often work did not fit what others had merged meanwhile."""
    delivery: e.WorkDelivered | None = None
    """What became of the work: a pull request, for example."""
    before: RedBefore = field(default_factory=RedBefore)
    """What the checks said before the first launch."""
    seq: int = 0
    """The number of the last event that was taken into account."""
    asked: bool = False
    """Whether the last session ended because a person has to look, and nobody has continued since."""
    _steps: dict[str, LaunchView] = field(default_factory=dict)
    _reports: list[tuple[TaskView | None, LaunchView]] = field(default_factory=list)

    @classmethod
    def of(cls, titles: Mapping[str, str], events: Iterable[e.Recorded] = ()) -> RunView:
        """Return the view of a run that was to do these tasks, after some events."""
        view = cls({key: TaskView(key, title) for key, title in titles.items()})
        for event in events:
            view.apply(event)
        return view

    def apply(self, recorded: e.Recorded) -> None:
        """Take the next event into account."""
        kind = type(recorded.event)
        self.seq = recorded.seq
        if kind in _TIMED:
            self.work.tick(recorded.ts)
        fold = _FOLDS.get(kind)
        if fold is not None:
            fold(self, recorded.event, recorded)

    @property
    def done(self) -> int:
        """How many tasks are done or skipped."""
        return sum(task.state in ("done", "skipped") for task in self.tasks.values())

    @property
    def lanes(self) -> dict[int, TaskView]:
        """The tasks that are at work or parked, by their lanes; empty: one task at a time is worked on."""
        tasks = (task for task in self.work.under_way.values() if task.state in ("running", "parked"))
        return {task.lane: task for task in sorted(tasks, key=lambda task: task.lane) if task.lane}

    def close(self, state: RunState) -> RunView:
        """Show what was under way as stopped, and stop the clock, when nobody works on the run."""
        if state not in (RunState.RUNNING, RunState.PARKED):
            self.work.end_session(self.work.clock or 0)
            for task in self.tasks.values():
                if task.state in ("running", "parked"):
                    task.state = "stopped"
        return self

    def seconds(self, now: float) -> float:
        """Return how long the run has worked, with the time since the last event while it works."""
        since = max(0.0, now * 1000 - self.work.clock) if self.work.clock is not None else 0.0
        return (self.work.ms + since) / 1000

    def describe_spent(self, now: float) -> str:
        """Say how long agents worked and how long proving took; empty where nothing was proven."""
        spent = self.work.spent_seconds(now)
        if not spent[PROVING]:
            return ""
        return ", ".join(f"{kind} {format_duration(seconds)}" for kind, seconds in spent.items())

    def describe_cached(self) -> str:
        """Say which part of what agents read came from the vendor's cache; empty where nobody reports it."""
        share = self.usage.cached_share
        if share is None:
            return ""
        return f"{100 * share:.0f} % of {self.usage.input_tokens:,} input tokens from the vendor's cache"

    def task_seconds(self, task: TaskView, now: float) -> float | None:
        """Return how long a task was worked on until now."""
        if task.started is None:
            return None
        since = self.work.since(task)
        return (task.work_ms + (max(0.0, now * 1000 - since) if since is not None else 0.0)) / 1000

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

    def _session(self, event: e.RunStarted | e.RunResumed, at: e.Recorded) -> None:
        if isinstance(event, e.RunResumed) and self.work.clock is not None and event.last_seen is not None:
            self.work.tick(min(event.last_seen, at.ts))
        for task in self.work.under_way.values():
            if task.state in _UNDER_WAY:
                task.state = "pending"
        for task in self.waiting.values():
            task.waits_for, task.waits_why = (), ""
        self.waiting.clear()
        self.lane_count = 0
        self.work.begin_session(at.ts)
        self.isolation = e.join_isolation(self.isolation, event.isolation)
        self.asked = False

    def _ended(self, event: e.RunEnded, at: e.Recorded) -> None:
        for task in self.work.under_way.values():
            if task.state in _UNDER_WAY:
                task.state = "parked" if event.state == RunState.PARKED else "stopped"
        self.waits.clear()
        self.asked = event.state == RunState.NEEDS_HUMAN
        self.work.end_session(at.ts)

    def _wait_began(self, event: e.WaitBegan, at: e.Recorded) -> None:
        self.waits[event.service] = (at.ts, event)

    def _wait_ended(self, event: e.WaitEnded, _at: e.Recorded) -> None:
        self.waits.pop(event.service, None)

    def _parked(self, event: e.RunParked, at: e.Recorded) -> None:
        if event.task in self.tasks:
            task = self.tasks[event.task]
            task.state, task.wake = "parked", event.until
        self.work.park(event.task, at.ts)

    def _task_started(self, event: e.TaskStarted, at: e.Recorded) -> None:
        task = self._task(event.task, event.title)
        task.started = task.started or at.ts
        task.ended = task.proof = task.measured = None
        task.blocked_by = ()
        self._wait_no_more(task)
        task.kind, task.state, task.reason, task.lane = event.kind, "running", "", event.lane
        self.lane_count = max(self.lane_count, event.lane)
        self.work.begin(task, at.ts, event.after, event.why)

    def _task_waiting(self, event: e.TaskWaiting, _at: e.Recorded) -> None:
        task = self._task(event.task)
        if event.by:
            task.waits_for, task.waits_why = event.by, event.why
            self.waiting[task.key] = task
        else:
            self._wait_no_more(task)

    def _wait_no_more(self, task: TaskView) -> None:
        task.waits_for, task.waits_why = (), ""
        self.waiting.pop(task.key, None)

    def _task_merged(self, event: e.TaskMerged, _at: e.Recorded) -> None:
        self._task(event.task).merged = event.commit

    def _task_collided(self, event: e.TaskCollided, at: e.Recorded) -> None:
        task = self._task(event.task)
        task.collisions += 1
        self.collisions += 1
        why = f"a collision with {', '.join(event.tasks) or 'new commits'}: {event.reason}"
        self.work.collide(task, at.ts, event.then != "human", why)

    def _gate_reached(self, event: e.GateReached, at: e.Recorded) -> None:
        self.gate, self.gate_ts = event.task, at.ts
        self.comments.pop(e.PLAN_GATE, None)

    def _gate_passed(self, event: e.GatePassed, _at: e.Recorded) -> None:
        self.gate = None
        self.passed.add(event.task)

    def unheard(self, task: str) -> dict[int, str]:
        """Return what people said about a task that no agent has got yet."""
        said = self.comments.get(task, {})
        return {number: text for number, text in said.items() if number not in self.heard}

    def _commented(self, event: e.TaskCommented, at: e.Recorded) -> None:
        self.said.add(event.id)
        if event.by != e.SEGUE:
            self.comments[event.task] = {**self.comments.get(event.task, {}), at.seq: event.text}

    def _delivered(self, event: e.WordsDelivered, _at: e.Recorded) -> None:
        self.heard.update(event.words)

    def _task_blocked(self, event: e.TaskBlocked, _at: e.Recorded) -> None:
        task = self._task(event.task, event.title)
        self._wait_no_more(task)
        task.state, task.blocked_by = "blocked", event.by
        task.reason = f"waits for {', '.join(event.by)}: {event.why}"

    def _task_marked(self, event: e.TaskMarked, _at: e.Recorded) -> None:
        if event.by is None:
            return
        task = self._task(event.task)
        task.blocked_by = ()
        self._wait_no_more(task)
        task.state, task.reason = ("skipped" if event.skipped else "done"), event.reason
        task.proof = None if event.skipped else accept(task.measured, event.by)
        if task.verdict == Result.PASS:
            task.verdict = None  # what proved it no longer counts

    def _imported(self, event: e.StateImported, _at: e.Recorded) -> None:
        """Show tasks as pending that no longer count as done."""
        for key, task in self.tasks.items():
            taken_back = event.done is not None and key not in event.done and key not in event.skipped
            if task.state in ("done", "skipped") and (taken_back or key == event.task):
                task.state, task.reason = "pending", ""
                task.proof = task.commit = task.verdict = None

    def _task_ended(self, event: e.TaskEnded, at: e.Recorded) -> None:
        task = self._task(event.task)
        task.ended, task.reason, task.remaining = at.ts, event.reason, event.remaining
        task.commit = event.commit or task.commit
        task.branch = event.branch or task.branch
        task.state = end_state(event)
        task.measured = event.proof
        task.proof = event.proof if task.state == "done" else None
        self._repeat_later(task)
        self.before.end(event)
        if event.done:
            self.comments.pop(event.task, None)
            self.branch = event.branch
            task.verdict = end_verdict(event, task.verdict)
        self._wait_no_more(task)
        self.work.end(task, at.ts)

    def _repeat_later(self, task: TaskView) -> None:
        shown = task.proof is not None and any(check.scenario and not check.of for check in task.proof.checks)
        if shown or (task.proof is not None and task.kind is TaskKind.VERIFY_ONLY):
            self.repeatable.add(task.key)
        else:
            self.repeatable.discard(task.key)

    def _step_started(self, event: e.StepStarted, at: e.Recorded) -> None:
        if event.phase == "sleep" or _is_decision(at):  # nobody works
            return
        self.work.tick(at.ts)
        name = f"{event.agent}:{event.model}" if event.model else event.agent or ""
        step = self._steps[at.step or ""] = LaunchView(event.phase or "", name, event.proves)
        task = self._owner(at.step)
        # The exam is written beside the work; what the task is seen to do is the work.
        is_beside = task is not None and bool(event.agent) and self.work.is_busy(f"task/{task.key}/")
        self.work.begin_step(at.step or "", step)
        if task is None or event.phase in _UNSEEN or is_beside:
            return
        self.work.unpause(task, at.ts)
        if event.phase == "merge":
            self.work.begin_merge(task, at.ts)
        task.phase = event.phase or task.phase
        task.agent = name or task.agent
        if task is self.planning and task.started is None:
            task.started, task.state = at.ts, "running"
            self.work.begin(task, at.ts)

    def _step_adopted(self, _event: e.StepAdopted, at: e.Recorded) -> None:
        step = self._steps.get(at.step or "")
        if step is not None:
            self.work.begin_step(at.step or "", step)

    def _step_ended(self, event: e.StepEnded, at: e.Recorded) -> None:
        if _is_decision(at):
            return
        self.work.tick(at.ts)
        self.work.end_step(at.step or "")
        task = self._owner(at.step)
        if task is not None and task.state == "parked":
            task.state, task.wake = "running", None
            self.work.wake(task, at.ts)
        if task is not None and (at.step or "").split("/")[2] == "merge":
            self.work.end_merge(task, at.ts)
        if task is self.planning and task is not None and task.key in self.work.under_way:
            task.state, task.ended = ("done" if event.ok else "needs_human"), at.ts

    def _agent_started(self, event: e.AgentStarted, at: e.Recorded) -> None:
        task = self._owner(at.step)
        if task is not None and event.agent_id:
            task.agent_id, task.url = event.agent_id, event.url

    def _prompted(self, _event: e.PromptSent, at: e.Recorded) -> None:
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

    def _agent_ended(self, event: e.AgentEnded, at: e.Recorded) -> None:
        step = self._steps.setdefault(at.step or "", LaunchView("", ""))
        if event.failure is not None and event.failure.until is not None:
            self.limits[step.agent] = event.failure.until
        first, step.usage = step.usage is None, event.usage or Usage()
        task = self._owner(at.step)
        if task is not None:
            task.stuck = ""
        if first:
            self._reports.append((task, step))
            self.usage += step.usage
            if task is not None:
                task.usage += step.usage
        else:  # an adopted launch reports its end again: the last report counts
            self.usage = total_usage(step for _, step in self._reports)
            if task is not None:
                task.usage = total_usage(step for owner, step in self._reports if owner is task)

    def _budget_passed(self, event: e.BudgetPassed, _at: e.Recorded) -> None:
        if event.task:
            self._task(event.task).over_budget = event.text

    def _agent_stuck(self, event: e.AgentStuck, at: e.Recorded) -> None:
        task = self._owner(at.step)
        if task is not None:
            task.stuck = event.reason

    def _verdict(self, event: e.VerdictGiven, at: e.Recorded) -> None:
        task = self._owner(at.step)
        if task is not None:
            task.reason = event.reason
            task.verdict = None if event.result is Result.PASS else event.result.value

    def _tampered(self, event: e.Tampered, _at: e.Recorded) -> None:
        self._task(event.task).tampering += len(event.findings)

    def _committed(self, event: e.Committed, at: e.Recorded) -> None:
        task = self._task(event.task)
        task.commit = event.commit
        if task.lane:
            task.phase = "merge"  # unless another phase follows
            self.work.pause(task, at.ts)

    def _kept(self, event: e.WorkKept, _at: e.Recorded) -> None:
        self._task(event.task).kept = event.ref or None

    def _plan_revised(self, event: e.PlanRevised, _at: e.Recorded) -> None:
        self.plans += 1
        begun = {key: task for key, task in self.tasks.items() if task.started or key in event.titles}
        new = {key: TaskView(key, title) for key, title in event.titles.items() if key not in begun}
        self.tasks = {**begun, **new}
        for key, title in event.titles.items():
            self.tasks[key].title = title

    def _replaced(self, _event: e.AgentReplaced, _at: e.Recorded) -> None:
        self.fallbacks += 1

    def _searched(self, _event: e.SearchDone, _at: e.Recorded) -> None:
        self.searches += 1


def _is_decision(at: e.Recorded) -> bool:
    """Return whether a step is a person's decision about a task: nobody works on the run at that time."""
    return (at.step or "").endswith("/end")


_Fold = Callable[[RunView, Any, e.Recorded], None]
_TIMED: dict[type[e.Event], _Fold] = {
    e.RunEnded: RunView._ended,
    e.RunParked: RunView._parked,
    e.TaskStarted: RunView._task_started,
    e.TaskMerged: RunView._task_merged,
    e.TaskCollided: RunView._task_collided,
    e.TaskBlocked: RunView._task_blocked,
    e.TaskEnded: RunView._task_ended,
    e.PromptSent: RunView._prompted,
    e.AgentEnded: RunView._agent_ended,
    e.VerdictGiven: RunView._verdict,
    e.Committed: RunView._committed,
    e.PlanRevised: RunView._plan_revised,
    e.AgentReplaced: RunView._replaced,
    e.SearchDone: RunView._searched,
    e.DiagnosticRun: lambda _view, _event, _at: None,
}
"""Events up to which the time since the last one counts as work."""
_FOLDS: dict[type[e.Event], _Fold] = {
    **_TIMED,
    e.RunStarted: RunView._session,
    e.RunResumed: RunView._session,
    e.WaitBegan: RunView._wait_began,
    e.WaitEnded: RunView._wait_ended,
    e.TaskWaiting: RunView._task_waiting,
    e.GateReached: RunView._gate_reached,
    e.GatePassed: RunView._gate_passed,
    e.TaskCommented: RunView._commented,
    e.WordsDelivered: RunView._delivered,
    e.TaskMarked: RunView._task_marked,
    e.StateImported: RunView._imported,
    e.StepStarted: RunView._step_started,
    e.StepAdopted: RunView._step_adopted,
    e.StepEnded: RunView._step_ended,
    e.Tampered: RunView._tampered,
    e.WorkKept: RunView._kept,
    e.BudgetPassed: RunView._budget_passed,
    e.AgentStarted: RunView._agent_started,
    e.AgentStuck: RunView._agent_stuck,
    e.BaseChecked: lambda view, event, _at: view.before.know(event),
    e.WorkDelivered: lambda view, event, _at: setattr(view, "delivery", event),
}
FOLDED: tuple[type[e.Event], ...] = tuple(_FOLDS)
"""The kinds of events a view is computed from. All others change nothing in it."""
