"""Verify: a judge looks at the evidence, and its verdict decides what follows, a few times."""

from __future__ import annotations

from segue.domain.errors import UnusableAnswer
from segue.domain.events import VerdictGiven
from segue.domain.evidence import Evidence
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Mode
from segue.domain.outcome import Outcome
from segue.domain.results import JudgeOutput, LaunchInput, LaunchOutput, StepResult, read_as, to_json
from segue.domain.role import Role
from segue.domain.verdict import Action, Result, Verdict, without_secrets
from segue.flow.actions import ACTIONS, COUNTED, Resolution, Round
from segue.flow.context import Judging, RunContext
from segue.flow.evidence import tree_before, undo_edits, verdict_after
from segue.flow.launch import LaunchRequest, Try, seen_before
from segue.flow.phase import Phase
from segue.flow.phases.check import run_checks
from segue.flow.phases.execute import attempt_phase
from segue.flow.phases.resolve import resolve
from segue.flow.state import PhaseEnd, TaskState
from segue.ports import Judge, StepFacts
from segue.prompts.judge import criteria_of, judge_prompt


async def verify(context: RunContext, state: TaskState) -> PhaseEnd:
    """Judge the task; while that is allowed, do what the verdict asks for and send the agent back."""
    judging = context.judging
    if judging is None:
        return PhaseEnd(True)
    while True:
        found = await _judge(context, judging, state)
        if found.failure:
            return PhaseEnd(False, f"no verdict: {found.verdict.reason}")
        state.verdict = found.verdict
        if found.verdict.result is Result.PASS:
            return PhaseEnd(True)
        ended = await _act(context, state, found.verdict)
        if ended is not None:
            return ended


VERIFY = Phase("verify", "Verify", Role.VERIFY, run=verify, after=("execute", "check", "review"))


async def _act(context: RunContext, state: TaskState, verdict: Verdict) -> PhaseEnd | None:
    """Do what the verdict asks for; returns the end of the phase, or None to judge again."""
    failed = PhaseEnd(False, f"verification failed: {verdict.reason}")
    if verdict.action is Action.STOP:
        return failed
    wished = verdict.action if context.building else Action.RETRY
    action = wished if wished in ACTIONS else Action.RETRY
    if action in COUNTED:
        state.resolutions += 1
        if state.resolutions > context.policy.resolutions:
            return failed
    resolution = Resolution()
    if context.building is not None:
        resolution = await ACTIONS[action](Round(context, context.building, state, verdict))
    if resolution.end is not None:
        return resolution.end
    ended = await resolve(context, state, verdict, resolution.notes)
    return None if ended.ok else ended


async def _judge(context: RunContext, judging: Judging, state: TaskState) -> JudgeOutput:
    """Judge the task as it is now."""
    if judging.judge is not None:
        return await _ask_judge(context, judging.judge, state)
    return await _ask_agent(context, judging, state)


async def _ask_judge(context: RunContext, judge: Judge, state: TaskState) -> JudgeOutput:
    task = state.task
    number = state.launched[VERIFY.name] = state.next_number(VERIFY.name)
    key = f"{state.folder}/{VERIFY.name}/{number}"

    async def work(_token: str) -> StepResult[JudgeOutput]:
        evidence = await _evidence(context, state, key)
        verdict = without_secrets(await judge.judge(task, evidence), context.redact)
        await context.emit(VerdictGiven.of(task.key, verdict, evidence.checks), key)
        passed = verdict.result is Result.PASS
        return StepResult(passed, JudgeOutput(verdict=verdict, checks=evidence.checks))

    facts = StepFacts(task.key, VERIFY.name, number, judge.name, build_phase=task.build_phase)
    return (await context.journal.step(key, JudgeOutput, work, facts=facts)).output


async def _ask_agent(context: RunContext, judging: Judging, state: TaskState) -> JudgeOutput:
    """Let an agent look at the same evidence, in the work itself; a malformed answer is asked for again."""
    task = state.task

    async def attempt(now: Try) -> StepResult[LaunchOutput]:
        key = f"{state.folder}/{VERIFY.name}/{now.number}"
        known = context.journal.recorded(key, LaunchOutput)
        if known is not None:
            return known
        evidence = await _evidence(context, state, key)
        tree = await tree_before(context, key, state.now)

        async def conclude(outcome: Outcome) -> LaunchOutput:
            edited = await undo_edits(context, task.key, tree, outcome)
            return edited or _read(context, judging, state, evidence, outcome)

        async with context.workspace.checkout(state.head) as folder:
            request = LaunchRequest(
                key=key,
                phase=VERIFY.name,
                attempt=now.number,
                prompt=judge_prompt(task, evidence, diagnostics=evidence.diagnostics, complaint=now.feedback),
                mode=Mode.ASK,
                by=now.by,
                workspace=folder,
                task=task.key,
                base=state.head,
                build_phase=task.build_phase,
                before=LaunchInput(tree=tree, checks=evidence.checks),
            )
            return await context.launcher.launch(request, conclude)

    result = await attempt_phase(context, state, VERIFY, attempt, attempts=2)
    return read_as(JudgeOutput, to_json(result.output))


def _read(
    context: RunContext, judging: Judging, state: TaskState, evidence: Evidence, outcome: Outcome
) -> LaunchOutput:
    """Turn an agent's answer into a verdict; one that cannot be used is a failure of the launch."""
    failure = outcome.failure
    if failure is None:
        keys = [criterion.key for criterion in criteria_of(state.task)]
        try:
            verdict = judging.read(outcome.text, keys, evidence, context.building is not None)
            verdict = without_secrets(verdict, context.redact)
            return LaunchOutput(verdict=verdict, checks=evidence.checks)
        except UnusableAnswer as problem:
            failure = Failure(FailureKind.NO_RESULT, f"The verdict cannot be used: {problem}")
    return LaunchOutput(verdict=verdict_after(failure), failure=failure, checks=evidence.checks)


async def _evidence(context: RunContext, state: TaskState, key: str) -> Evidence:
    """Gather the diff since the task began, what the checks say, and the agent's own words."""
    diff = await context.workspace.diff(state.base.head, state.head)
    files = (await context.workspace.changes(state.base, state.now)).files
    # A judging agent that was interrupted quotes what it was shown then.
    seen = seen_before(context.journal, key).checks
    checks = await run_checks(context, state, key) if seen is None else seen
    building = context.building
    return Evidence(
        context.redact(diff),
        files,
        checks,
        state.summary,
        building.diagnostics if building else None,
        context.redact(context.source.context(state.task)) if building else "",
    )
