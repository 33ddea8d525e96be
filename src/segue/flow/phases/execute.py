"""Plan and execute: the agent writes a plan in words, then edits, and the work tree shows whether it did."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from segue.domain.delivery import feedback_kind
from segue.domain.job import Mode, Prompt
from segue.domain.outcome import Failure, FailureKind, Outcome
from segue.domain.results import LaunchOutput
from segue.domain.task import TaskKind
from segue.flow.begin import follow_commits
from segue.flow.commit import commit_phase
from segue.flow.context import RunContext
from segue.flow.earlier import describe_earlier
from segue.flow.evidence import (
    changes_since,
    gets_verdict,
    start_of,
    take_attempt,
    undo_edits,
    verdict_after,
)
from segue.flow.exam import begin_exam
from segue.flow.launch import LaunchRequest
from segue.flow.phase import EXECUTE, PLAN
from segue.flow.state import PhaseEnd, TaskState
from segue.prompts.merge import describe_collision, merge_prompt
from segue.prompts.task import execute_prompt, feedback_prompt, plan_prompt

_NO_PLAN = "The agent ended without a plan."


async def plan(context: RunContext, state: TaskState) -> PhaseEnd:
    """Let the agent plan the task in words; it must not change anything meanwhile."""
    task, attempts = state.task, context.attempts(PLAN, state)
    async for attempt in attempts:
        prompt = plan_prompt(
            task,
            context.redact(context.source.context(task)),
            attempt.feedback,
            context.seed,
            earlier=describe_earlier(context, task),
            comments=context.comments(task.key),
        )
        request = LaunchRequest(prompt, Mode.PLAN, context.workspace.root, start_of(context, state))
        async with attempt.launch(request) as outcome:
            edited = await undo_edits(context, task.key, state.base, outcome)
            attempt.output = edited or _read_plan(outcome)
    result = attempts.result
    state.plan = result.output.text
    await follow_commits(context, state)
    return PhaseEnd(result.ok, "" if result.ok else result.output.verdict.reason)


def _read_plan(outcome: Outcome) -> LaunchOutput:
    failure = outcome.failure
    if failure is None and not outcome.text.strip():
        failure = Failure(FailureKind.NO_RESULT, _NO_PLAN)
    return LaunchOutput(verdict=verdict_after(failure), failure=failure)


async def execute(context: RunContext, state: TaskState) -> PhaseEnd:
    """Let the agent do the task; the work tree shows whether it did."""
    task, continues = state.task, state.last.session is not None
    idle = context.policy.allow_no_change or task.kind is TaskKind.VERIFY_ONLY
    # A conversation of long ago may not be there any more: then another one is begun.
    attempts = context.attempts(EXECUTE, state, least=2 if continues else 1)
    async for attempt in attempts:
        session = state.session_for(attempt.by) if continues and attempt.number == 1 else None
        request = LaunchRequest(
            partial(_execute_prompt, context, state, attempt.feedback),
            Mode.EDIT,
            context.workspace.root,
            start_of(context, state),
            session=session,
            commits=context.policy.commit != "never",
        )
        async with attempt.launch(request, begin_exam(context, state)) as outcome:
            attempt.output = await changes_since(context, state, attempt.key, outcome, allow_no_change=idle)
    result = attempts.result
    if not result.ok and not gets_verdict(context, result.output.failure):
        return PhaseEnd(False, result.output.verdict.reason)
    take_attempt(state, result.output)
    return await commit_phase(context, state, EXECUTE.name)


def _execute_prompt(
    context: RunContext, state: TaskState, feedback: str | None, *, comments: Collection[str]
) -> Prompt:
    """Return what the agent is asked to do; where the work was begun again, with the reason."""
    task, collision = state.task, state.start.collision
    about = context.redact(context.source.context(task))
    if kind := feedback_kind(task.key):
        return feedback_prompt(
            task, kind, about, feedback, context.seed, cloud=context.cloud, comments=comments
        )
    if collision is not None and state.start.merges:
        return merge_prompt(task, about, collision, feedback, cloud=context.cloud, comments=comments)
    if collision is not None:
        feedback = "\n\n".join(filter(None, (feedback, describe_collision(collision))))
    return execute_prompt(
        task,
        about,
        state.plan,
        feedback,
        context.seed,
        cloud=context.cloud,
        earlier=describe_earlier(context, task),
        comments=comments,
        tried=context.redact("\n".join(state.tried)),
    )
