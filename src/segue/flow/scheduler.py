"""Drive a run: one task after the other, until none is left or one needs a human."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict

from segue.domain.errors import NeedsHuman
from segue.domain.event import EventType
from segue.domain.run import Step, StepState
from segue.domain.task import Task, TaskStatus, without_secrets
from segue.flow.context import Kit
from segue.flow.phases.outline import outline
from segue.flow.task import Ending, carry
from segue.ports import StepFacts, StepResult


async def drive(kit: Kit, chosen: Collection[str] = ()) -> None:
    """Carry every pending task (of the chosen ones); raises NeedsHuman when one could not be finished."""
    if kit.building is not None:
        await outline(kit, kit.building)
        await _leave_dropped(kit)
    failed: list[tuple[str, str]] = []
    in_a_row = done = 0
    walk = Walk(kit, chosen)
    while (task := walk.next()) is not None:
        ending = await carry(kit, without_secrets(task, kit.redact))
        if ending.done:
            done, in_a_row = done + 1, 0
            continue
        if ending.replanned:
            walk.again(task.key)
            continue
        failed.append((task.key, ending.reason))
        in_a_row += 1
        if not kit.policy.go_on or in_a_row == kit.policy.max_failures:
            break
    if failed:
        raise _needs_human(kit, failed, done)


async def _leave_dropped(kit: Kit) -> None:
    """A step that a new plan dropped just before a crash is ended in the journal too."""
    planned = {task.key for task in kit.source.tasks().tasks}
    for key in sorted(_cut_off(kit) - planned):
        told = asdict(Ending(False, "planned anew", 0, replanned=True))
        await kit.emit(EventType.TASK_ENDED, task=key, **told)
        await kit.journal.record(f"task/{key}/end", StepResult(False, told), StepFacts(key, "end"))


def _needs_human(kit: Kit, failed: list[tuple[str, str]], done: int) -> NeedsHuman:
    run, (key, reason) = kit.journal.run.id, failed[0]
    message = f"Task {key} needs a human: {reason}"
    if len(failed) > 1:
        listed = "\n".join(f"  Task {key}: {reason}" for key, reason in failed)
        message = f"{len(failed)} tasks need a human:\n{listed}"
    finished = f"{done} task{'' if done == 1 else 's'} done in this session" if done else "No task was lost"
    return NeedsHuman(
        message,
        kept=f"{finished}; what the agent left behind is in {kit.workspace.root}.",
        hint=f"Look: segue logs {run} --task {key}   Try again: segue resume {run}   "
        f"Decide: segue task accept {key}, segue task skip {key} --reason WHY",
    )


class Walk:
    """Gives out pending tasks in the source's order; reads the source again when someone changed it."""

    def __init__(self, kit: Kit, chosen: Collection[str]) -> None:
        self._kit = kit
        self._chosen = set(chosen)
        self._given: set[str] = set()
        self._cut_off = _cut_off(kit)
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

    def again(self, key: str) -> None:
        """Give the task out once more if it is still in the plan."""
        self._given.discard(key)
        self._stamp = object()

    def _pending(self) -> list[Task]:
        tasks = self._kit.source.tasks().tasks
        return [task for task in reversed(tasks) if self._wants(task)]

    def _wants(self, task: Task) -> bool:
        """A task that was marked as done just before a crash is finished in the journal too."""
        if self._chosen and task.key not in self._chosen:
            return False
        return task.status is TaskStatus.PENDING or task.key in self._cut_off


def _cut_off(kit: Kit) -> set[str]:
    """The tasks of which everything is journalled but the end."""
    states: dict[str, list[Step]] = {}
    for step in kit.journal.steps("task/"):
        states.setdefault(step.key.split("/")[1], []).append(step)
    return {
        key
        for key, steps in states.items()
        if steps[-1].state is StepState.DONE and not any(step.phase == "end" for step in steps)
    }
