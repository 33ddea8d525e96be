"""The user's own commands around the tasks of a run: hooks of its source, a final review and audit.

Each runs once per run; what it prints is stored and reported.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from segue.domain.events import FinalCommandRun
from segue.domain.results import FinalOutput, StepFacts, StepResult
from segue.domain.text import cut_tail

if TYPE_CHECKING:
    from segue.store.journal import Journal


_KEPT = 64 * 1024
_SHOWN = 500


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
    return [await _run_final(journal, number, command, run) for number, command in enumerate(commands, 1)]


async def _run_final(journal: Journal, number: int, command: FinalCommand, run: RunHere) -> FinalReport:
    key, label = f"final/{command.label}/{number}", command.label
    found = (await _run_once(journal, key, f"final {label}", label, command.argv, run)).output
    return FinalReport(label, " ".join(command.argv), found.exit_code, found.output)


async def _run_once(
    journal: Journal, key: str, phase: str, label: str, argv: Sequence[str], run: RunHere
) -> StepResult[FinalOutput]:
    """Run a command as one step of the journal."""

    async def work(_token: str) -> StepResult[FinalOutput]:
        code, output = await run(argv)
        kept = cut_tail(output, _KEPT)
        await journal.emit(FinalCommandRun(label, argv[0], code, len(output), kept), key)
        return StepResult(code == 0, FinalOutput(code, kept))

    return await journal.step(key, FinalOutput, work, facts=StepFacts(phase=phase))
