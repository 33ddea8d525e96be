"""The replan phase: after a step has passed, do the steps that remain still fit?"""

from __future__ import annotations

from segue.domain.event import EventType
from segue.domain.task import Task
from segue.flow.context import Kit
from segue.flow.phases.outline import may_replan, replan
from segue.flow.state import Carried, PhaseEnd


async def checkpoint(kit: Kit, task: Task, carried: Carried) -> PhaseEnd:
    """Look at the rest of the plan again where the work went another way; the step itself has passed."""
    building = kit.building
    if building is None or building.replan == "never" or not _rest(kit, task):
        return PhaseEnd(True)
    caveats = carried.verdict.caveats if carried.verdict else ()
    if building.replan == "caveats" and not caveats:
        return PhaseEnd(True)
    if not may_replan(kit, building, task, carried):
        text = f"The plan was looked at {building.replans} times already; it stays as it is."
        await kit.emit(EventType.NOTICE, task=task.key, text=text)
        return PhaseEnd(True)
    reason = "\n".join(caveats) or f"Step {task.key} is done."
    result = await replan(kit, building, task, carried, reason, done=True)
    if not result.ok:
        text = f"The plan stays as it is, for no new one could be made: {result.output['verdict']['reason']}"
        await kit.emit(EventType.NOTICE, task=task.key, text=text)
    return PhaseEnd(True)


def _rest(kit: Kit, task: Task) -> bool:
    return any(step.key != task.key and step.status == "pending" for step in kit.source.tasks().tasks)
