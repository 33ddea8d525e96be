"""After the last task: the user's own review and audit commands, their output stored and reported."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from segue.domain.events import FinalCommandRun
from segue.domain.results import FinalOutput, StepResult
from segue.domain.text import cut_tail
from segue.ports import Journal, StepFacts

_KEPT = 64 * 1024


class FinalCommand(Struct, frozen=True):
    """One command of the final review or audit."""

    label: str
    argv: tuple[str, ...]


class FinalReport(Struct, frozen=True):
    """What one of them printed."""

    label: str
    command: str
    exit_code: int | None
    output: str


RunHere = Callable[[Sequence[str]], Awaitable[tuple[int | None, str]]]
"""Runs a command in the repository: its exit code (None: it could not be run) and its output."""


async def run_final_commands(
    journal: Journal, commands: Sequence[FinalCommand], run: RunHere
) -> list[FinalReport]:
    """Run every command, whatever the one before printed."""
    return [await _run(journal, number, command, run) for number, command in enumerate(commands, 1)]


async def _run(journal: Journal, number: int, command: FinalCommand, run: RunHere) -> FinalReport:
    key = f"final/{command.label}/{number}"

    async def work(_token: str) -> StepResult[FinalOutput]:
        code, output = await run(command.argv)
        kept = cut_tail(output, _KEPT)
        await journal.emit(FinalCommandRun(command.label, command.argv[0], code, len(output), kept), key)
        return StepResult(code == 0, FinalOutput(code, kept))

    facts = StepFacts(phase=f"final {command.label}")
    found = (await journal.step(key, FinalOutput, work, facts=facts)).output
    return FinalReport(command.label, " ".join(command.argv), found.exit_code, found.output)
