"""What people decide about a task while the run works, and say before it begins or once it has failed.

Both come as signals, so they are taken once, by whoever drives the run, in both kinds of store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

from segue.domain.events import NoticeGiven, TaskMarked
from segue.domain.exits import CANNOT
from segue.domain.question import ASKS, is_question
from segue.domain.results import EndOutput, MoreOutput, Nothing, StepFacts, StepResult, WordsOutput, read_as
from segue.domain.run import StepState
from segue.domain.task import Completion, Task, TaskStatus
from segue.flow.aside import make_room
from segue.flow.context import RunContext
from segue.flow.say import said_about, take_said
from segue.flow.state import TaskState
from segue.store.database import EVERY_SECOND, Disconnected


def topic_of(key: str) -> str:
    """Return the topic of decisions about a task."""
    return f"task/{key}"


def answer(ended: StepResult[EndOutput] | None, words: str) -> str:
    """Return the words with what they answer, if the agent asked something: another one may read it."""
    if ended is None or not is_question(ended.output.reason):
        return words
    said = ended.output.reason
    head = "You asked" if said.startswith(ASKS) else "You said"
    return f"{head}:\n{said.removeprefix(ASKS).removeprefix(CANNOT)}\n\nThe answer:\n{words}"


async def find_said(context: RunContext, keys: Sequence[str]) -> list[str]:
    """Return the tasks about which people have said or decided something that nobody has taken."""
    left = await context.journal.topics() if keys else frozenset()
    return [key for key in keys if topic_of(key) in left or said_about(key) in left]


async def hear_of(context: RunContext, keys: Sequence[str]) -> None:
    """Return as soon as `find_said` finds something."""
    topics = {topic for key in keys for topic in (topic_of(key), said_about(key))}
    while True:
        with suppress(Disconnected):  # whoever works notices it, and decides
            return await context.journal.hear(topics)
        await asyncio.sleep(EVERY_SECOND)


async def take_words(context: RunContext, task: Task) -> WordsOutput:
    """Take what was said about a task that is about to begin; return what a person has decided about it."""
    journal, topic, folder = context.journal, topic_of(task.key), f"words/{task.key}/"
    ended = journal.recorded(f"task/{task.key}/end", EndOutput)
    await take_said(context.launcher, task.key, lambda words: answer(ended, words))
    known = journal.steps(folder)
    is_cut_off = bool(known) and known[-1].state is StepState.STARTED
    if not (is_cut_off or topic in await journal.topics()):
        is_open = bool(known) and not (ended is not None and ended.ok) and not _is_obeyed(context, task.key)
        return read_as(WordsOutput, known[-1].output) if is_open else WordsOutput()
    key = known[-1].key if is_cut_off else f"{folder}{len(known) + 1}"

    async def work(_token: str) -> StepResult[WordsOutput]:
        found = WordsOutput()
        while (said := await journal.wait(topic, timeout=0)) is not None:
            skip, accept = str(said.get("skip", "")), str(said.get("accept", ""))
            found = WordsOutput(skip, str(said["by"]), accept)
        return StepResult(True, found)

    return (await journal.step(key, WordsOutput, work, facts=StepFacts(task.key, "words"))).output


def _is_obeyed(context: RunContext, task: str) -> bool:
    return context.journal.state(_obeyed(context, task)) is not None


def _obeyed(context: RunContext, task: str) -> str:
    """Return the key of the step which says that the last decision about a task was carried out."""
    return f"obeyed/{task}/{len(context.journal.steps(f'words/{task}/'))}"


async def obey(context: RunContext, task: str) -> None:
    """Record, with the end of a task that comes next, that a decision about it was carried out."""
    await context.journal.record(
        _obeyed(context, task), StepResult(True, Nothing()), StepFacts(task, "words")
    )


async def has_more(context: RunContext, state: TaskState) -> bool:
    """Return whether people said something that no agent of the task has got when it is about to end."""
    journal, key = context.journal, f"{state.folder}/more/{state.next_number('more')}"
    known = journal.recorded(key, MoreOutput)
    if known is None:
        await take_said(context.launcher, state.task.key)
        found = MoreOutput(tuple(context.view.unheard(state.task.key)))
        if not found.words:
            return False
        known = await journal.record(key, StepResult(True, found), StepFacts(state.task.key, "words"))
    state.count("more")
    return bool(known.output.words)


async def take_late(context: RunContext, keys: Iterable[str]) -> None:
    """Take what came while tasks ended that are done: no agent gets it, and nothing is skipped any more."""
    journal = context.journal
    left = await journal.topics()
    for key in keys if left else ():
        if said_about(key) in left:
            await take_said(context.launcher, key, how="late")
        while topic_of(key) in left and (said := await journal.wait(topic_of(key), timeout=0)) is not None:
            if "skip" in said:
                text = f"Task {key} was done before it could be skipped ({said['skip']}): it was not."
                await context.emit(NoticeGiven(text, task=key))


async def skip_task(context: RunContext, task: Task, said: WordsOutput) -> EndOutput:
    """Write into the source and the journal that a task was skipped by a person; keep what it left."""
    await make_room(context, "")
    journal, source, end = context.journal, context.source, f"task/{task.key}/end"
    if journal.state(end) is StepState.FAILED:
        await journal.redo(end)

    async def work(_token: str) -> StepResult[EndOutput]:
        marked = TaskMarked(task.key, True, said.by, said.skip, True, source.fingerprint(task))
        seq = await context.emit(marked, end)
        source.mark(task, Completion(TaskStatus.SKIPPED, journal.run.id, seq))
        await obey(context, task.key)
        return StepResult(True, EndOutput(done=True, reason=said.skip, skipped=True))

    return (await journal.step(end, EndOutput, work, facts=StepFacts(task.key, "end"))).output
