"""A person's decision about a task that Segue could not finish: accept or skip it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from segue.domain.errors import UsageError
from segue.domain.event import Event, EventType
from segue.domain.run import Run
from segue.domain.task import Completion, Task, TaskStatus
from segue.flow.context import LAUNCHING
from segue.flow.task import Ending
from segue.ports import Journal, StepFacts, StepResult
from segue.runtime.wiring import App
from segue.system.git.repository import Repository
from segue.system.git.worktree import workplace
from segue.system.lock import RepoLock

Mark = Callable[[Task, Completion], None]


async def decide(app: App, run: Run, key: str, reason: str, *, skip: bool) -> None:
    """Write the decision to the source and the journal; refused while a process drives the run."""
    home = await Repository.open(Path(run.spec.repo))
    source = app.source(run.spec.source, home.root)
    task = next((task for task in source.tasks().tasks if task.key == key), None)
    if task is None:
        raise UsageError(
            f"There is no task {key!r} in {run.spec.source}.", hint="List the tasks: segue task list"
        )
    if task.status is TaskStatus.DONE:
        raise UsageError(f"Task {key} is already done.", kept="Nothing was changed.")
    with app.store(read_only=True) as known:
        repo = await workplace(home, run, begun=bool(known.steps(run.id)))
    lock = RepoLock.take(repo.git_dir, run.id)
    try:
        with app.store() as store:
            journal = await store.open(run.id)
            try:
                await _record(journal, task, reason, skip, source.mark)
            finally:
                await store.close(journal)
    finally:
        lock.release()


async def _record(journal: Journal, task: Task, reason: str, skip: bool, mark: Mark) -> None:
    end = f"task/{task.key}/end"
    status = TaskStatus.SKIPPED if skip else TaskStatus.DONE
    work_left = {} if skip else _last_work(journal, task)
    await journal.redo(end)

    async def work(_token: str) -> StepResult:
        marked = Event(
            EventType.TASK_MARKED, {"task": task.key, "done": True, "by": "person", "reason": reason}
        )
        seq = (await journal.emit(marked, end)).seq
        commit, branch = work_left.get("head"), work_left.get("branch")
        mark(task, Completion(status, journal.run.id, seq, commit=commit, branch=branch))
        ending = Ending(True, reason, 0, commit, branch=branch, skipped=skip)
        return StepResult(True, asdict(ending))

    await journal.step(end, work, facts=StepFacts(task.key, "end"))


def _last_work(journal: Journal, task: Task) -> dict[str, str]:
    """Return head and branch of the task's last launch, on which the next task builds."""
    launches = [
        s for s in journal.steps(f"task/{task.key}/") if s.phase in LAUNCHING and s.output.get("branch")
    ]
    return launches[-1].output if launches else {}
