"""Ask who judges: a service or an agent."""

from __future__ import annotations

from segue.domain.errors import Unfinished, UnusableAnswer
from segue.domain.events import Event, VerdictGiven
from segue.domain.job import Mode, Role
from segue.domain.outcome import Failure, FailureKind, Outcome
from segue.domain.results import (
    JudgeOutput,
    LaunchInput,
    LaunchOutput,
    StepFacts,
    StepResult,
    read_as,
    to_json,
)
from segue.domain.task import Task
from segue.domain.verdict import Evidence, Result, without_secrets
from segue.flow.context import Judging, RunContext
from segue.flow.evidence import tree_before, undo_edits, verdict_after
from segue.flow.launch import LaunchRequest
from segue.flow.phase import Phase
from segue.flow.state import TaskState
from segue.ports import Judge
from segue.prompts.judge import judge_prompt
from segue.system.patience import outlast


async def ask_judge(
    context: RunContext, judging: Judging, state: TaskState, phase: Phase, task: Task, evidence: Evidence
) -> JudgeOutput:
    """Ask who judges about the criteria of a task."""
    if judging.judge is None:
        return await _ask_agent(context, judging, state, phase, task, evidence)
    return await _ask_service(context, judging.judge, state, phase, task, evidence)


async def _ask_service(
    context: RunContext, judge: Judge, state: TaskState, phase: Phase, task: Task, evidence: Evidence
) -> JudgeOutput:
    number = state.count(phase.name)
    key = f"{state.folder}/{phase.name}/{number}"

    async def emit(event: Event) -> None:
        await context.emit(event, key)

    async def work(_token: str) -> StepResult[JudgeOutput]:
        found = await outlast(lambda: judge.judge(task, evidence), context.launcher.limits.patience, emit)
        verdict = without_secrets(found, context.redact)
        await context.emit(VerdictGiven.of(task.key, verdict, evidence.checks), key)
        passed = verdict.result is Result.PASS
        return StepResult(passed, JudgeOutput(verdict=verdict, checks=evidence.checks))

    facts = StepFacts(task.key, phase.name, number, judge.name, build_phase=task.build_phase)
    return (await context.journal.step(key, JudgeOutput, work, facts=facts)).output


async def _ask_agent(
    context: RunContext, judging: Judging, state: TaskState, phase: Phase, task: Task, evidence: Evidence
) -> JudgeOutput:
    """Let an agent look at the same evidence, in the work itself; a malformed answer is asked for again."""

    attempts = context.attempts(phase, state, role=Role.VERIFY, least=2, retry_recorded=True)
    async for attempt in attempts:
        tree = await tree_before(context, attempt.key, state.now)
        prompt = judge_prompt(task, evidence, diagnostics=evidence.diagnostics, complaint=attempt.feedback)
        async with context.workspace.checkout(state.head) as folder:
            request = LaunchRequest(prompt, Mode.ASK, folder, state.head, before=LaunchInput(tree=tree))
            async with attempt.launch(request) as outcome:
                edited = await undo_edits(context, task.key, tree, outcome)
                attempt.output = edited or _read(context, judging, task, evidence, outcome)
    result = attempts.result
    return read_as(JudgeOutput, to_json(result.output))


def _read(
    context: RunContext, judging: Judging, task: Task, evidence: Evidence, outcome: Outcome
) -> LaunchOutput:
    """Turn an agent's answer into a verdict; one that cannot be used is a failure of the launch."""
    failure = outcome.failure
    if failure is None:
        try:
            verdict = judging.read(outcome.text, task, evidence)
            return LaunchOutput(verdict=without_secrets(verdict, context.redact), checks=evidence.checks)
        except UnusableAnswer as problem:
            failure = Failure(FailureKind.NO_RESULT, f"The verdict cannot be used: {problem}")
    return LaunchOutput(verdict=verdict_after(failure), failure=failure, checks=evidence.checks)


def no_verdict(context: RunContext, state: TaskState, reason: str) -> Unfinished:
    """Return the error for judges without a usable answer: on resume only they are asked again."""
    task = state.task.key
    return Unfinished(
        f"Task {task} needs a human: no verdict: {reason}",
        reason=f"no verdict: {reason}",
        kept="The agent's work is kept; on resume only the judge is asked again.",
        hint=f"Ask again: segue resume {context.journal.run.id}   Decide yourself: segue task accept {task}",
    )
