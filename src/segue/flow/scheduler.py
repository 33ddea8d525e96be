"""Run the tasks of a source, in order or several at once, until none is left or one needs a human."""

from __future__ import annotations

from collections.abc import Collection

from segue.domain.delivery import is_feedback
from segue.domain.graph import find_block
from segue.domain.results import EndOutput, StepFacts, StepResult
from segue.domain.task import without_secrets
from segue.flow.context import Lanes, RunContext
from segue.flow.pending import Gates, PendingTasks, Tally, find_cut_off
from segue.flow.phases.outline import outline
from segue.flow.survey import survey
from segue.flow.task import end_event, run_task


async def run_tasks(context: RunContext, chosen: Collection[str] = (), lanes: Lanes | None = None) -> None:
    """Run every pending task (of the chosen ones); raises NeedsHuman when one could not be finished."""
    if context.building is not None:
        if not (context.cloud or context.building.outline.is_planned()):
            await survey(context, (await context.workspace.snapshot()).head)
        await outline(context, context.building)
        await _end_dropped(context)
    tally, pending = Tally(context), PendingTasks(context, chosen)
    if lanes is None:
        await _run_in_order(context, pending, tally)
    else:
        from segue.flow.parallel import SideBySide

        await SideBySide(context, pending, lanes, tally).run()
    tally.conclude()


async def _run_in_order(context: RunContext, pending: PendingTasks, tally: Tally) -> None:
    gates = Gates(context)
    while not tally.is_enough and (task := pending.next()) is not None:
        if blocked := find_block(task.depends_on, tally.stuck, tally.asked):
            await tally.block(task, blocked)
            continue
        await gates.stop_before(task)
        ending = await run_task(context, without_secrets(task, context.redact))
        tally.add(task, ending)
        if ending.replanned:
            pending.put_back(task.key)


async def _end_dropped(context: RunContext) -> None:
    """End a step in the journal too that a new plan dropped just before a crash."""
    planned = {task.key for task in context.source.tasks().tasks}
    for key in sorted(key for key in find_cut_off(context) - planned if not is_feedback(key)):
        ending = EndOutput(reason="planned again", replanned=True)
        await context.emit(end_event(key, ending))
        await context.journal.record(f"task/{key}/end", StepResult(False, ending), StepFacts(key, "end"))
