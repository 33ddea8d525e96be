"""Carry one task through the phases of its flow, then write completion back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass

from segue.domain.event import EventType
from segue.domain.run import StepState
from segue.domain.task import Completion, Task, TaskStatus
from segue.domain.workspace import Snapshot
from segue.flow.carried import Carried, PhaseEnd
from segue.flow.commit import committed_task
from segue.flow.execute import execute
from segue.flow.kit import FLOWS, Kit
from segue.flow.plan import plan
from segue.flow.review import review
from segue.ports import StepFacts, StepResult

PHASES: dict[str, Callable[[Kit, Task, Carried], Awaitable[PhaseEnd]]] = {
    "plan": plan,
    "execute": execute,
    "review": review,
}


@dataclass(frozen=True, slots=True)
class Ending:
    """How a task ended in this run."""

    done: bool
    reason: str
    attempts: int
    commit: str | None = None
    remaining: int = 0


async def carry(kit: Kit, task: Task) -> Ending:
    """Carry the task to its end. Everything already journalled is not done again."""
    end = f"task/{task.key}/end"
    await _begin_again(kit, task, end)
    await kit.emit(EventType.TASK_STARTED, task=task.key, title=task.title)
    base = await _base(kit, task)
    carried = Carried(base, base.head)
    ended = await _through(kit, task, carried)
    reason = ended.reason or "done"
    ending = Ending(ended.ok, reason, carried.launches, carried.commit, carried.remaining)
    await _end(kit, task, ending, carried, end)
    await kit.emit(EventType.TASK_ENDED, task=task.key, **asdict(ending))
    return ending


async def _through(kit: Kit, task: Task, carried: Carried) -> PhaseEnd:
    ended = PhaseEnd(True)
    for name in FLOWS[kit.policy.flow]:
        ended = await PHASES[name](kit, task, carried)
        if not ended.ok:
            return ended
    saved = await committed_task(kit, task, carried)
    return ended if saved.ok else saved


async def _begin_again(kit: Kit, task: Task, end: str) -> None:
    """A task that ended before is pending again: it failed, or someone took its completion back.

    After a failure the base stays, because what the failed attempts left behind is this task's work;
    so does a plan that was accepted.
    """
    state = kit.journal.state(end)
    if state is StepState.FAILED:
        planned = [step.state for step in kit.journal.steps(f"task/{task.key}/plan/")]
        parts = ["execute/", "review/", "address/", "park/", "commit/", "end"]
        for part in parts if StepState.DONE in planned else ["plan/", *parts]:
            await kit.journal.redo(f"task/{task.key}/{part}")
    elif state is StepState.DONE:
        await kit.emit(EventType.STATE_IMPORTED, task=task.key, text=f"Task {task.key} is pending again.")
        await kit.journal.redo(f"task/{task.key}/")


async def _base(kit: Kit, task: Task) -> Snapshot:
    async def work(_token: str) -> StepResult:
        now = await kit.workspace.snapshot()
        return StepResult(True, {"head": now.head, "branch": now.branch, "dirty": now.dirty})

    result = await kit.journal.step(f"task/{task.key}/base", work, facts=StepFacts(task.key, "base"))
    return Snapshot(**result.output)


async def _end(kit: Kit, task: Task, ending: Ending, carried: Carried, key: str) -> None:
    async def work(_token: str) -> StepResult:
        if ending.done:
            seq = await kit.emit(EventType.TASK_MARKED, key, task=task.key)
            done = Completion(TaskStatus.DONE, kit.journal.run.id, seq, carried.head or None, carried.plan)
            kit.source.mark(task, done)
        return StepResult(ending.done, asdict(ending))

    await kit.journal.step(key, work, facts=StepFacts(task.key, "end"))
