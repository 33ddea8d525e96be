"""Carry one task through the phases of its flow, then write completion back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass

from segue.domain.event import EventType
from segue.domain.run import StepState
from segue.domain.task import Completion, Task, TaskStatus
from segue.domain.workspace import Snapshot
from segue.flow.commit import committed_task
from segue.flow.context import FLOWS, Kit
from segue.flow.phases.execute import execute
from segue.flow.phases.plan import plan
from segue.flow.phases.replan import checkpoint
from segue.flow.phases.review import review
from segue.flow.phases.verify import verify
from segue.flow.state import Carried, PhaseEnd
from segue.ports import StepFacts, StepResult

PHASES: dict[str, Callable[[Kit, Task, Carried], Awaitable[PhaseEnd]]] = {
    "plan": plan,
    "execute": execute,
    "review": review,
    "verify": verify,
    "replan": checkpoint,
}


@dataclass(frozen=True, slots=True)
class Ending:
    """How a task ended in this run."""

    done: bool
    reason: str
    attempts: int
    commit: str | None = None
    remaining: int = 0
    branch: str | None = None
    skipped: bool = False
    replanned: bool = False


async def carry(kit: Kit, task: Task) -> Ending:
    """Carry the task to its end. Everything already journalled is not done again."""
    end = f"task/{task.key}/end"
    await _begin_again(kit, task, end)
    await kit.emit(EventType.TASK_STARTED, task=task.key, title=task.title)
    carried = await _started(kit, task)
    ended = await _through(kit, task, carried)
    reason = ended.reason or "done"
    branch = carried.now.branch
    commit = carried.commit or (carried.head if carried.head != carried.base.head else None)
    ending = Ending(
        ended.ok,
        reason,
        carried.launches,
        commit,
        carried.remaining,
        branch,
        ended.skipped,
        ended.replanned,
    )
    if ending.done:
        kit.spent.branch = branch
    await _end(kit, task, ending, carried, end)
    await kit.emit(EventType.TASK_ENDED, task=task.key, **asdict(ending))
    return ending


async def _through(kit: Kit, task: Task, carried: Carried) -> PhaseEnd:
    ended = PhaseEnd(True)
    for name in FLOWS[kit.policy.flow]:
        ended = await PHASES[name](kit, task, carried)
        if not ended.ok:
            return ended
        if ended.skipped:
            break
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
        parts = ["execute/", "review/", "address/", "verify/", "resolve/", "diagnostic/", "search/"]
        parts += ["replan/", "revise/", "park/", "commit/", "end"]
        for part in parts if StepState.DONE in planned else ["plan/", *parts]:
            await kit.journal.redo(f"task/{task.key}/{part}")
    elif state is StepState.DONE:
        await kit.emit(EventType.STATE_IMPORTED, task=task.key, text=f"Task {task.key} is pending again.")
        await kit.journal.redo(f"task/{task.key}/")


async def _started(kit: Kit, task: Task) -> Carried:
    """What the task began with, as the journal knows it; the workspace is made ready each time."""
    now = await kit.workspace.begin(task.key, kit.source.head_branch() or kit.spent.branch)
    seen = StepResult(True, {"head": now.head, "branch": now.branch, "dirty": now.dirty})
    result = await kit.journal.record(f"task/{task.key}/base", seen, StepFacts(task.key, "base"))
    base = Snapshot(**result.output)
    return Carried(base, base)


async def _end(kit: Kit, task: Task, ending: Ending, carried: Carried, key: str) -> None:
    """Write completion back first: doing that again does no harm, forgetting it would."""
    seq = await kit.emit(EventType.TASK_MARKED, key, task=task.key, done=ending.done)
    done = TaskStatus.SKIPPED if ending.skipped else TaskStatus.DONE
    completion = Completion(
        status=done if ending.done else TaskStatus.PENDING,
        run=kit.journal.run.id,
        seq=seq,
        commit=carried.head or None,
        plan=carried.plan,
        branch=carried.now.branch or None,
        session=carried.session,
        verdict=carried.verdict,
        error=None if ending.done else ending.reason,
        attempts=carried.launches,
    )
    if ending.done:
        kit.source.mark(task, completion)
    else:
        kit.source.record(task, completion)
    await kit.journal.record(key, StepResult(ending.done, asdict(ending)), StepFacts(task.key, "end"))
