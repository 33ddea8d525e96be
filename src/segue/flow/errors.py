"""Every failure in one normalised form, as `error` events: what the dataset is asked about most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from segue.domain.event import Event, EventType
from segue.domain.evidence import CheckResult
from segue.domain.failure import Failure, FailureKind
from segue.domain.outcome import Outcome
from segue.domain.signature import signature
from segue.domain.task import Task
from segue.flow.context import Kit

_KINDS = {
    FailureKind.REFUSED: "REFUSED",
    FailureKind.TIMEOUT: "TIMEOUT",
    FailureKind.HANG: "TIMEOUT",
    FailureKind.CRASH: "EXIT_ERROR",
}
_FAILED_TOOL = {"failure", "error", "failed", "spawnError"}
_KEPT = 2000
_COMMANDS = 100


class Witness:
    """Watches the events of one launch: which commands it ran, and which tools failed it."""

    def __init__(self, kit: Kit, task: Task, phase: str, key: str) -> None:
        self._kit = kit
        self._facts = {"task": task.key, "phase": phase, "build_phase": task.build_phase}
        self._key = key
        self._commands: list[str] = []

    async def see(self, event: Event) -> None:
        """Look at one event of the agent."""
        if event.type is not EventType.AGENT_TOOL:
            return
        data = event.data
        command = _command(data) if data.get("state") != "completed" else None
        if command:
            self._commands.append(command)
        if data.get("status") in _FAILED_TOOL:
            said = data.get("result")
            message = said if isinstance(said, str) else str(said)
            await self._emit("TOOL_ERROR", message, tool=data.get("name"), command=_command(data))

    async def conclude(self, outcome: Outcome, failure: Failure | None) -> None:
        """Write down why the launch failed, if it did."""
        if failure is None:
            return
        exited = outcome.exit_code not in (0, None)
        kind = _KINDS.get(failure.kind, "EXIT_ERROR" if exited else "PARSED_ERROR")
        await self._emit(
            kind,
            failure.message,
            failure=failure.kind,
            exit_code=outcome.exit_code,
            stderr_tail=failure.stderr_tail,
            commands_run=self._commands[-_COMMANDS:],
        )

    async def _emit(self, kind: str, message: str, **more: Any) -> None:
        text = message[:_KEPT]
        named = {"kind": kind, "message": text, "signature": signature(text)}
        await self._kit.emit(EventType.ERROR, self._key, **named, **self._facts, **more)


async def check_failed(
    kit: Kit, task: Task, key: str, check: CheckResult, complaints: Sequence[str] = ()
) -> None:
    """A check that failed is an error too: what it complains about, or its last words."""
    lines = [line.strip() for line in check.output.splitlines() if line.strip()]
    last = lines[-1] if lines else f"exit code {check.exit_code}"
    for message in complaints or [last]:
        await kit.emit(
            EventType.ERROR,
            key,
            kind="CHECK_ERROR",
            message=message[:_KEPT],
            signature=signature(message[:_KEPT]),
            task=task.key,
            phase="verify",
            build_phase=task.build_phase,
            exit_code=check.exit_code,
            stderr_tail=check.output[-_KEPT:],
            commands_run=[check.command],
        )


def _command(data: Any) -> str | None:
    given = data.get("input")
    command = given.get("command") if data.get("name") == "Bash" and isinstance(given, dict) else None
    return command[:_KEPT] if isinstance(command, str) else None
