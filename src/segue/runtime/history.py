"""What is done of a source over all its runs, as the journal knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from segue.domain.events import Committed, PlanRevised, Recorded, StateImported, TaskMarked
from segue.domain.results import EndOutput, JudgeOutput, LaunchOutput, SnapshotOutput, read_as
from segue.domain.run import Step, StepState
from segue.domain.source import SourceHistory
from segue.domain.task import Completion, Task, TaskStatus

if TYPE_CHECKING:
    from segue.store.store import Store

_KINDS = (TaskMarked, StateImported, PlanRevised, Committed)
_ENDS = (
    "SELECT s.run_id, s.task FROM orchestrator_steps s JOIN orchestrator_runs r ON r.id = s.run_id"
    " WHERE r.source_key = ? AND s.phase = 'end' AND s.state = 'done' AND s.superseded IS NULL"
)


def read_history(store: Store, source_key: str, *, details: bool = False) -> SourceHistory:
    """Return what the journal knows about the tasks of a source; `details`: branch, plan, verdict."""
    runs = tuple(run.id for run in reversed(store.runs(source_key=source_key)))
    if not runs:
        return SourceHistory()
    ended = {(str(row["run_id"]), str(row["task"])) for row in store.query(_ENDS, [source_key])}
    fold = _Fold(ended)
    for run in runs:
        for event in store.events(run, kinds=_KINDS):
            fold.apply(event)
    marks = _detailed(store, fold.marks) if details else fold.marks
    return SourceHistory(runs, marks, tuple(fold.plans), frozenset(fold.without))


class _Fold:
    """Takes the events of a source one by one."""

    def __init__(self, ended: set[tuple[str, str]]) -> None:
        self._ended = ended
        self._commits: dict[str, str] = {}
        self.marks: dict[str, Completion] = {}
        self.plans: list[tuple[Task, ...]] = []
        self.without: set[str] = set()

    def apply(self, recorded: Recorded) -> None:
        match recorded.event:
            case Committed(task, commit):
                self._commits[task] = commit
            case PlanRevised() as revised:
                self.plans.append(revised.new)
            case TaskMarked() as marked:
                self._mark(marked, recorded)
            case StateImported() as imported:
                self._import(imported, recorded)

    def _mark(self, event: TaskMarked, at: Recorded) -> None:
        # A task that was marked but not ended is ended, without a launch, when its run is resumed.
        if event.done and event.by is None and (at.run, event.task) not in self._ended:
            return
        if not event.done and event.task not in self.marks:
            return
        done = TaskStatus.SKIPPED if event.skipped else TaskStatus.DONE
        seq = at.seq if at.step else 0  # without a step it was the source that said so
        self._set(event.task, done if event.done else TaskStatus.PENDING, at.run, seq, event.digest)

    def _import(self, event: StateImported, at: Recorded) -> None:
        self.without.update(event.without)
        if event.task is not None:
            self._set(event.task, TaskStatus.PENDING, at.run)
        if event.done is None:
            return
        now = dict.fromkeys(event.skipped, TaskStatus.SKIPPED) | dict.fromkeys(event.done, TaskStatus.DONE)
        for key in [*self.marks, *now]:
            before, status = self.marks.get(key), now.get(key, TaskStatus.PENDING)
            digest = event.done.get(key, "")
            if before is None or before.status is not status:
                self._set(key, status, at.run, digest=digest)
            elif digest and before.digest != digest:
                self.marks[key] = replace(before, digest=digest)

    def _set(self, task: str, status: TaskStatus, run: str, seq: int = 0, digest: str = "") -> None:
        self.marks.pop(task, None)
        commit = self._commits.get(task) if seq and status is TaskStatus.DONE else None
        self.marks[task] = Completion(status, run, seq, commit, digest=digest or None)


def _detailed(store: Store, marks: Mapping[str, Completion]) -> dict[str, Completion]:
    """Return the marks with what the steps of their runs recorded."""
    found: dict[tuple[str, str], list[Step]] = {}
    for run in {mark.run for mark in marks.values() if mark.status is TaskStatus.DONE}:
        for step in store.steps(run):
            if step.task is not None and step.state is StepState.DONE:
                found.setdefault((run, step.task), []).append(step)
    return {key: _describe(mark, found.get((mark.run, key), [])) for key, mark in marks.items()}


def _describe(mark: Completion, steps: list[Step]) -> Completion:
    by_phase = {step.phase: step for step in steps}
    end = by_phase.get("end")
    if mark.status is not TaskStatus.DONE or end is None:
        return mark
    ending = read_as(EndOutput, end.output)
    base = read_as(SnapshotOutput, by_phase["base"].output) if "base" in by_phase else SnapshotOutput()
    from segue.flow.phase import PHASES  # only a run that has a past needs the flow

    editing = {phase.name for phase in PHASES.values() if phase.edits}
    launches = [read_as(LaunchOutput, step.output) for step in steps if step.phase in editing]
    plan, verify = by_phase.get("plan"), by_phase.get("verify")
    return replace(
        mark,
        commit=ending.commit or base.head or None,
        branch=ending.branch,
        attempts=ending.attempts,
        session=launches[-1].session if launches else None,
        agent_id=launches[-1].agent_id if launches else None,
        url=launches[-1].url if launches else None,
        plan=read_as(LaunchOutput, plan.output).text if plan else None,
        verdict=read_as(JudgeOutput, verify.output).verdict if verify else None,
    )
