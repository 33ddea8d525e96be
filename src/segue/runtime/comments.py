"""What a person says about work that an agent did, and about the plan: the agent gets the words."""

from __future__ import annotations

from msgspec.structs import replace

from segue.domain.errors import UsageError
from segue.domain.events import PLAN_GATE, PlanRevised, StateImported, TaskCommented
from segue.domain.plan import revise
from segue.domain.run import Run, RunState
from segue.domain.task import Completion, Task, TaskStatus
from segue.ports import Outline
from segue.runtime.app import App
from segue.runtime.overrides import HeldRun, find_fleet_task, find_task, hold_fleet_run, hold_run
from segue.runtime.plan_text import read_edited, write_plan
from segue.view.load import load_view

_MOST_CHARS = 20_000


async def comment(app: App, run: Run, key: str, text: str, via: str = "") -> None:
    """Store a comment on a task, or on the plan, for the next attempt; a task that is done is open again."""
    words = text.strip()
    if not words or len(words) > _MOST_CHARS:
        raise UsageError(
            f"A comment needs words, at most {_MOST_CHARS} characters.", kept="Nothing was changed."
        )
    if run.spec.origin is not None:
        await _comment_far(app, run, key, words, via)
        return
    async with hold_run(app, run, via) as held:
        if key == PLAN_GATE:
            _check_plan(app, run)
            await held.journal.emit(TaskCommented(PLAN_GATE, words, held.by))
            return
        task = find_task(held.source, key)
        await held.journal.emit(TaskCommented(key, words, held.by))
        if task.status is not TaskStatus.PENDING:
            await _open_again(held, task)


async def _comment_far(app: App, run: Run, key: str, words: str, via: str) -> None:
    """Store a comment on a task of a fleet's run, which the worker finds that continues the run.

    One that is done cannot be opened again from here: its source is with the worker.
    """
    async with hold_fleet_run(app, run, via) as (journal, by):
        if key == PLAN_GATE:
            _check_plan(app, run)
        else:
            find_fleet_task(journal, key)
        await journal.emit(TaskCommented(key, words, by))


async def edit_plan(app: App, run: Run, text: str, via: str = "") -> bool:
    """Replace the steps of a plan that are still to be done; return whether anything changed."""
    async with hold_run(app, run, via) as held:
        outline = _outline(held, run)
        old = outline.tasks().tasks
        steps = read_edited(text, old, outline.last_number())
        new = revise(old, steps)
        if new == old:
            return False
        titles = {step.key: step.title for step in new}
        await held.journal.respec(replace(held.journal.run.spec, titles=titles))
        await held.journal.emit(PlanRevised("", f"edited by {held.by}", titles, old, new))
        outline.revise(steps, run.id)
        return True


def read_plan_text(app: App, run: Run) -> str:
    """Return the plan of a run as text to edit."""
    from pathlib import Path

    source = app.source(run.spec.source, Path(run.spec.repo), run.spec.source_kind)
    if source.outline is None:
        raise _no_plan(run)
    return write_plan(source.outline.tasks().tasks)


async def _open_again(held: HeldRun, task: Task) -> None:
    """Take back that a task is done, so that the run continues with it."""
    run = held.journal.run
    said = await held.journal.emit(StateImported(f"Task {task.key} is pending again.", task.key))
    held.source.mark(task, Completion(TaskStatus.PENDING, run.id, said.seq))
    if run.state is RunState.DONE:
        note = f"Task {task.key} will be done again, with the comment on it."
        await held.journal.set_state(RunState.NEEDS_HUMAN, note)


def _check_plan(app: App, run: Run) -> None:
    """Refuse words about a plan that nobody waits to hear."""
    with app.store(read_only=True) as store:
        if load_view(store, run).gate == PLAN_GATE:
            return
    raise UsageError(
        f"Run {run.id} is not waiting for you to approve its plan.",
        kept="Nothing was changed.",
        hint="Change the steps that are left: segue task edit   Comment on one: segue task comment KEY",
    )


def _outline(held: HeldRun, run: Run) -> Outline:
    if held.source.outline is None:
        raise _no_plan(run)
    return held.source.outline


def _no_plan(run: Run) -> UsageError:
    return UsageError(
        f"The tasks of run {run.id} come from {run.spec.source}, not from a plan that an agent made.",
        kept="Nothing was changed.",
        hint="Edit that file instead",
    )
