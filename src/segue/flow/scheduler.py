"""Run the tasks of a source, one after the other, until none is left or one needs a human."""

from __future__ import annotations

from collections.abc import Collection

from segue.domain.errors import NeedsHuman
from segue.domain.events import TaskBlocked
from segue.domain.graph import find_block
from segue.domain.kinds.recognise import with_kind
from segue.domain.results import EndOutput, StepResult
from segue.domain.run import Step, StepState
from segue.domain.task import Task, TaskKind, TaskStatus, without_secrets
from segue.flow.context import RunContext
from segue.flow.gates import Gates
from segue.flow.phases.outline import outline
from segue.flow.task import end_event, run_task
from segue.ports import StepFacts


async def run_tasks(context: RunContext, chosen: Collection[str] = ()) -> None:
    """Run every pending task (of the chosen ones); raises NeedsHuman when one could not be finished."""
    if context.building is not None:
        await outline(context, context.building)
        await _end_dropped(context)
    failed: list[tuple[str, str]] = []
    stuck: set[str] = set()
    asked: set[str] = set()
    in_a_row = done = 0
    pending, gates = PendingTasks(context, chosen), Gates(context)
    while (task := pending.next()) is not None:
        if blocked := find_block(task.depends_on, stuck, asked):
            (asked if asked.issuperset(blocked.by) else stuck).add(task.key)
            await context.emit(TaskBlocked(task.key, context.redact(task.title), blocked.by, blocked.why))
            continue
        await gates.stop_before(task)
        ending = await run_task(context, without_secrets(task, context.redact))
        if ending.done:
            done, in_a_row = done + 1, 0
            continue
        if ending.replanned:
            pending.put_back(task.key)
            continue
        failed.append((task.key, ending.reason))
        if task.kind is TaskKind.HUMAN:
            asked.add(task.key)
            continue
        stuck.add(task.key)
        in_a_row += 1
        if not context.policy.continue_after_failure or in_a_row == context.policy.max_failures:
            break
    if failed:
        raise _needs_human(context, failed, len(stuck) + len(asked) - len(failed), done)


async def _end_dropped(context: RunContext) -> None:
    """End a step in the journal too that a new plan dropped just before a crash."""
    planned = {task.key for task in context.source.tasks().tasks}
    for key in sorted(_cut_off(context) - planned):
        ending = EndOutput(reason="planned again", replanned=True)
        await context.emit(end_event(key, ending))
        await context.journal.record(f"task/{key}/end", StepResult(False, ending), StepFacts(key, "end"))


def _needs_human(context: RunContext, failed: list[tuple[str, str]], blocked: int, done: int) -> NeedsHuman:
    run, (key, reason) = context.journal.run.id, failed[0]
    message = f"Task {key} needs a human: {reason}"
    if len(failed) > 1:
        listed = "\n".join(f"  Task {key}: {reason}" for key, reason in failed)
        message = f"{len(failed)} tasks need a human:\n{listed}"
    if blocked:
        message += f"\n{blocked} more {'waits' if blocked == 1 else 'wait'} for that."
    finished = f"{done} task{'' if done == 1 else 's'} done in this session" if done else "No task was lost"
    return NeedsHuman(
        message,
        kept=f"{finished}; what the agent left behind is in {context.workspace.root}.",
        hint=f"Look: segue logs {run} --task {key}   Try again: segue resume {run}   "
        f"Decide: segue task accept {key}, segue task skip {key} --reason WHY",
    )


class PendingTasks:
    """Gives out pending tasks in the source's order; reads the source again when someone changed it."""

    def __init__(self, context: RunContext, chosen: Collection[str]) -> None:
        self._source = context.source
        self._kinds = context.policy.kinds
        self._chosen = set(chosen)
        self._given: set[str] = set()
        self._cut_off = _cut_off(context)
        self._stamp: object = object()
        self._rest: list[Task] = []

    def next(self) -> Task | None:
        """Return the next task with its kind, or None at the end."""
        if self._source.stamp() != self._stamp:
            tasks = self._source.tasks().tasks
            self._rest = [task for task in reversed(tasks) if self._wants(task)]
            self._stamp = self._source.stamp()
        while self._rest:
            task = self._rest.pop()
            if task.key not in self._given:
                self._given.add(task.key)
                return with_kind(task, self._kinds)
        return None

    def put_back(self, key: str) -> None:
        """Give the task out once more if it is still in the plan."""
        self._given.discard(key)
        self._stamp = object()

    def _wants(self, task: Task) -> bool:
        """Return whether the task is to be run; one marked as done just before a crash is ended too."""
        if self._chosen and task.key not in self._chosen:
            return False
        return task.status is TaskStatus.PENDING or task.key in self._cut_off


def _cut_off(context: RunContext) -> set[str]:
    """Return the tasks of which everything is journalled but the end."""
    states: dict[str, list[Step]] = {}
    for step in context.journal.steps("task/"):
        states.setdefault(step.key.split("/")[1], []).append(step)
    return {
        key
        for key, steps in states.items()
        if steps[-1].state is StepState.DONE and not any(step.phase == "end" for step in steps)
    }
