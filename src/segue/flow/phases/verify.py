"""Verify: a judge looks at the evidence, and its verdict decides what follows, a few times."""

from __future__ import annotations

from segue.domain.results import SnapshotOutput
from segue.domain.task import Task
from segue.domain.verdict import Action, Evidence, Result, Verdict
from segue.domain.workspace import Snapshot
from segue.flow.actions import ACTIONS, COUNTED, Resolution, Round, what_follows
from segue.flow.commit import send_back
from segue.flow.context import RunContext
from segue.flow.escalation import escalate
from segue.flow.judging import ask_judge, no_verdict
from segue.flow.phase import VERIFY
from segue.flow.phases.check import check
from segue.flow.state import PhaseEnd, TaskState


async def verify(context: RunContext, state: TaskState) -> PhaseEnd:
    """Judge the task; while that is allowed, do what the verdict asks for and send the agent back."""
    judging = context.judging
    if judging is None:
        return PhaseEnd(True)
    while True:
        checked = await check(context, state)
        if not checked.ok:
            return checked
        evidence = await _evidence(context, state)
        found = await ask_judge(context, judging, state, VERIFY, state.task, evidence)
        if found.failure is not None:
            raise no_verdict(context, state, found.verdict.reason)
        state.verdict = found.verdict
        if found.verdict.result is Result.PASS:
            # Who looks at the checks alone judges no criterion.
            state.judged = judging.decides_contests
            return PhaseEnd(True)
        ended = await _act(context, state, found.verdict)
        if ended is not None:
            return ended


async def _act(context: RunContext, state: TaskState, verdict: Verdict) -> PhaseEnd | None:
    """Do what the verdict asks for; returns the end of the phase, or None to judge again."""
    failed = PhaseEnd(False, f"verification failed: {verdict.reason}")
    if verdict.action is Action.STOP:
        return failed
    building = context.building
    now = Round(context, building, state, verdict) if building else None
    limit = context.policy.resolutions
    action = what_follows(verdict, state.resolutions, limit, chooses=now is not None)
    if action is Action.STOP:
        return failed
    if action in COUNTED:
        state.resolutions += 1
    resolution = await ACTIONS[action](now) if now else Resolution()
    if resolution.end is not None:
        return resolution.end
    if resolution.notes:
        state.brought.append(resolution.notes)
    await escalate(context, state, verdict.reason)
    ended = await send_back(context, state, verdict)
    return None if ended.ok else ended


async def _evidence(context: RunContext, state: TaskState) -> Evidence:
    """Gather the diff since the task or its story began, what the checks said, and the agent's own words."""
    base = _story_base(context, state.task) or state.base
    diff = await context.workspace.diff(base.head, state.head)
    files = (await context.workspace.changes(base, state.now)).files
    building = context.building
    return Evidence(
        context.redact(diff),
        files,
        state.checks,
        state.last.summary,
        building.diagnostics if building else None,
        context.redact(context.source.context(state.task)) if building else "",
    )


def _story_base(context: RunContext, task: Task) -> Snapshot | None:
    """Return what the story began with that this task ends, as far as this run knows it."""
    for key in task.story_tasks:
        known = context.journal.recorded(f"task/{key}/base", SnapshotOutput)
        if known is not None and key != task.key:
            return Snapshot(known.output.head, known.output.branch, known.output.dirty)
    return None
