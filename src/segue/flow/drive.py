"""Drive a run: one task after the other, until none is left or one needs a human."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from segue.domain.errors import NeedsHuman
from segue.domain.run import StepState
from segue.domain.task import Task, TaskStatus
from segue.flow.carry import carry
from segue.flow.kit import Kit


async def drive(kit: Kit, chosen: Collection[str] = ()) -> int:
    """Carry every pending task (of the chosen ones) and return how many were done."""
    done = 0
    walk = Walk(kit, chosen)
    while (task := walk.next()) is not None:
        ending = await carry(kit, replace(task, title=kit.redact(task.title), text=kit.redact(task.text)))
        if not ending.done:
            raise NeedsHuman(
                f"Task {task.key} needs a human: {ending.reason}",
                kept=_kept(kit, done),
                hint=f"Look: segue logs {kit.journal.run.id} --task {task.key}   "
                f"Go on: segue resume {kit.journal.run.id}",
            )
        done += 1
    return done


def _kept(kit: Kit, done: int) -> str:
    finished = f"{done} task{'' if done == 1 else 's'} done in this session" if done else "No task was lost"
    return f"{finished}; what the agent changed is in {kit.workspace.root}, uncommitted."


class Walk:
    """Gives out pending tasks in the source's order; reads the source again when someone changed it."""

    def __init__(self, kit: Kit, chosen: Collection[str]) -> None:
        self._kit = kit
        self._chosen = set(chosen)
        self._given: set[str] = set()
        self._open = {s.task for s in kit.journal.steps() if s.state is StepState.STARTED}
        self._stamp: object = object()
        self._rest: list[Task] = []

    def next(self) -> Task | None:
        """The next task, or None at the end."""
        stamp = self._kit.source.stamp()
        if stamp != self._stamp:
            self._rest = self._pending()
            self._stamp = self._kit.source.stamp()
        while self._rest:
            task = self._rest.pop()
            if task.key not in self._given:
                self._given.add(task.key)
                return task
        return None

    def _pending(self) -> list[Task]:
        tasks = self._kit.source.tasks().tasks
        return [task for task in reversed(tasks) if self._wants(task)]

    def _wants(self, task: Task) -> bool:
        """A task that is marked as done but whose last step was cut off is finished in the journal too."""
        if self._chosen and task.key not in self._chosen:
            return False
        return task.status is TaskStatus.PENDING or task.key in self._open
