"""Run one task through the phases of its flow, then write completion back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec.structs import replace

from segue.domain.amounts import list_some
from segue.domain.delivery import is_feedback
from segue.domain.errors import CheckUnready, CredentialsError, Unfinished
from segue.domain.events import NoticeGiven, StateImported, TaskEnded, TaskMarked, TaskStarted
from segue.domain.question import is_question
from segue.domain.results import EndOutput, LaunchOutput, SnapshotOutput, StepFacts, StepResult, read_as
from segue.domain.run import StepState
from segue.domain.task import Completion, Task, TaskKind, TaskStatus
from segue.domain.verdict import Action, Result, Verdict
from segue.flow.agents import TaskOverBudget
from segue.flow.aside import STEPS, bring_back, read_base
from segue.flow.branch import check_branch
from segue.flow.commit import commit_task, pass_hooks, send_back
from segue.flow.context import Lane, RunContext
from segue.flow.earlier import left_behind, remember, write_note
from segue.flow.escalation import RUNG, begin_rung, next_rung
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
from segue.flow.proving import is_enough, prove, score_mutants
from segue.flow.state import Beginning, LastLaunch, PhaseEnd, Start, TaskState
from segue.flow.survey import survey
from segue.flow.words import has_more, take_words

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
    if (skipped := await take_words(context, task)) is not None:
        return skipped
    asked = asked_in(context, task.key, end)
    await _start_again(context, task, end)
    lane = context.lane.number if context.lane is not None else 0
    text = task.text if task.text.strip() != task.title.strip() else ""
    begun = TaskStarted(task.key, task.title, task.kind, lane, *waited, text=text)
    started = await context.journal.emit(begun)
    try:
        state = await _start(context, task, started.ts, asked)
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
    while sealed.ok and await has_more(context, state):
        told = await send_back(context, state, _SAID_MORE, f"more-{state.launched['more']}")
        sealed = await _seal(context, state) if told.ok else told
    if not sealed.ok:
        return sealed
    proof = await prove(context, state, await score_mutants(context, state))
    enough = is_enough(context, state, proof)
    return replace(ended, proof=proof) if enough.ok else enough


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


async def _start_again(context: RunContext, task: Task, end: str) -> None:
    """Prepare a task that ended before and is pending again: it failed, or its completion was taken back.

    After a failure the base stays, because what the failed attempts left behind is this task's work, unless
    others have worked since: then that work was put aside. A plan that succeeded stays as well.
    """
    journal, folder = context.journal, f"task/{task.key}/"
    state = journal.state(end)
    if state is StepState.FAILED:
        steps = journal.steps(folder)
        ended = journal.recorded(end, EndOutput)
        rung = next_rung(context, task, steps, ended.output.reason if ended is not None else "")
        keeps = {*STEPS} if context.lane is None and _others_began(context, folder) else {"base", *STEPS}
        bases = [step for step in steps if step.phase == "base" and step.state is StepState.DONE]
        if len(bases) > 1:  # it was begun again in a lane: the last base is the one that its work is on
            await journal.redo(f"{folder}base")
            last = StepResult(True, read_as(SnapshotOutput, bases[-1].output))
            await journal.record(f"{folder}base", last, StepFacts(task.key, "base"))
        if any(step.phase == PLAN.name and step.state is StepState.DONE for step in steps):
            keeps.add(PLAN.name)
        for part in dict.fromkeys(step.key.removeprefix(folder).split("/")[0] for step in steps):
            if part not in keeps:
                await journal.redo(f"{folder}{part}")
        if rung.tried:
            await journal.record(f"{folder}{RUNG}", StepResult(True, rung), StepFacts(task.key, RUNG))
    elif state is StepState.DONE:
        text = f"Task {task.key} is pending again."
        await context.emit(StateImported(text, task.key))
        await journal.redo(folder)


def _others_began(context: RunContext, folder: str) -> bool:
    """Return whether another task began after this one failed: what is there now is not its work alone."""
    keys = [step.key for step in context.journal.steps("task/")]
    later = keys[keys.index(f"{folder}end") :]
    return any(key.endswith("/base") and not key.startswith(folder) for key in later)


async def _start(context: RunContext, task: Task, seen: int, asked: LastLaunch) -> TaskState:
    """Return what the task began with, as the journal knows it; the workspace is prepared each time.

    `asked` is the conversation in which the agent asked what was answered since.
    """
    key, lane = f"task/{task.key}/base", context.lane
    if lane is None:
        now = await context.workspace.begin(task.key, context.source.head_branch() or context.view.branch)
        await check_branch(context, task.key, now)
        known = context.journal.recorded(key, SnapshotOutput)
        is_left = now.dirty and not (known or context.cloud or now.links)
        tree = await context.workspace.tree(now) if is_left else ""
        found = SnapshotOutput(now.head, now.branch, now.dirty, heavy=now.heavy, links=now.links, tree=tree)
    elif (known := context.journal.recorded(key, SnapshotOutput)) is not None:
        found = known.output
    else:
        now = await lane.tree.start(await lane.branch.head())
        found = SnapshotOutput(now.head, now.branch, now.dirty, lane.number, seen)
    base = (await context.journal.record(key, StepResult(True, found), StepFacts(task.key, "base"))).output
    await bring_back(context, task.key)
    snapshot = read_base(base)
    begun = context.beginning or Beginning(last=last_session(context) if is_feedback(task.key) else asked)
    start = Start(snapshot, seen=base.seen)
    return TaskState(task, start, snapshot, last=begun.last, own_tests=begun.tests)


def asked_in(context: RunContext, key: str, end: str) -> LastLaunch:
    """Return the conversation in which an agent asked something, if there is an answer."""
    ended = context.journal.recorded(end, EndOutput)
    if ended is None or not is_question(ended.output.reason) or not context.view.comments.get(key):
        return LastLaunch()
    steps = [step for step in context.journal.steps(f"task/{key}/") if step.phase == EXECUTE.name]
    found = [read_as(LaunchOutput, step.output) for step in steps if step.output]
    # The tree of a lane may be another one by now, and vendors keep conversations by folder.
    return LastLaunch(found[-1].session, found[-1].agent) if found and context.lane is None else LastLaunch()


def last_session(context: RunContext, folder: str = "task/") -> LastLaunch:
    """Return the last conversation of the run, or about one task, and whose it is."""
    editing = {phase.name for phase in context.flow.phases if phase.edits}
    for step in reversed(context.journal.steps(folder)):
        if step.phase in editing and step.state is StepState.DONE:
            found = read_as(LaunchOutput, step.output)
            return LastLaunch(found.session, found.agent)
    return LastLaunch()


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
