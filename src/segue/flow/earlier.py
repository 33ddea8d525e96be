"""What earlier tasks did, from the journals of this run and of those before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from segue.domain.results import EndOutput, LaunchOutput, WorkNote, read_as
from segue.domain.run import Step, StepState
from segue.domain.task import Task
from segue.flow.phase import PHASES
from segue.prompts.handover import describe_handover

if TYPE_CHECKING:
    from segue.flow.context import RunContext
    from segue.flow.state import TaskState
    from segue.store.store import Store

_LAST_RUNS = 20
_LONGEST_WORDS = 700
_MOST_DEMANDS = 5
_LONGEST_DEMAND = 200


async def write_note(context: RunContext, state: TaskState) -> WorkNote | None:
    """Return what the next tasks are told about one that is done; None where nobody is told."""
    if not context.policy.handover_bytes:
        return None
    names = ""
    if not context.cloud and state.head != state.base.head:
        names = await context.checking.sealer().describe_result(state.base.head, state.head)
    paragraphs = [part.strip() for part in state.last.summary.split("\n\n") if part.strip()]
    said = " ".join(paragraphs[-1].split())[:_LONGEST_WORDS] if paragraphs else ""
    demanded = (" ".join(one.split())[:_LONGEST_DEMAND] for one in dict.fromkeys(state.demanded))
    last = tuple(map(context.redact, demanded))[-_MOST_DEMANDS:]
    return WorkNote(state.last.files, context.redact(names), context.redact(said), last)


def notes_by_task(steps: Iterable[Step]) -> dict[str, WorkNote]:
    """Return what the tasks of a run did which are done, in the order in which they ended."""
    files: dict[str, tuple[str, ...]] = {}
    found: dict[str, WorkNote] = {}
    for step in steps:
        if step.task is None or step.state is not StepState.DONE:
            continue
        if changed := _changed(step):
            files[step.task] = changed
        elif step.phase == "end" and step.task in files:
            ending = read_as(EndOutput, step.output)
            if not ending.skipped:
                note = ending.note or WorkNote()
                found[step.task] = WorkNote(files[step.task], note.names, note.said, note.demanded)
    return found


def find_left(steps: Iterable[Step]) -> LaunchOutput | None:
    """Return the last launch of a task that left its work on a branch."""
    editing = {phase.name for phase in PHASES.values() if phase.edits}
    launches = [read_as(LaunchOutput, step.output) for step in steps if step.ended and step.phase in editing]
    return next((launch for launch in reversed(launches) if launch.branch), None)


def left_behind(context: RunContext, task: str) -> tuple[str, ...]:
    """Return the files that the last launch of a task of this run left changed, whether it is done or not."""
    changed = [files for step in context.journal.steps(f"task/{task}/") if (files := _changed(step))]
    return changed[-1] if changed else ()


def _changed(step: Step) -> tuple[str, ...]:
    """Return the files that a launch changed: each sees everything since the task began."""
    phase = PHASES.get(step.phase or "")
    return read_as(LaunchOutput, step.output).files if phase is not None and phase.edits else ()


def describe_earlier(context: RunContext, task: Task) -> str:
    """Return what tasks before this one did, as an agent is shown it."""
    return context.redact(describe_handover(context.earlier, task, context.policy.handover_bytes))


def remember(context: RunContext, task: str) -> None:
    """Add what a task did that has just ended."""
    context.earlier.update(notes_by_task(context.journal.steps(f"task/{task}/")))


def read_earlier(store: Store, source_key: str) -> dict[str, WorkNote]:
    """Return what the tasks of a source did in its last runs."""
    merged: dict[str, WorkNote] = {}
    for run in reversed(list(store.runs(source_key, limit=_LAST_RUNS))):
        merged |= notes_by_task(store.steps(run.id))
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
