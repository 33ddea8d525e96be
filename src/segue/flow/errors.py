"""Every failure in one form, as `error` events: what the dataset is asked about most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from segue.domain.events import AgentTool, ErrorSeen, Event
from segue.domain.outcome import Failure, FailureKind, Outcome, signature
from segue.domain.proof import CheckResult

if TYPE_CHECKING:
    from segue.store.journal import Journal


_KINDS = {
    FailureKind.REFUSED: "REFUSED",
    FailureKind.TIMEOUT: "TIMEOUT",
    FailureKind.HANG: "TIMEOUT",
    FailureKind.CRASH: "EXIT_ERROR",
}
_FAILED_TOOL = {"failure", "error", "failed", "spawnError"}
_KEPT = 2000
_COMMANDS = 100


class ErrorRecorder:
    """Watches the events of one step: which commands ran, and which tools failed."""

    def __init__(
        self,
        journal: Journal,
        task: str,
        phase: str,
        build_phase: str | None,
        key: str,
        hear: Callable[[Event], None] | None = None,
    ) -> None:
        """`hear` sees every event that is emitted here."""
        self._journal = journal
        self._task = task
        self._phase = phase
        self._build_phase = build_phase
        self._key = key
        self._hear = hear
        self._commands: list[str] = []

    async def emit(self, event: Event) -> None:
        """Emit an event of the agent, as part of the step, and look at what was stored of it."""
        event = (await self._journal.emit(event, self._key)).event
        await self._see(event)
        if self._hear is not None:
            self._hear(event)

    async def _see(self, event: Event) -> None:
        if not isinstance(event, AgentTool):
            return
        command = _command(event)
        if command and event.state != "completed":
            self._commands.append(command)
        if event.status in _FAILED_TOOL:
            message = event.result if isinstance(event.result, str) else str(event.result)
            await self._record("TOOL_ERROR", message, tool=event.name, command=command)

    async def conclude(self, outcome: Outcome, failure: Failure | None) -> None:
        """Record why the launch failed, if it did."""
        if failure is None:
            return
        exited = outcome.exit_code not in (0, None)
        kind = _KINDS.get(failure.kind, "EXIT_ERROR" if exited else "PARSED_ERROR")
        await self._record(
            kind,
            failure.message,
            failure=failure.kind,
            exit_code=outcome.exit_code,
            stderr_tail=failure.stderr_tail,
            commands_run=tuple(self._commands[-_COMMANDS:]),
        )

    async def check_failed(self, check: CheckResult, complaints: Sequence[str] = ()) -> None:
        """Record what a failed check complains about, or the last line of its output."""
        lines = [line.strip() for line in check.output.splitlines() if line.strip()]
        last = lines[-1] if lines else f"exit code {check.exit_code}"
        for message in complaints or [last]:
            await self._record(
                "CHECK_ERROR",
                message,
                exit_code=check.exit_code,
                stderr_tail=check.output[-_KEPT:],
                commands_run=(check.command,),
            )

    async def _record(self, kind: str, message: str, **more: Any) -> None:
        text = message[:_KEPT]
        event = ErrorSeen(
            kind, text, signature(text), self._task or None, self._phase, self._build_phase, **more
        )
        await self._journal.emit(event, self._key)


def _command(event: AgentTool) -> str | None:
    given = event.input
    command = given.get("command") if event.name == "Bash" and isinstance(given, dict) else None
    return command[:_KEPT] if isinstance(command, str) else None
