"""Run the tasks of a source in order, until none is left or one needs a human.

Which tasks are next, and how those ended that are over.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from segue.domain.delivery import is_feedback
from segue.domain.errors import NeedsHuman
from segue.domain.events import TaskBlocked
from segue.domain.graph import Blocked, find_block
from segue.domain.job import Role
from segue.domain.kinds import with_kind
from segue.domain.results import EndOutput, StepFacts, StepResult
from segue.domain.run import Step, StepState
from segue.domain.task import Task, TaskKind, TaskStatus, without_secrets
from segue.flow.aside import make_room
from segue.flow.commit import is_last_commit
from segue.flow.context import RunContext
from segue.flow.endings import advise_person
from segue.flow.gates import Gates
from segue.flow.phases.outline import outline
from segue.flow.survey import survey
from segue.flow.task import end_event, run_task
from segue.flow.words import find_said, take_late


async def run_tasks(context: RunContext, chosen: Collection[str] = ()) -> None:
    """Run every pending task (of the chosen ones); raises NeedsHuman when one could not be finished.

    `flow/parallel.py` does the same with several at once.
    """
    await plan_tasks(context)
    tally, pending, gates = Tally(context), PendingTasks(context, chosen), Gates(context)
    earlier = len(context.journal.steps("task/"))
    while not tally.is_enough and (task := await _next(pending, tally)) is not None:
        if blocked := find_block(task.depends_on, tally.stuck, tally.asked):
            await tally.block(task, blocked)
            continue
        begins = len(context.journal.steps("task/")) == earlier
        if refused := _find_obstacle(context, tally) or await make_room(context, task.key, begins=begins):
            tally.stop(refused)
            break
        await gates.stop_before(task)
        ending = await run_task(context, without_secrets(task, context.redact))
        tally.add(task, ending)
        if ending.replanned:
            pending.put_back(task.key)
    tally.conclude()


async def _next(pending: PendingTasks, tally: Tally) -> Task | None:
    """Return the next task: also one that has failed, once a person has said something about it."""
    for keys in await tally.reopen():
        for key in keys:
            pending.put_back(key)
    return pending.next()


def _find_obstacle(context: RunContext, tally: Tally) -> str:
    """Return why no other task is begun after one that failed, though it does not depend on that one."""
    if tally.stuck and context.launcher.find_able(context.agents[Role.EXECUTE]) is None:
        return "no agent can work now"
    return ""


async def plan_tasks(context: RunContext) -> None:
    """Have the tasks planned that an agent is to plan; others are there already."""
    await take_late(context, (key for key, task in context.view.tasks.items() if task.state == "done"))
    if context.building is None:
        return
    if not (context.cloud or context.building.outline.is_planned()):
        await survey(context, (await context.workspace.snapshot()).head)
    await outline(context, context.building)
    await _end_dropped(context)


async def _end_dropped(context: RunContext) -> None:
    """End a step in the journal too that a new plan dropped just before a crash."""
    planned = {task.key for task in context.source.tasks().tasks}
    for key in sorted(key for key in _find_cut_off(context) - planned if not is_feedback(key)):
        ending = EndOutput(reason="planned again", replanned=True)
        await context.emit(end_event(key, ending))
        await context.journal.record(f"task/{key}/end", StepResult(False, ending), StepFacts(key, "end"))


class PendingTasks:
    """The tasks that are to be run, in the source's order; reads the source again when someone changed it."""

    def __init__(self, context: RunContext, chosen: Collection[str]) -> None:
        self._source = context.source
        self._kinds = context.policy.kinds
        self._chosen = set(chosen)
        self._given: set[str] = set()
        self._cut_off = _find_cut_off(context)
        self._begun = _find_begun(context)
        self._stamp: object = object()
        self._rest: list[Task] = []

    def next(self) -> Task | None:
        """Return the next task with its kind, or None at the end."""
        if self.is_changed:
            wanted = [task for task in reversed(self.read()) if self.wants(task)]
            # What another process has begun comes first: its work is in the work tree.
            self._rest = sorted(wanted, key=lambda task: task.key in self._begun)
        while self._rest:
            task = self._rest.pop()
            if task.key not in self._given:
                self._given.add(task.key)
                return with_kind(task, self._kinds)
        return None

    @property
    def is_changed(self) -> bool:
        """Whether the source has changed since it was read last."""
        return self._source.stamp() != self._stamp

    def read(self) -> Sequence[Task]:
        """Return all tasks of the source as they are now."""
        tasks = self._source.tasks().tasks
        self._stamp = self._source.stamp()
        return tasks

    def put_back(self, key: str) -> None:
        """Give the task out once more if it is still in the plan."""
        self._given.discard(key)
        self._stamp = object()

    def wants(self, task: Task) -> bool:
        """Return whether the task is to be run; one marked as done just before a crash is ended too."""
        if self._chosen and task.key not in self._chosen:
            return False
        return task.status is TaskStatus.PENDING or task.key in self._cut_off


