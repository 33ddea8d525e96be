"""What people decide about a task while the run works, and say before it begins.

Both come as signals, so they are taken once, by whoever drives the run, in both kinds of store.
"""

from __future__ import annotations

from segue.domain.events import TaskMarked
from segue.domain.exits import CANNOT
from segue.domain.question import ASKS, is_question
from segue.domain.results import EndOutput, MoreOutput, StepFacts, StepResult, WordsOutput
from segue.domain.run import StepState
from segue.domain.task import Completion, Task, TaskStatus
from segue.flow.context import RunContext
from segue.flow.say import take_said
from segue.flow.state import TaskState


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


async def take_words(context: RunContext, task: Task) -> EndOutput | None:
    """Take what was said about a task that is about to begin; return its end if it is to be skipped."""
    ended = context.journal.recorded(f"task/{task.key}/end", EndOutput)
    await take_said(context.launcher, task.key, lambda words: answer(ended, words))
    journal, topic, folder = context.journal, topic_of(task.key), f"words/{task.key}/"
    known = journal.steps(folder)
    is_cut_off = bool(known) and known[-1].state is StepState.STARTED
    if not (is_cut_off or await journal.has_signal(topic)):
        return None
    key = known[-1].key if is_cut_off else f"{folder}{len(known) + 1}"

    async def work(_token: str) -> StepResult[WordsOutput]:
        found = WordsOutput()
        while (said := await journal.wait(topic, timeout=0)) is not None:
            found = WordsOutput(str(said["skip"]), str(said["by"]))
        return StepResult(True, found)

    found = (await journal.step(key, WordsOutput, work, facts=StepFacts(task.key, "words"))).output
    return await _skip(context, task, found) if found.skip else None


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


async def _skip(context: RunContext, task: Task, said: WordsOutput) -> EndOutput:
    """Write into the source and the journal that a task was skipped by a person."""
    journal, source, end = context.journal, context.source, f"task/{task.key}/end"
    if journal.state(end) is StepState.FAILED:
        await journal.redo(end)

    async def work(_token: str) -> StepResult[EndOutput]:
        marked = TaskMarked(task.key, True, said.by, said.skip, True, source.fingerprint(task))
        seq = await context.emit(marked, end)
        source.mark(task, Completion(TaskStatus.SKIPPED, journal.run.id, seq))
        return StepResult(True, EndOutput(done=True, reason=said.skip, skipped=True))

    return (await journal.step(end, EndOutput, work, facts=StepFacts(task.key, "end"))).output
