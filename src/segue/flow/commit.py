"""Commits with trailers, made once: after a phase or at the end of a task."""

from __future__ import annotations

from segue.domain.errors import WorkspaceError
from segue.domain.event import EventType
from segue.domain.role import Role
from segue.domain.task import Task
from segue.domain.workspace import Snapshot
from segue.flow.context import Kit
from segue.flow.state import Carried, PhaseEnd
from segue.ports import StepFacts, StepResult


async def committed_phase(kit: Kit, task: Task, carried: Carried, phase: str) -> PhaseEnd:
    """Commit what a phase changed, where the policy or the reviewer wants that."""
    if kit.policy.commit == "phase" or kit.needs_commits:
        return await _commit(kit, task, carried, phase)
    return PhaseEnd(True)


async def committed_task(kit: Kit, task: Task, carried: Carried) -> PhaseEnd:
    """Commit whatever the task's phases have left uncommitted."""
    if kit.policy.commit == "never":
        return PhaseEnd(True)
    return await _commit(kit, task, carried, "task")


async def _commit(kit: Kit, task: Task, carried: Carried, label: str) -> PhaseEnd:
    key = f"task/{task.key}/commit/{label}"

    async def work(token: str) -> StepResult:
        commit = await kit.workspace.commit(_message(kit, task, carried, label, token))
        if commit:
            await kit.emit(EventType.COMMIT, key, task=task.key, commit=commit)
        return StepResult(True, {"commit": commit})

    async def reconcile(token: str) -> StepResult | None:
        found = await kit.workspace.find_commit(carried.base.head, token)
        return StepResult(True, {"commit": found}) if found else None

    try:
        result = await kit.journal.step(key, work, reconcile, StepFacts(task.key, "commit"))
    except WorkspaceError as error:
        return PhaseEnd(False, f"{error.message} The agent's changes are in the work tree.")
    if result.output["commit"]:
        carried.commit = result.output["commit"]
        carried.now = Snapshot(carried.commit, carried.now.branch, "")
    return PhaseEnd(True)


def _message(kit: Kit, task: Task, carried: Carried, label: str, token: str) -> str:
    title = task.title if task.title == f"Task {task.key}" else f"Task {task.key}: {task.title}"
    if label not in ("task", "execute"):
        title = f"Task {task.key}: {label.replace('-', ' ')}"
    return (
        f"{title}\n\nSegue-Run: {kit.journal.run.id}\nSegue-Task: {task.key}\n"
        f"Segue-Agent: {carried.agent or kit.cast[Role.EXECUTE][0].agent.name}\nSegue-Step: {token}\n"
    )
