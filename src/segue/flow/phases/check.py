"""Check: the user's commands run on the work; what they complain about goes back to the agent."""

from __future__ import annotations

import time

from segue.domain.criterion import CriterionVerdict
from segue.domain.events import CheckRun, VerdictGiven
from segue.domain.proof import CheckResult
from segue.domain.results import CheckOutput, StepResult
from segue.domain.verdict import Action, Result, Verdict
from segue.flow.context import Examination, RunContext
from segue.flow.errors import ErrorRecorder
from segue.flow.phase import Phase
from segue.flow.phases.resolve import resolve
from segue.flow.state import PhaseEnd, TaskState
from segue.ports import StepFacts

_KEPT_OUTPUT = 32 * 1024
_SHOWN_OUTPUT = 4 * 1024


async def check(context: RunContext, state: TaskState) -> PhaseEnd:
    """Run the checks; while that is allowed, send the agent back with what failed."""
    number = 0
    while True:
        number += 1
        results = await _run_once(context, state, number)
        failed = [result for result in results if result.exit_code != 0]
        if not failed:
            return PhaseEnd(True)
        verdict = state.verdict = _verdict(results)
        state.resolutions += 1
        if state.resolutions > context.policy.resolutions:
            return PhaseEnd(False, f"checks failed: {verdict.reason}")
        ended = await resolve(context, state, verdict)
        if not ended.ok:
            return ended


CHECK = Phase("check", "Check", run=check, after=("execute",))


async def _run_once(context: RunContext, state: TaskState, number: int) -> tuple[CheckResult, ...]:
    """Run all checks as one step of the journal."""
    if not context.checking.commands and not context.checking.smoke:
        return ()
    key = f"{state.folder}/{CHECK.name}/{number}"

    async def work(_token: str) -> StepResult[CheckOutput]:
        results = await run_checks(context, state, key)
        passed = all(one.exit_code == 0 for one in results)
        if not passed:
            await context.emit(VerdictGiven.of(state.task.key, _verdict(results), results), key)
        return StepResult(passed, CheckOutput(results))

    facts = StepFacts(state.task.key, CHECK.name, number, build_phase=state.task.build_phase)
    return (await context.journal.step(key, CheckOutput, work, facts=facts)).output.checks


async def run_checks(context: RunContext, state: TaskState, key: str) -> tuple[CheckResult, ...]:
    """Run the checks that apply to the task on its commit, and store what they say as events of a step."""
    checking, phase = context.checking, state.task.build_phase or ""
    commands = (*checking.commands, *checking.smoke.get(phase, ()))
    if not commands and checking.examine is None:
        return ()
    results: list[CheckResult] = []
    async with context.workspace.checkout(state.head) as folder:
        for argv in commands:
            began = time.monotonic()
            code, output = await checking.run(argv, folder)
            result = CheckResult(context.redact(" ".join(argv)), code, output[-_KEPT_OUTPUT:])
            results.append(result)
            await _store(context, state, key, result, began)
        began = time.monotonic()
        examined = await checking.examine(folder) if checking.examine else None
    if examined is not None:
        await _store(context, state, key, examined.check, began, examined)
        results += [examined.check] if examined.decides else []
    return tuple(results)


async def _store(
    context: RunContext,
    state: TaskState,
    key: str,
    result: CheckResult,
    began: float,
    examined: Examination | None = None,
) -> None:
    """Store what a check printed, and as errors what it complained about."""
    task, found = state.task, examined.found if examined else None
    seconds = round(time.monotonic() - began, 3)
    said = (result.command, result.exit_code, result.output)
    await context.emit(CheckRun(task.key, *said, seconds, task.build_phase, found), key)
    if result.exit_code not in (0, None):
        errors = [item for item in (found or {}).get("findings", ()) if item.get("level") == "error"]
        recorder = ErrorRecorder(context.journal, task.key, "verify", task.build_phase, key)
        await recorder.check_failed(result, [str(item["message"]) for item in errors])


def _verdict(results: tuple[CheckResult, ...]) -> Verdict:
    """Return what the checks say, with a criterion for each command."""
    criteria = tuple(
        CriterionVerdict(f"check: {one.command}", one.exit_code == 0, _said(one)) for one in results
    )
    failed = [f"{one.command} ({_ending(one)})" for one in results if one.exit_code != 0]
    result = Result.PARTIAL if any(one.met for one in criteria) else Result.FAIL
    return Verdict(result, Action.RETRY, "; ".join(failed), criteria)


def _ending(result: CheckResult) -> str:
    return "could not be run" if result.exit_code is None else f"exit code {result.exit_code}"


def _said(result: CheckResult) -> str:
    return f"{_ending(result)}\n{result.output[-_SHOWN_OUTPUT:]}".strip() if result.exit_code != 0 else ""
