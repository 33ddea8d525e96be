"""Plan: the agent writes a plan in words, and must not change anything meanwhile."""

from __future__ import annotations

from segue.domain.job import Mode, Role
from segue.domain.outcome import Failure, FailureKind, Outcome
from segue.domain.results import LaunchOutput, StepResult
from segue.flow.context import RunContext
from segue.flow.earlier import describe_earlier
from segue.flow.evidence import start_of, undo_edits, verdict_after
from segue.flow.launch import LaunchRequest, Try
from segue.flow.phase import Phase
from segue.flow.phases.execute import attempt_phase
from segue.flow.state import PhaseEnd, TaskState
from segue.prompts.task import plan_prompt

_NO_PLAN = "The agent ended without a plan."


async def plan(context: RunContext, state: TaskState) -> PhaseEnd:
    """Let the agent plan the task."""
    task = state.task

    async def conclude(outcome: Outcome) -> LaunchOutput:
        edited = await undo_edits(context, task.key, state.base, outcome)
        if edited is not None:
            return edited
        failure = outcome.failure
        if failure is None and not outcome.text.strip():
            failure = Failure(FailureKind.NO_RESULT, _NO_PLAN)
        return LaunchOutput(verdict=verdict_after(failure), failure=failure)

    async def attempt(now: Try) -> StepResult[LaunchOutput]:
        about = context.redact(context.source.context(task))
        request = LaunchRequest(
            key=f"{state.folder}/{PLAN.name}/{now.number}",
            phase=PLAN.name,
            attempt=now.number,
            prompt=plan_prompt(
                task,
                about,
                now.feedback,
                earlier=describe_earlier(context, task.key),
                comments=context.comments(task.key),
            ),
            mode=Mode.PLAN,
            by=now.by,
            workspace=context.workspace.root,
            task=task.key,
            base=start_of(context, state),
            build_phase=task.build_phase,
        )
        return await context.launcher.launch(request, conclude)

    result = await attempt_phase(context, state, PLAN, attempt)
    state.plan = result.output.text
    return PhaseEnd(result.ok, "" if result.ok else result.output.verdict.reason)


PLAN = Phase("plan", "Plan", Role.PLAN, run=plan)
