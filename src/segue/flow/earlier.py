"""What earlier tasks changed, from the journals of this run and of those before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from segue.domain.results import EndOutput, LaunchOutput, read_as
from segue.domain.run import Step, StepState
from segue.flow.phase import PHASES
from segue.prompts.task import list_earlier

if TYPE_CHECKING:
    from segue.flow.context import RunContext
    from segue.store.store import Store

_LAST_RUNS = 20


def files_by_task(steps: Iterable[Step]) -> dict[str, tuple[str, ...]]:
    """Return the files that the tasks of a run changed which are done, in the order in which they ended."""
    files: dict[str, tuple[str, ...]] = {}
    found: dict[str, tuple[str, ...]] = {}
    for step in steps:
        if step.task is None or step.state is not StepState.DONE:
            continue
        if changed := _changed(step):
            files[step.task] = changed
        elif step.phase == "end" and step.task in files and not read_as(EndOutput, step.output).skipped:
            found[step.task] = files[step.task]
    return found


def left_behind(context: RunContext, task: str) -> tuple[str, ...]:
    """Return the files that the last launch of a task of this run left changed, whether it is done or not."""
    changed = [files for step in context.journal.steps(f"task/{task}/") if (files := _changed(step))]
    return changed[-1] if changed else ()


def _changed(step: Step) -> tuple[str, ...]:
    """Return the files that a launch changed: each sees everything since the task began."""
    phase = PHASES.get(step.phase or "")
    return read_as(LaunchOutput, step.output).files if phase is not None and phase.edits else ()


def describe_earlier(context: RunContext, task: str) -> str:
    """Return what tasks before this one changed, as an agent is shown it."""
    return context.redact(list_earlier(context.earlier, task))


def remember(context: RunContext, task: str) -> None:
    """Add what a task changed that has just ended."""
    context.earlier.update(files_by_task(context.journal.steps(f"task/{task}/")))


def read_earlier(store: Store, source_key: str) -> dict[str, tuple[str, ...]]:
    """Return what the tasks of a source changed in its last runs."""
    merged: dict[str, tuple[str, ...]] = {}
    for run in reversed(list(store.runs(source_key, limit=_LAST_RUNS))):
        merged |= files_by_task(store.steps(run.id))
    return merged


def read_touched(store: Store, source_key: str) -> dict[str, tuple[str, ...]]:
    """Return what each task of a source changed in its last runs, done or not: it may well do so again."""
    touched: dict[str, tuple[str, ...]] = {}
    for run in reversed(list(store.runs(source_key, limit=_LAST_RUNS))):
        for step in store.steps(run.id):
            if step.task is not None and step.ended is not None and (changed := _changed(step)):
                touched[step.task] = changed
    return touched


def read_durations(store: Store, source_key: str) -> dict[str, float]:
    """Return for how many seconds each task was worked on that was done in the last runs of a source."""
    seconds: dict[str, float] = {}
    for run in reversed(list(store.runs(source_key, limit=_LAST_RUNS))):
        worked: dict[str, int] = {}
        for step in store.steps(run.id):
            if step.task is None or step.ended is None or "/park/" in step.key:
                continue
            worked[step.task] = worked.get(step.task, 0) + step.ended - step.started
            if step.phase == "end" and step.state is StepState.DONE:
                seconds[step.task] = worked[step.task] / 1000
    return seconds
