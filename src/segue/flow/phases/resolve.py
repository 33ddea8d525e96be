"""Resolve: the agent is sent back with exactly what is missing, in the same conversation where it has one."""

from __future__ import annotations

from segue.domain.job import Mode
from segue.domain.verdict import Verdict
from segue.flow.context import RunContext
from segue.flow.evidence import changes_since, start_of
from segue.flow.launch import LaunchRequest
from segue.flow.phase import RESOLVE
from segue.flow.state import PhaseEnd, TaskState
from segue.prompts.task import resolve_prompt


async def resolve(context: RunContext, state: TaskState, verdict: Verdict, notes: str) -> PhaseEnd:
    """Send the agent back; `commit.send_back` also commits what it changes."""
    attempts = context.attempts(RESOLVE, state)
    async for attempt in attempts:
        prompt = resolve_prompt(
            state.task,
            context.redact(context.source.context(state.task)),
            verdict,
            attempt.feedback,
            cloud=context.cloud,
            notes=context.redact(notes),
        )
        request = LaunchRequest(
            prompt,
            Mode.EDIT,
            context.workspace.root,
            start_of(context, state),
            session=state.session_for(attempt.by),
        )
        async with attempt.launch(request) as outcome:
            attempt.output = await changes_since(context, state, attempt.key, outcome, allow_no_change=True)
    result = attempts.result
    if not result.ok:
        return PhaseEnd(False, result.output.verdict.reason)
    state.take(result.output)
    return PhaseEnd(True)
