"""Run a command that the judge asks for, if it is on the list; its output goes to the agent."""

from __future__ import annotations

import time

from segue.domain.diagnostic import find_refusal, parse
from segue.domain.events import DiagnosticRun
from segue.domain.results import DiagnosticOutput, StepResult
from segue.flow.actions import Round
from segue.flow.phase import Phase
from segue.ports import StepFacts

DIAGNOSTIC = Phase("diagnostic", "Diagnostic", within=("verify",))
_KEPT = 16 * 1024


async def run_diagnostic(now: Round) -> str:
    """Run the command where the work is; one that is not allowed is refused, and stored as such."""
    context, task, command = now.context, now.state.task, now.verdict.request
    number = now.state.resolutions
    key = f"{now.state.folder}/{DIAGNOSTIC.name}/{number}"

    async def work(_token: str) -> StepResult[DiagnosticOutput]:
        began = time.monotonic()
        refused, code, printed = await _run(now, command)
        seconds, output = round(time.monotonic() - began, 3), context.redact(printed)[-_KEPT:]
        said = (command, not refused, refused, code, seconds, output)
        await context.emit(DiagnosticRun(task.key, *said, task.build_phase), key)
        return StepResult(not refused, DiagnosticOutput(*said))

    facts = StepFacts(task.key, DIAGNOSTIC.name, number, build_phase=task.build_phase)
    found = (await context.journal.step(key, DiagnosticOutput, work, facts=facts)).output
    if not found.allowed:
        return f"The command `{command}` was asked for, but it was not run: {found.reason}"
    ended = "could not be run" if found.exit_code is None else f"exit code {found.exit_code}"
    return f"$ {command}\n{ended}\n{found.output}"


async def _run(now: Round, command: str) -> tuple[str, int | None, str]:
    """Return why it was refused, or its exit code and output."""
    try:
        argv = parse(command)
    except ValueError as problem:
        return str(problem), None, ""
    refused = find_refusal(argv, now.building.diagnostics)
    if refused:
        return refused, None, ""
    async with now.context.workspace.checkout(now.state.head) as folder:
        code, output = await now.building.run_diagnostic(argv, folder)
    return "", code, output
