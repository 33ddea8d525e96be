"""Run one task through the phases of its flow, then write completion back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec.structs import replace

from segue.domain.amounts import list_some
from segue.domain.delivery import is_feedback
from segue.domain.errors import CheckUnready, CredentialsError, Unfinished
from segue.domain.events import NoticeGiven, TaskEnded, TaskMarked, TaskStarted
from segue.domain.results import (
    EndOutput,
    LaunchOutput,
    StepFacts,
    StepResult,
    read_as,
)
from segue.domain.task import Completion, Task, TaskKind, TaskStatus
from segue.domain.verdict import Action, Result, Verdict
from segue.flow.accepting import accept_task
from segue.flow.agents import TaskOverBudget
from segue.flow.begin import asked_in, start, start_again
from segue.flow.commit import commit_task, pass_hooks, send_back
from segue.flow.context import Lane, RunContext
from segue.flow.earlier import left_behind, remember, write_note
from segue.flow.escalation import begin_rung
from segue.flow.exam import end_exam
from segue.flow.lack import check_and_ask
from segue.flow.merging import begin_again, merge_task
from segue.flow.phase import CHECK, EXECUTE, INDEPENDENT, PHASES, PLAN, REPLAN, REVIEW, VERIFY, Phase
from segue.flow.phases.check import check
from segue.flow.phases.execute import execute, plan
from segue.flow.phases.independent import independent
from segue.flow.phases.outline import checkpoint
from segue.flow.phases.review import review
from segue.flow.phases.verify import verify
from segue.flow.proving import is_enough, prove
from segue.flow.state import PhaseEnd, TaskState
from segue.flow.survey import survey
from segue.flow.words import has_more, skip_task, take_late, take_words

RUN: Mapping[str, Callable[[RunContext, TaskState], Awaitable[PhaseEnd]]] = {
    PLAN.name: plan,
    EXECUTE.name: execute,
    CHECK.name: check_and_ask,
    REVIEW.name: review,
    INDEPENDENT.name: independent,
    VERIFY.name: verify,
    REPLAN.name: checkpoint,
}
"""What runs a task through each phase that a flow may name."""

_MOST_SEALS = 3
_SAID_MORE = Verdict(Result.PARTIAL, Action.RETRY, "The user has said more about the task.")


async def run_task(context: RunContext, task: Task, waited: tuple[str, str] = ("", "")) -> EndOutput:
    """Run the task to its end. Everything already journalled is not done again.

    `waited` is the task whose end let it begin, where several are worked on at once, and why it waited.
    """
    end = f"task/{task.key}/end"
    decided = await take_words(context, task)
    if decided.skip:
        return await skip_task(context, task, decided)
    if decided.accept:
        return await accept_task(context, task, decided, end)
    asked = asked_in(context, task.key, end)
    await start_again(context, task, end)
    lane = context.lane.number if context.lane is not None else 0
    text = task.text if task.text.strip() != task.title.strip() else ""
    begun = TaskStarted(task.key, task.title, task.kind, lane, *waited, text=text)
    started = await context.journal.emit(begun)
    try:
        state = await start(context, task, started.ts, asked)
        if task.kind is not TaskKind.HUMAN:
            await _ask_checks(context, state)
            await begin_rung(context, state)
        context.source.announce(task, context.journal.run.id)
        try:
            ended = await _run_phases(context, state)
        except TaskOverBudget as error:
            ended = PhaseEnd(False, error.reason)
        finally:
            await end_exam(state)
        if context.lane is not None:
            ended = await _merge(context, context.lane, state, ended)
    except (Unfinished, CredentialsError) as error:
        # Only what failed is done again on resume, so the end of the task is not recorded.
        attempts = context.view.tasks[task.key].attempts
        reason = error.reason if isinstance(error, Unfinished) else error.message
        await context.emit(TaskEnded(task.key, done=False, reason=reason, attempts=attempts))
        raise
    left = _last_launch(context, state)
    ending = EndOutput(
        done=ended.ok,
        reason=ended.reason or "done",
        attempts=context.view.tasks[task.key].attempts,
        commit=state.head if state.head != state.base.head else None,
        remaining=state.remaining,
        branch=_branch(context, state, ended.ok, left),
        skipped=ended.skipped,
        replanned=ended.replanned,
        proof=ended.proof,
        note=await write_note(context, state) if ended.ok and not ended.skipped else None,
    )
    await _end(context, state, ending, left, end)
    await context.emit(end_event(task.key, ending))
    if ending.done:
        await take_late(context, (task.key,))
    return ending


def end_event(task: str, ending: EndOutput) -> TaskEnded:
    """Return the event for the end of a task."""
    return TaskEnded(
        task,
        ending.done,
        ending.reason,
        ending.attempts,
        ending.commit,
        ending.remaining,
        ending.branch,
        ending.skipped,
        ending.replanned,
        ending.proof,
    )


async def _ask_checks(context: RunContext, state: TaskState) -> None:
    """Find out what is red before the first launch; whoever repairs a check that cannot start may commit."""
    folder = f"{state.folder}/"
    begun = any(step.phase != "base" for step in context.journal.steps(folder))
    try:
        await survey(context, state.base.head, begun=begun)
    except CheckUnready:
        if not begun:
            await context.journal.redo(folder)
        raise


async def _run_phases(context: RunContext, state: TaskState) -> PhaseEnd:
    ended = PhaseEnd(True)
    if state.task.kind is TaskKind.HUMAN:
        return PhaseEnd(False, "this is for a person to do or to decide")
    for phase in _phases(context, state):
        ended = await RUN[phase.name](context, state)
        if not ended.ok:
            return ended
        if ended.skipped:
            break
    if ended.skipped:
        committed = await commit_task(context, state)
        await _name_unverified(context, state)
        return ended if committed.ok else committed
    sealed = await _seal(context, state)
    while sealed.ok:
        proof = await prove(context, state)
        if not await has_more(context, state):
            enough = is_enough(context, state, proof)
            return replace(ended, proof=proof) if enough.ok else enough
        told = await send_back(context, state, _SAID_MORE, f"more-{state.launched['more']}")
        sealed = await _seal(context, state) if told.ok else told
    return sealed


async def _name_unverified(context: RunContext, state: TaskState) -> None:
    """Say what a skipped task leaves behind that nobody has verified."""
    files = left_behind(context, state.task.key)
    if files and state.head != state.base.head:
        text = f"Task {state.task.key} was skipped; what it left is not verified, in commit {state.head[:10]}"
        await context.emit(NoticeGiven(f"{text}: {list_some(files, 10)}.", task=state.task.key))


def _phases(context: RunContext, state: TaskState) -> Sequence[Phase]:
    """Return the phases of the flow; a task that is begun again has its plan, and feedback needs none."""
    phases = context.flow.phases
    edits = next(number for number, phase in enumerate(phases) if phase.edits)
    return phases[edits:] if state.start.round > 1 or is_feedback(state.task.key) else phases


async def _merge(context: RunContext, lane: Lane, state: TaskState, ended: PhaseEnd) -> PhaseEnd:
    """Bring what is done onto the branch of the run; where it does not fit, go through the phases again."""
    while ended.ok:
        found = await merge_task(context, lane, state)
        if found.commit:
            return ended
        if not await begin_again(context, lane, state, found):
            others = ", ".join(found.tasks[:5]) or "what was committed meanwhile"
            return PhaseEnd(False, f"its work does not fit {others}: {found.reason}")
        ended = await _run_phases(context, state)
    return ended


async def _seal(context: RunContext, state: TaskState) -> PhaseEnd:
    """Commit what was checked, and see to it that what is committed is what was checked.

    A reviewer's findings may have changed the work after the checks, and so may the repository's own hooks.
    """
    for _ in range(_MOST_SEALS):
        checked = await check(context, state)
        if not checked.ok:
            return checked
        hooked = await pass_hooks(context, state, "task")
        if not hooked.ok:
            return hooked
        if not state.checked:
            continue
        committed = await commit_task(context, state)
        if not committed.ok:
            return committed
        if not state.tree or context.policy.commit == "never":
            return PhaseEnd(True)
        if await context.workspace.tree_of(state.head) == state.tree:
            return PhaseEnd(True)
        state.checked = False
    return PhaseEnd(False, "something changes the work each time it is committed, so it was never checked")


def _branch(context: RunContext, state: TaskState, done: bool, left: LaunchOutput | None) -> str:
    """Return the branch that has the work of a task; of one that failed, what its cloud agent pushed."""
    if context.cloud and not done and left is not None and left.branches:
        return left.branches[-1]
    return context.lane.branch.branch if context.lane is not None else state.now.branch


def _last_launch(context: RunContext, state: TaskState) -> LaunchOutput | None:
    """Return what the last launch that edits left, however it ended."""
    editing = {phase.name for phase in PHASES.values() if phase.edits}
    steps = [
        step for step in context.journal.steps(f"{state.folder}/") if step.phase in editing and step.output
    ]
    return read_as(LaunchOutput, steps[-1].output) if steps else None


async def _end(
    context: RunContext, state: TaskState, ending: EndOutput, left: LaunchOutput | None, key: str
) -> None:
    """Write completion back first: doing that again does no harm, forgetting it would."""
    task = state.task
    marked = TaskMarked(task.key, ending.done, digest=context.source.fingerprint(task))
    seq = await context.emit(marked, key)
    done = TaskStatus.SKIPPED if ending.skipped else TaskStatus.DONE
    completion = Completion(
        status=done if ending.done else TaskStatus.PENDING,
        run=context.journal.run.id,
        seq=seq,
        commit=state.head or None,
        plan=state.plan,
        branch=ending.branch or None,
        session=state.last.session,
        agent_id=left.agent_id if left is not None else None,
        url=left.url if left is not None else None,
        verdict=state.verdict,
        error=None if ending.done else ending.reason,
        attempts=ending.attempts,
    )
    if ending.done:
        context.source.mark(task, completion)
    else:
        context.source.record(task, completion)
    await context.journal.record(key, StepResult(ending.done, ending), StepFacts(task.key, "end"))
    remember(context, task.key)
