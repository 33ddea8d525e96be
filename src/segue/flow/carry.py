"""Carry one task: attempts until one holds, then commit, then write completion back."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from segue.domain.errors import WorkspaceError
from segue.domain.event import EventType
from segue.domain.failure import FailureKind
from segue.domain.run import StepState
from segue.domain.task import Completion, Task, TaskStatus
from segue.domain.verdict import Action
from segue.domain.workspace import Snapshot
from segue.flow.execute import execute
from segue.flow.kit import MAX_PARKS, Kit
from segue.ports import StepFacts, StepResult


@dataclass(frozen=True, slots=True)
class Ending:
    """How a task ended in this run."""

    done: bool
    reason: str
    attempts: int
    commit: str | None = None


async def carry(kit: Kit, task: Task) -> Ending:
    """Carry the task to its end. Everything already journalled is not done again."""
    end = f"task/{task.key}/end"
    await _begin_again(kit, task, end)
    await kit.emit(EventType.TASK_STARTED, task=task.key, title=task.title)
    base = await _base(kit, task)
    attempts, result = await _attempts(kit, task, base)
    if result.ok:
        ending = await _committed(kit, task, base, attempts)
    else:
        ending = Ending(False, result.output["verdict"]["reason"], attempts)
    await _end(kit, task, ending, end)
    await kit.emit(EventType.TASK_ENDED, task=task.key, **asdict(ending))
    return ending


async def _begin_again(kit: Kit, task: Task, end: str) -> None:
    """A task that ended before is pending again: it failed, or someone took its completion back.

    After a failure the base stays, because what the failed attempts left behind is this task's work.
    """
    state = kit.journal.state(end)
    if state is StepState.FAILED:
        for part in ("execute/", "park/", "commit", "end"):
            await kit.journal.redo(f"task/{task.key}/{part}")
    elif state is StepState.DONE:
        await kit.emit(EventType.STATE_IMPORTED, task=task.key, text=f"Task {task.key} is pending again.")
        await kit.journal.redo(f"task/{task.key}/")


async def _base(kit: Kit, task: Task) -> Snapshot:
    """What the work tree looked like before the first attempt: all evidence is measured from here."""

    async def work(_token: str) -> StepResult:
        now = await kit.workspace.snapshot()
        return StepResult(True, {"head": now.head, "branch": now.branch, "dirty": now.dirty})

    result = await kit.journal.step(f"task/{task.key}/base", work, facts=StepFacts(task.key, "base"))
    return Snapshot(**result.output)


async def _attempts(kit: Kit, task: Task, base: Snapshot) -> tuple[int, StepResult]:
    counted = parks = number = 0
    feedback: str | None = None
    while True:
        number += 1
        result = await execute(kit, task, number, base, feedback)
        if result.ok or result.output["verdict"]["action"] == Action.STOP:
            return number, result
        failure: dict[str, Any] = result.output["failure"]
        if failure["kind"] == FailureKind.INTERRUPTED:
            continue
        if failure["kind"] == FailureKind.USAGE_LIMIT:
            parks += 1
            if failure["until"] is None or parks > MAX_PARKS:
                return number, result
            await _park(kit, task, parks, failure["until"])
            continue
        counted += 1
        if counted >= kit.policy.attempts:
            return number, result
        feedback = failure["message"]


async def _park(kit: Kit, task: Task, number: int, until: float) -> None:
    """Wait, durably, until the usage limit ends."""
    if until > time.time():
        await kit.emit(EventType.RUN_PARKED, task=task.key, until=until)
    await kit.journal.sleep(f"task/{task.key}/park/{number}", until)


async def _committed(kit: Kit, task: Task, base: Snapshot, attempts: int) -> Ending:
    if kit.policy.commit == "never":
        return Ending(True, "done", attempts)
    try:
        commit = await _commit(kit, task, base)
    except WorkspaceError as error:
        return Ending(False, f"{error.message} The agent's changes are in the work tree.", attempts)
    return Ending(True, "done", attempts, commit)


async def _commit(kit: Kit, task: Task, base: Snapshot) -> str | None:
    key = f"task/{task.key}/commit"

    async def work(token: str) -> StepResult:
        commit = await kit.workspace.commit(_message(kit, task, token))
        if commit:
            await kit.emit(EventType.COMMIT, key, task=task.key, commit=commit)
        return StepResult(True, {"commit": commit})

    async def reconcile(token: str) -> StepResult | None:
        found = await kit.workspace.find_commit(base.head, token)
        return StepResult(True, {"commit": found}) if found else None

    result = await kit.journal.step(key, work, reconcile, StepFacts(task.key, "commit"))
    commit: str | None = result.output["commit"]
    return commit


def _message(kit: Kit, task: Task, token: str) -> str:
    title = task.title if task.title == f"Task {task.key}" else f"Task {task.key}: {task.title}"
    return (
        f"{title}\n\nSegue-Run: {kit.journal.run.id}\nSegue-Task: {task.key}\n"
        f"Segue-Agent: {kit.agent.name}\nSegue-Step: {token}\n"
    )


async def _end(kit: Kit, task: Task, ending: Ending, key: str) -> None:
    async def work(_token: str) -> StepResult:
        if ending.done:
            seq = await kit.emit(EventType.NOTICE, key, text=f"Task {task.key} is marked as done.")
            kit.source.mark(task, Completion(TaskStatus.DONE, kit.journal.run.id, seq, ending.commit))
        return StepResult(ending.done, asdict(ending))

    await kit.journal.step(key, work, facts=StepFacts(task.key, "end"))
