"""Begin a task: what it begins with, also when it is tried again."""

from __future__ import annotations

from msgspec.structs import replace

from segue.domain.delivery import is_feedback
from segue.domain.events import NoticeGiven, StateImported
from segue.domain.question import is_question
from segue.domain.results import EndOutput, LaunchOutput, SnapshotOutput, StepFacts, StepResult, read_as
from segue.domain.run import StepState
from segue.domain.task import Task
from segue.domain.workspace import Snapshot
from segue.flow.aside import STEPS, bring_back, read_base
from segue.flow.branch import check_branch
from segue.flow.context import RunContext
from segue.flow.escalation import RUNG, next_rung
from segue.flow.evidence import has_advanced
from segue.flow.phase import EXECUTE, PLAN
from segue.flow.state import LastLaunch, Start, TaskState


async def start_again(context: RunContext, task: Task, end: str) -> None:
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


async def start(context: RunContext, task: Task, seen: int, asked: LastLaunch) -> TaskState:
    """Return what the task began with, as the journal knows it; the workspace is prepared each time.

    `asked` is the conversation in which the agent asked what was answered since.
    """
    key, lane = f"task/{task.key}/base", context.lane
    if lane is None:
        now = await context.workspace.begin(task.key, context.source.head_branch() or context.view.branch)
        await check_branch(context, task.key, now)
        known = context.journal.recorded(key, SnapshotOutput)
        if known is not None and await _is_untouched(context, task.key, read_base(known.output), now):
            await context.journal.redo(key)  # a person has committed before any work began
            known = None
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
    last = last_session(context) if is_feedback(task.key) else asked
    return TaskState(task, Start(snapshot, seen=base.seen), snapshot, last=last)


async def follow_commits(context: RunContext, state: TaskState) -> None:
    """Let the work begin with what a person has committed while the task was planned."""
    now = await context.workspace.snapshot() if context.lane is None and not context.cloud else state.base
    if now.dirty or not await _is_untouched(context, state.task.key, state.base, now):
        return
    key = f"{state.folder}/base"
    text = f"Commit {now.head[:10]} was made while task {state.task.key} was planned, so it begins with it."
    await context.emit(NoticeGiven(text, task=state.task.key))
    await context.journal.redo(key)
    found = SnapshotOutput(now.head, now.branch, now.dirty)
    await context.journal.record(key, StepResult(True, found), StepFacts(state.task.key, "base"))
    state.start, state.now = replace(state.start, base=now), now


async def _is_untouched(context: RunContext, task: str, base: Snapshot, now: Snapshot) -> bool:
    """Return whether somebody has committed since a task began of which nothing but a plan was made."""
    phases = {step.phase for step in context.journal.steps(f"task/{task}/")}
    return phases <= {"base", PLAN.name, None} and await has_advanced(context, base, now)


def asked_in(context: RunContext, key: str, end: str) -> LastLaunch:
    """Return the conversation in which an agent asked something, if there is an answer."""
    ended = context.journal.recorded(end, EndOutput)
    if ended is None or not is_question(ended.output.reason) or not context.view.comments.get(key):
        return LastLaunch()
    steps = [step for step in context.journal.steps(f"task/{key}/") if step.phase == EXECUTE.name]
    found = [read_as(LaunchOutput, step.output) for step in steps if step.output]
    # The tree of a lane may be another one by now, and vendors keep conversations by folder.
    return LastLaunch(found[-1].session, found[-1].agent) if found and context.lane is None else LastLaunch()


def last_session(context: RunContext) -> LastLaunch:
    """Return the last conversation of the run, and whose it is."""
    editing = {phase.name for phase in context.flow.phases if phase.edits}
    for step in reversed(context.journal.steps("task/")):
        if step.phase in editing and step.state is StepState.DONE:
            found = read_as(LaunchOutput, step.output)
            return LastLaunch(found.session, found.agent)
    return LastLaunch()
