"""Execute: the agent edits, and the work tree shows whether it did."""

from __future__ import annotations

from segue.domain.delivery import feedback_kind, is_feedback
from segue.domain.job import Mode, Prompt, Role
from segue.domain.results import LaunchOutput, StepResult
from segue.domain.task import TaskKind
from segue.flow.commit import commit_phase
from segue.flow.context import RunContext
from segue.flow.earlier import describe_earlier
from segue.flow.evidence import changes_since, start_of
from segue.flow.launch import Attempt, LaunchRequest, Series, Try
from segue.flow.phase import Phase
from segue.flow.state import PhaseEnd, TaskState
from segue.prompts.merge import describe_collision, merge_prompt
from segue.prompts.task import execute_prompt, feedback_prompt


async def execute(context: RunContext, state: TaskState) -> PhaseEnd:
    """Let the agent do the task."""
    task = state.task
    returned = is_feedback(task.key)

    async def attempt(now: Try) -> StepResult[LaunchOutput]:
        about = context.redact(context.source.context(task))
        prompt = _prompt(context, state, about, now.feedback)
        key = f"{state.folder}/{EXECUTE.name}/{now.number}"
        request = LaunchRequest(
            key=key,
            phase=EXECUTE.name,
            attempt=now.number,
            prompt=prompt,
            mode=Mode.EDIT,
            by=now.by,
            workspace=context.workspace.root,
            task=task.key,
            about=task,
            base=start_of(context, state),
            session=state.session_for(now.by) if returned and now.number == 1 else None,
            build_phase=task.build_phase,
            commits=context.policy.commit != "never",
        )
        idle = context.policy.allow_no_change or task.kind is TaskKind.VERIFY_ONLY
        conclude = changes_since(context, state, key, allow_no_change=idle)
        return await context.launcher.launch(request, conclude)

    # A conversation of long ago may not be there any more: then another one is begun.
    result = await attempt_phase(context, state, EXECUTE, attempt, attempts=2 if returned else 1)
    if not result.ok:
        return PhaseEnd(False, result.output.verdict.reason)
    state.take(result.output)
    return await commit_phase(context, state, EXECUTE.name)


def _prompt(context: RunContext, state: TaskState, about: str, feedback: str | None) -> Prompt:
    """Return what the agent is asked to do; where the work was begun again, with the reason."""
    task, collision = state.task, state.collision
    if kind := feedback_kind(task.key):
        return feedback_prompt(task, kind, about, feedback, cloud=context.cloud)
    if collision is not None and state.merges:
        return merge_prompt(task, about, collision, feedback, cloud=context.cloud)
    if collision is not None:
        feedback = "\n\n".join(filter(None, (feedback, describe_collision(collision))))
    earlier = describe_earlier(context, task.key)
    return execute_prompt(
        task,
        about,
        state.plan,
        feedback,
        cloud=context.cloud,
        earlier=earlier,
        comments=context.comments(task.key),
    )


EXECUTE = Phase("execute", "Execute", Role.EXECUTE, edits=True, run=execute)


async def attempt_phase(
    context: RunContext, state: TaskState, phase: Phase, attempt: Attempt, attempts: int = 1
) -> StepResult[LaunchOutput]:
    """Attempt a phase of a task until it succeeds or no more attempts are allowed."""
    assert phase.role is not None
    series = Series(
        chain=context.agents[phase.role],
        task=state.task.key,
        phase=phase.name,
        folder=state.folder,
        first=state.next_number(phase.name),
        attempts=max(context.launcher.attempts, attempts),
    )
    state.launched[phase.name], result = await context.launcher.attempt(series, attempt)
    return result
