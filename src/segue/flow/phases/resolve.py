"""Resolve: the agent is sent back with exactly what is missing, in the same conversation where it has one."""

from __future__ import annotations

from segue.domain.job import Mode, Role
from segue.domain.results import LaunchOutput, StepResult
from segue.domain.verdict import Verdict
from segue.flow.commit import commit_phase
from segue.flow.context import RunContext
from segue.flow.evidence import changes_since, start_of
from segue.flow.launch import LaunchRequest, Try
from segue.flow.phase import Phase
from segue.flow.phases.execute import attempt_phase
from segue.flow.state import PhaseEnd, TaskState
from segue.prompts.task import resolve_prompt

RESOLVE = Phase(
    "resolve", "Fix", Role.EXECUTE, edits=True, within=("check", "verify"), settings=("limits.resolutions",)
)


async def resolve(context: RunContext, state: TaskState, verdict: Verdict, notes: str = "") -> PhaseEnd:
    """Send the agent back; what it changes is committed on the same branch."""
    task = state.task

    async def attempt(now: Try) -> StepResult[LaunchOutput]:
        about = context.redact(context.source.context(task))
        key = f"{state.folder}/{RESOLVE.name}/{now.number}"
        request = LaunchRequest(
            key=key,
            phase=RESOLVE.name,
            attempt=now.number,
            prompt=resolve_prompt(
                task, about, verdict, now.feedback, cloud=context.cloud, notes=context.redact(notes)
            ),
            mode=Mode.EDIT,
            by=now.by,
            workspace=context.workspace.root,
            task=task.key,
            about=task,
            base=start_of(context, state),
            session=state.session_for(now.by),
            build_phase=task.build_phase,
        )
        conclude = changes_since(context, state, key, allow_no_change=True)
        return await context.launcher.launch(request, conclude)

    result = await attempt_phase(context, state, RESOLVE, attempt)
    if not result.ok:
        return PhaseEnd(False, result.output.verdict.reason)
    state.take(result.output)
    return await commit_phase(context, state, f"fix-{state.resolutions}")
