"""Independent: an agent that never sees the work writes tests for the task, and the work must pass them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from segue.domain.job import Mode
from segue.domain.outcome import Failure, FailureKind
from segue.domain.proof import CheckState, IndependentTests
from segue.domain.results import LaunchOutput, StepResult
from segue.domain.task import TaskKind
from segue.flow.context import RunContext
from segue.flow.evidence import verdict_after
from segue.flow.launch import LaunchRequest
from segue.flow.phase import INDEPENDENT
from segue.flow.phases.check import check
from segue.flow.state import PhaseEnd, TaskState
from segue.prompts.task import independent_prompt

if TYPE_CHECKING:
    from segue.proof.independent import DetachedTests

_NO_TESTS = "No new test file was written."


async def independent(context: RunContext, state: TaskState) -> PhaseEnd:
    """Have tests written from the task alone; from then on, the checks run them too."""
    testing = context.testing
    if testing is None or state.task.kind is not TaskKind.BUILD:
        return PhaseEnd(True)
    checked = await check(context, state)
    if not checked.ok:
        return checked
    if state.own_tests.tests is not None:  # written when the work was begun first
        return PhaseEnd(True)
    commands = _commands(state)
    if not commands:
        state.notes.append("no check reports its tests one by one, so there are no independent tests")
        return PhaseEnd(True)
    written = await _write(context, testing, state, commands)
    if not written.ok:
        state.notes.append(f"there are no independent tests: {written.output.verdict.reason}")
        return PhaseEnd(True)
    output = written.output
    tests = IndependentTests(commit=output.head, files=output.files, commands=commands, by=output.agent)
    state.own_tests = replace(state.own_tests, tests=tests, passed_without=state.tree)
    state.checked = False
    return await check(context, state)


def _commands(state: TaskState) -> tuple[str, ...]:
    """Return the checks that report tests, or would if there were any."""
    return tuple(
        one.command
        for one in state.checks
        if not (one.scenario or one.of) and (one.runner or one.state is CheckState.NOTHING)
    )


async def _write(
    context: RunContext, testing: DetachedTests, state: TaskState, commands: tuple[str, ...]
) -> StepResult[LaunchOutput]:
    """Launch the agent on the base of the task, in a folder that has nothing of the work."""
    task, base, names = state.task, state.base.head, list[str]()
    attempts = context.attempts(INDEPENDENT, state)
    async for attempt in attempts:
        name = f"{task.key}-{attempt.number}"
        names.append(name)
        folder = await testing.open(base, name)
        wanted = "\n".join([task.text, *(criterion.text for criterion in task.criteria)])
        about = context.redact(context.source.context(task))
        prompt = independent_prompt(task, about, testing.interface(name, wanted), commands, attempt.feedback)
        async with attempt.launch(LaunchRequest(prompt, Mode.EDIT, folder)) as outcome:
            kept = await testing.keep(name, task.key, base) if outcome.failure is None else None
            failure = outcome.failure or (Failure(FailureKind.NO_CHANGE, _NO_TESTS) if not kept else None)
            attempt.output = LaunchOutput(
                verdict=verdict_after(failure, kept is not None),
                failure=failure,
                changed=kept is not None,
                files=kept.files if kept else (),
                head=kept.commit if kept else "",
            )
    for name in names:
        testing.close(name)
    return attempts.result
