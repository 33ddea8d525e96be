"""What checks said: stored as events and errors, and read as a verdict."""

from __future__ import annotations

import time

import msgspec

from segue.domain.events import CheckRun
from segue.domain.proof import CheckResult
from segue.domain.verdict import Action, CriterionVerdict, Result, Verdict
from segue.flow.context import Examination, RunContext
from segue.flow.errors import ErrorRecorder
from segue.flow.state import TaskState

_KEPT_OUTPUT = 32 * 1024
_SHOWN_OUTPUT = 4 * 1024


def clean_result(context: RunContext, result: CheckResult) -> CheckResult:
    """Return a result without secrets, and with no more output than is kept."""
    output = context.redact(result.output)[-_KEPT_OUTPUT:]
    words = (context.redact(result.command), context.redact(result.reason))
    return msgspec.structs.replace(result, output=output, command=words[0], reason=words[1])


async def store_result(
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
    bare = msgspec.structs.replace(result, output="") if result.state is not None else None
    await context.emit(CheckRun(task.key, *said, seconds, task.build_phase, found, bare), key)
    if not result.ok and result.exit_code is not None:
        errors = [item for item in (found or {}).get("findings", ()) if item.get("level") == "error"]
        recorder = ErrorRecorder(context.journal, task.key, "verify", task.build_phase, key)
        await recorder.check_failed(result, [str(item["message"]) for item in errors])


def checks_verdict(results: tuple[CheckResult, ...]) -> Verdict:
    """Return what the checks say, with a criterion for each command."""
    criteria = tuple(CriterionVerdict(f"check: {one.command}", one.ok, _said(one)) for one in results)
    failed = [f"{one.command} ({_ending(one)})" for one in results if not one.ok]
    result = Result.PARTIAL if any(one.met for one in criteria) else Result.FAIL
    return Verdict(result, Action.RETRY, "; ".join(failed), criteria)


def _ending(result: CheckResult) -> str:
    if result.reason:
        return result.reason
    return "could not be run" if result.exit_code is None else f"exit code {result.exit_code}"


def _said(result: CheckResult) -> str:
    return "" if result.ok else f"{_ending(result)}\n{result.output[-_SHOWN_OUTPUT:]}".strip()
