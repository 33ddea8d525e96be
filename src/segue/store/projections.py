"""What the steps of a run say about its tasks: the view that `status` and the summary show."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from segue.domain.run import Run, RunState, Step, StepState
from segue.system import identity

_STARTING = 10.0
"""Seconds a run may be without a process while one is being started in the background."""


def state_of(run: Run) -> RunState:
    """Where the run really stands: a run whose process is gone does not run."""
    if run.state in (RunState.RUNNING, RunState.PARKED) and _abandoned(run):
        return RunState.STOPPED
    return run.state


def _abandoned(run: Run) -> bool:
    if run.owner is None:
        return time.time() - run.updated / 1000 > _STARTING
    return identity.is_dead(run.owner.split("#")[0])


@dataclass(slots=True)
class TaskView:
    """One task of a run."""

    key: str
    title: str
    state: str = "pending"
    phase: str = ""
    attempts: int = 0
    verdict: str | None = None
    reason: str = ""
    branch: str | None = None
    commit: str | None = None
    started: int | None = None
    ended: int | None = None
    tokens: int = 0
    cost_usd: float = 0.0

    @property
    def seconds(self) -> float | None:
        """How long the task took, once it has ended."""
        if self.started is None or self.ended is None:
            return None
        return (self.ended - self.started) / 1000


def task_views(run: Run, steps: Iterable[Step]) -> list[TaskView]:
    """The tasks of a run in the order in which they are carried."""
    views = {key: TaskView(key, title) for key, title in run.spec.titles.items()}
    for step in steps:
        parts = step.key.split("/")
        if parts[0] == "task":
            _read(views.setdefault(parts[1], TaskView(parts[1], f"Task {parts[1]}")), step)
    for view in views.values():
        if view.state == "running" and run.state not in (RunState.RUNNING, RunState.PARKED):
            view.state = "stopped"
    return list(views.values())


def _read(view: TaskView, step: Step) -> None:
    view.started = view.started or step.started
    view.ended = None
    view.state = "running"
    if step.phase in ("plan", "execute", "address", "resolve"):
        _read_attempt(view, step)
    elif step.phase in ("review", "verify", "search", "diagnostic", "replan"):
        view.phase = step.phase
        _add_usage(view, step)
        view.verdict = (step.output.get("verdict") or {}).get("result", view.verdict)
    elif step.phase == "sleep" and step.state is StepState.STARTED:
        view.state = "parked"
    elif step.phase == "commit":
        view.commit = step.output.get("commit") or view.commit
    elif step.phase == "end" and step.state is not StepState.STARTED:
        view.state = _ended(step)
        view.ended = step.ended
        view.reason = str(step.output.get("reason", ""))
        view.commit = view.commit or step.output.get("commit")
        view.branch = step.output.get("branch") or view.branch
        if step.state is StepState.DONE and step.output.get("remaining"):
            view.verdict = "PARTIAL"


def _read_attempt(view: TaskView, step: Step) -> None:
    view.attempts += 1
    view.phase = str(step.phase)
    view.verdict = (step.output.get("verdict") or {}).get("result")
    view.branch = step.output.get("branch") or view.branch
    _add_usage(view, step)


def _ended(step: Step) -> str:
    if step.output.get("skipped"):
        return "skipped"
    if step.state is StepState.DONE:
        return "done"
    return "replanned" if step.output.get("replanned") else "needs_human"


def _add_usage(view: TaskView, step: Step) -> None:
    usage = step.output.get("usage") or {}
    view.tokens += usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
    view.cost_usd += usage.get("cost_usd", 0.0)
