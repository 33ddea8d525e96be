"""Independent: an agent that never sees the work writes tests for the task, and the work must pass them."""

from __future__ import annotations

from segue.domain.job import Mode, Role
from segue.domain.outcome import Failure, FailureKind, Outcome
from segue.domain.proof import CheckState, IndependentTests
from segue.domain.results import LaunchOutput, StepResult
from segue.domain.task import TaskKind
from segue.flow.context import RunContext, Testing
from segue.flow.evidence import verdict_after
from segue.flow.launch import LaunchRequest, Try
from segue.flow.phase import Phase
from segue.flow.phases.check import check
from segue.flow.phases.execute import attempt_phase
from segue.flow.state import PhaseEnd, TaskState
from segue.prompts.task import independent_prompt

_NO_TESTS = "No new test file was written."


async def independent(context: RunContext, state: TaskState) -> PhaseEnd:
    """Have tests written from the task alone; from then on, the checks run them too."""
    testing = context.testing
    if testing is None or state.task.kind is not TaskKind.BUILD:
        return PhaseEnd(True)
    checked = await check(context, state)
    if not checked.ok:
        return checked
    if state.independent is not None:  # written when the work was begun first
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
    state.independent = IndependentTests(
        commit=output.head, files=output.files, commands=commands, by=output.agent
    )
    state.checked, state.passed_without = False, state.tree
    return await check(context, state)


INDEPENDENT = Phase(
    "independent",
    "Test independently",
    Role.TEST,
    run=independent,
    after=("execute", "check", "review"),
)


def _commands(state: TaskState) -> tuple[str, ...]:
    """Return the checks that report tests, or would if there were any."""
    return tuple(
        one.command
        for one in state.checks
        if not (one.scenario or one.of) and (one.runner or one.state is CheckState.NOTHING)
    )


async def _write(
    context: RunContext, testing: Testing, state: TaskState, commands: tuple[str, ...]
) -> StepResult[LaunchOutput]:
    """Launch the agent on the base of the task, in a folder that has nothing of the work."""
    task, base = state.task, state.base.head
    names: list[str] = []

    async def attempt(now: Try) -> StepResult[LaunchOutput]:
        name = f"{task.key}-{now.number}"
        key = f"{state.folder}/{INDEPENDENT.name}/{now.number}"
        known = context.journal.recorded(key, LaunchOutput)
        if known is not None:
            return known
        names.append(name)
        folder = await testing.open(base, name)
        wanted = "\n".join([task.text, *(criterion.text for criterion in task.criteria)])
        about = context.redact(context.source.context(task))

        async def conclude(outcome: Outcome) -> LaunchOutput:
            kept = await testing.keep(name, task.key, base) if outcome.failure is None else None
            failure = outcome.failure or (Failure(FailureKind.NO_CHANGE, _NO_TESTS) if not kept else None)
            return LaunchOutput(
                verdict=verdict_after(failure, kept is not None),
                failure=failure,
                changed=kept is not None,
                files=kept.files if kept else (),
                head=kept.commit if kept else "",
            )

        request = LaunchRequest(
            key=key,
            phase=INDEPENDENT.name,
            attempt=now.number,
            prompt=independent_prompt(task, about, testing.interface(name, wanted), commands, now.feedback),
            mode=Mode.EDIT,
            by=now.by,
            workspace=folder,
            task=task.key,
            build_phase=task.build_phase,
        )
        return await context.launcher.launch(request, conclude)

    result = await attempt_phase(context, state, INDEPENDENT, attempt)
    for name in names:
        testing.close(name)
    return result
