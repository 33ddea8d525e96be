"""Feedback: what comes back from a pull request becomes tasks of the same run, done like all others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from segue.domain.delivery import FeedbackItem, FeedbackKind
from segue.domain.events import FeedbackReceived
from segue.domain.results import EndOutput, LaunchOutput, read_as
from segue.domain.run import StepState
from segue.domain.task import Completion, Task, TaskList, without_secrets
from segue.flow.context import RunContext
from segue.flow.phase import PHASES
from segue.flow.scheduler import Tally
from segue.flow.task import run_task
from segue.ports import Source, SourceRequest

if TYPE_CHECKING:
    from segue.store.journal import Journal


_MOST_TITLES = 20

MergeBase = Callable[[], Awaitable[tuple[str, ...]]]
"""Merges the branch that the work is for into the run's; returns the files with conflict markers."""


def name_tasks(items: Sequence[FeedbackItem], known: Collection[str], number: int) -> list[FeedbackReceived]:
    """Give each item a task of its own; `known` are the keys that exist, `number` is the round."""
    taken, found = set(known), []
    for item in items:
        count = 1
        while (key := f"pr-{item.kind}-{count}") in taken:
            count += 1
        taken.add(key)
        words = (item.title, item.text)
        found.append(
            FeedbackReceived(key, item.kind, item.id, *words, number, item.url, item.author, item.thread)
        )
    return found


async def run_feedback(context: RunContext, received: Sequence[FeedbackReceived], merge: MergeBase) -> None:
    """Run a task for everything that came back and is not done; raises NeedsHuman for what cannot be."""
    tally = Tally(context)
    for event in received:
        if context.journal.state(f"task/{event.task}/end") is StepState.DONE:
            continue
        ending = await _run(context, event, merge)
        tally.add(task_of(event), ending)
        if tally.is_enough:
            break
    tally.conclude()


async def _run(context: RunContext, event: FeedbackReceived, merge: MergeBase) -> EndOutput:
    task, idle = task_of(event), event.kind == FeedbackKind.REVIEW
    if event.kind == FeedbackKind.CONFLICT:
        files = await merge()
        idle = not files
        said = f"They are in: {', '.join(files)}." if files else "git merged it without a conflict after all."
        task = replace(task, text=f"{task.text}\n{said}")
    policy = replace(context.policy, allow_no_change=context.policy.allow_no_change or idle)
    source = FeedbackTasks(context.source, context.view.tasks)
    return await run_task(
        replace(context, policy=policy, source=source), without_secrets(task, context.redact)
    )


def task_of(event: FeedbackReceived) -> Task:
    """Return what came back as a task."""
    return Task(event.task, event.title, event.text, kind_is_given=True)


def read_reply(journal: Journal, key: str) -> tuple[str, str]:
    """Return what is answered when a task is done: the agent's last paragraph, and the commit, if any."""
    editing = {phase.name for phase in PHASES.values() if phase.edits}
    said, commit = "", ""
    for step in journal.steps(f"task/{key}/"):
        if step.state is not StepState.DONE:
            continue
        if step.phase in editing:
            said = read_as(LaunchOutput, step.output).text or said
        elif step.phase == "end":
            commit = read_as(EndOutput, step.output).commit or ""
    paragraphs = [part.strip() for part in said.split("\n\n") if part.strip()]
    return paragraphs[-1] if paragraphs else "Done.", commit


class FeedbackTasks(Source):
    """Tasks that no source knows: the journal alone records what became of them."""

    kind = "feedback"

    def __init__(self, source: Source, tasks: Collection[str]) -> None:
        self._source, self._tasks = source, tasks
        self.key = source.key

    @property
    def address(self) -> str:
        """Where the other tasks of the run are from."""
        return self._source.address

    @classmethod
    def matches(cls, request: SourceRequest) -> bool:  # noqa: ARG003 - nobody names it
        """Return False: only pull requests have feedback."""
        return False

    @classmethod
    def open(cls, request: SourceRequest) -> Self:
        """Refuse: only pull requests have feedback."""
        raise NotImplementedError

    def tasks(self) -> TaskList:
        """Return the tasks of the run's own source."""
        return self._source.tasks()

    def context(self, task: Task) -> str:  # noqa: ARG002 - the same for all
        """Return what the run was about."""
        known = {one.key: one.title for one in self._source.look().tasks if one.key in self._tasks}
        lines = [f"- {key}: {title}" for key, title in list(known.items())[:_MOST_TITLES]]
        return "\n".join(["The work on this branch was done for these tasks:", *lines]) if lines else ""

    def mark(self, task: Task, completion: Completion) -> None:
        """Do nothing: the journal records it."""

    def head_branch(self) -> str | None:
        """Return the branch of the run."""
        return self._source.head_branch()