def _find_cut_off(context: RunContext) -> set[str]:
    """Return the tasks of which everything is journalled but the end, or but the result of their commit."""
    states: dict[str, list[Step]] = {}
    for step in context.journal.steps("task/"):
        states.setdefault(step.key.split("/")[1], []).append(step)
    return {
        key
        for key, steps in states.items()
        if (steps[-1].state is StepState.DONE or is_last_commit(steps[-1].key))
        and context.journal.state(f"task/{key}/end") is None
    }


def _find_begun(context: RunContext) -> set[str]:
    """Return the tasks that have begun and not ended."""
    begun = {step.task for step in context.journal.steps("task/") if step.phase == "base" and step.task}
    return {key for key in begun if context.journal.state(f"task/{key}/end") is None}


class Tally:
    """How the tasks of this session ended."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._failed: list[tuple[str, str]] = []
        self._place: Path | None = None
        self._in_a_row = self._done = 0
        self._refused = ""
        self.stuck: set[str] = set()
        """Tasks that failed, and those that wait for them."""
        self.asked: set[str] = set()
        """Tasks for a person, and those that wait for them."""
        self.is_enough = False
        """Whether no other task is begun, because too many have failed."""

    def add(self, task: Task, ending: EndOutput, place: Path | None = None) -> None:
        """Count a task that has ended; `place` is where it was worked on."""
        if ending.replanned:
            return
        if ending.done:
            self._done, self._in_a_row = self._done + 1, 0
            return
        self._failed.append((task.key, ending.reason))
        self._place = self._place if len(self._failed) > 1 else place
        if task.kind is TaskKind.HUMAN:
            self.asked.add(task.key)
            return
        self.stuck.add(task.key)
        self._in_a_row += 1
        policy = self._context.policy
        continues = policy.continue_after_failure
        if continues is None:
            continues = not self._context.cloud
        self.is_enough |= not continues or self._in_a_row == policy.max_failures

    @property
    def may_reopen(self) -> list[str]:
        """The tasks that failed and would be tried again if a person said so."""
        return [] if self.is_enough else [key for key, _ in self._failed]

    async def reopen(self) -> tuple[set[str], set[str]]:
        """Forget the failures about which a person has said something since, and what waits for any failed.

        Returns both: the tasks that may be tried again, and those that are looked at again.
        """
        failed = self.may_reopen
        again = set(await find_said(self._context, failed))
        if not again:
            return set(), set()
        waiting = (self.stuck | self.asked).difference(failed)
        self._failed = [one for one in self._failed if one[0] not in again]
        self.stuck -= again | waiting
        self.asked -= again | waiting
        return again, waiting

    def stop(self, why: str) -> None:
        """Begin no other task, and say why when all is over."""
        self.is_enough, self._refused = True, why

    async def block(self, task: Task, blocked: Blocked) -> None:
        """Count a task that cannot begin."""
        context = self._context
        (self.asked if self.asked.issuperset(blocked.by) else self.stuck).add(task.key)
        await context.emit(TaskBlocked(task.key, context.redact(task.title), blocked.by, blocked.why))

    def conclude(self) -> None:
        """Raise NeedsHuman if something is left for a person."""
        if not self._failed and self._refused:
            hint = f"Commit or stash what is in {self._context.workspace.root}, then: segue resume"
            raise NeedsHuman(f"No task was begun: {self._refused}.", kept="No task was lost.", hint=hint)
        if not self._failed:
            return
        context, done = self._context, self._done
        blocked = len(self.stuck) + len(self.asked) - len(self._failed)
        run, (key, reason) = context.journal.run.id, self._failed[0]
        message = f"Task {key} needs a human: {reason}"
        if len(self._failed) > 1:
            listed = "\n".join(f"  Task {key}: {reason}" for key, reason in self._failed)
            message = f"{len(self._failed)} tasks need a human:\n{listed}"
        if blocked:
            message += f"\n{blocked} more {'waits' if blocked == 1 else 'wait'} for that."
        if self._refused:
            message += f"\nNo other task was begun: {self._refused}."
        finished = (
            f"{done} task{'' if done == 1 else 's'} done in this session" if done else "No task was lost"
        )
        raise NeedsHuman(
            message,
            kept=f"{finished}; {self._describe_rest(key)}.",
            hint=advise_person(run, key, reason),
        )

    def _describe_rest(self, key: str) -> str:
        """Say where to find what the agent of a failed task left behind."""
        context = self._context
        if ref := context.view.tasks[key].kept:
            return f"what the agent left behind is kept as {ref}, and a retry begins with it"
        if not context.cloud:
            return f"what the agent left behind is in {self._place or context.workspace.root}"
        return context.view.tasks[key].cloud_agent or "no cloud agent was launched for it"
