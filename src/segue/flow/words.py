"""What people say about a task while the run works: the driving process takes it before the task begins.

It comes as a signal, so it is taken once, by whoever drives the run, in both kinds of store.
"""

from __future__ import annotations

from segue.domain.events import TaskCommented, TaskMarked
from segue.domain.exits import CANNOT
from segue.domain.question import ASKS, is_question
from segue.domain.results import EndOutput, StepFacts, StepResult, WordsOutput
from segue.domain.run import StepState
from segue.domain.task import Completion, Task, TaskStatus
from segue.flow.context import RunContext


def topic_of(key: str) -> str:
    """Return the topic of signals about a task."""
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
    journal, topic, folder = context.journal, topic_of(task.key), f"words/{task.key}/"
    known = journal.steps(folder)
    is_cut_off = bool(known) and known[-1].state is StepState.STARTED
    if not (is_cut_off or await journal.has_signal(topic)):
        return None
    key = known[-1].key if is_cut_off else f"{folder}{len(known) + 1}"
    ended = journal.recorded(f"task/{task.key}/end", EndOutput)

    async def work(_token: str) -> StepResult[WordsOutput]:
        found = WordsOutput()
        while (said := await journal.wait(topic, timeout=0)) is not None:
            if "skip" in said:
                found = WordsOutput(str(said["skip"]), str(said["by"]))
            else:
                text = answer(ended, str(said["comment"]))
                await context.emit(TaskCommented(task.key, text, str(said["by"])), key)
        return StepResult(True, found)

    found = (await journal.step(key, WordsOutput, work, facts=StepFacts(task.key, "words"))).output
    return await _skip(context, task, found) if found.skip else None


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
