"""RUN_DIAGNOSTIC: a command the judge asks for, if it is on the list; what it prints goes to the agent."""

from __future__ import annotations

import time

from segue.domain.diagnostic import allowed, parse
from segue.domain.event import EventType
from segue.flow.resolution import Resolution, Round
from segue.ports import StepFacts, StepResult

_KEPT = 16 * 1024


async def diagnose(now: Round) -> Resolution:
    """Run the command where the work is; one that is not allowed is refused, and stored as such."""
    kit, task, command = now.kit, now.task, now.verdict.request
    key = f"task/{task.key}/diagnostic/{now.number}"

    async def work(_token: str) -> StepResult:
        began = time.monotonic()
        refused, code, output = await _run(now, command)
        said = {"command": command, "allowed": not refused, "reason": refused, "exit_code": code}
        said["seconds"] = round(time.monotonic() - began, 3)
        told = {**said, "output": kit.redact(output)[-_KEPT:]}
        await kit.emit(EventType.DIAGNOSTIC, key, task=task.key, build_phase=task.build_phase, **told)
        return StepResult(not refused, told)

    facts = StepFacts(task.key, "diagnostic", now.number, build_phase=task.build_phase)
    told = (await kit.journal.step(key, work, facts=facts)).output
    if not told["allowed"]:
        return Resolution(f"The command `{command}` was asked for, but it was not run: {told['reason']}")
    ended = "could not be run" if told["exit_code"] is None else f"exit code {told['exit_code']}"
    return Resolution(f"$ {command}\n{ended}\n{told['output']}")


async def _run(now: Round, command: str) -> tuple[str, int | None, str]:
    """Why it was refused, or its exit code and output."""
    try:
        argv = parse(command)
    except ValueError as problem:
        return str(problem), None, ""
    refused = allowed(argv, now.building.diagnostics)
    if refused:
        return refused, None, ""
    async with now.kit.workspace.checkout(now.carried.head) as folder:
        code, output = await now.building.run_diagnostic(argv, folder)
    return "", code, output
