"""After the last task: the user's own review and audit commands, their output stored and reported."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from segue.domain.event import Event, EventType
from segue.ports import Journal, StepFacts, StepResult

_KEPT = 64 * 1024


@dataclass(frozen=True, slots=True)
class FinalCommand:
    """One command of the final review or audit."""

    label: str
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FinalReport:
    """What one of them said."""

    label: str
    command: str
    exit_code: int | None
    output: str


RunCommand = Callable[[Sequence[str]], Awaitable[tuple[int | None, str]]]
"""Runs a command in the repository; gives its exit code (None: it could not be run) and its output."""


async def finish(journal: Journal, commands: Sequence[FinalCommand], run: RunCommand) -> list[FinalReport]:
    """Run every command, whatever the one before said."""
    return [await _one(journal, number, command, run) for number, command in enumerate(commands, 1)]


async def _one(journal: Journal, number: int, command: FinalCommand, run: RunCommand) -> FinalReport:
    key = f"final/{command.label}/{number}"

    async def work(_token: str) -> StepResult:
        code, output = await run(command.argv)
        said = {"command": command.argv[0], "label": command.label, "exit_code": code, "bytes": len(output)}
        await journal.emit(Event(EventType.FINAL, {**said, "output": output[-_KEPT:]}), key)
        return StepResult(code == 0, {"exit_code": code, "output": output[-_KEPT:]})

    result = await journal.step(key, work, facts=StepFacts(phase=f"final {command.label}"))
    return FinalReport(
        command.label, " ".join(command.argv), result.output["exit_code"], result.output["output"]
    )
