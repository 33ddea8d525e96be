"""What earlier tasks changed, from the journals of this run and of those before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from segue.domain.results import LaunchOutput, read_as
from segue.domain.run import Step, StepState
from segue.prompts.task import list_earlier

if TYPE_CHECKING:
    from segue.flow.context import RunContext
    from segue.ports import Store

_LAST_RUNS = 20


def files_by_task(steps: Iterable[Step]) -> dict[str, tuple[str, ...]]:
    """Return the files that the tasks of a run changed which are done, in the order in which they ended."""
    from segue.flow.phases import PHASES

    editing = {phase.name for phase in PHASES.values() if phase.edits}
    files: dict[str, tuple[str, ...]] = {}
    found: dict[str, tuple[str, ...]] = {}
    for step in steps:
        if step.task is None or step.state is not StepState.DONE:
            continue
        if step.phase in editing and (changed := read_as(LaunchOutput, step.output).files):
            files[step.task] = changed  # each launch sees everything since the task began
        elif step.phase == "end" and step.task in files:
            found[step.task] = files[step.task]
    return found


def describe_earlier(context: RunContext, task: str) -> str:
    """Return what tasks before this one changed, as an agent is told."""
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
