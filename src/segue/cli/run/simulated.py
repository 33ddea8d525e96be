"""Ask before the simulated agent uses up a plan: its notes are no work, and yet tasks are marked done."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import join

import click

from segue.cli.terminal.output import Printer
from segue.domain.errors import UsageError
from segue.runtime.rehearsal import WHY


def confirm_simulated(source: str | None, words: Sequence[str], output: Printer) -> None:
    """Ask whether the simulated agent may work on a real source; `words` are the command and its options."""
    rehearse = join(["segue", "rehearse", *([source] if source else [])])
    if not output.at_terminal():
        raise UsageError(
            WHY,
            kept="Nothing was started.",
            hint=f"Rehearse instead: {rehearse}   or run anyway: {join(['segue', *words, '--yes'])}",
        )
    output.warn(f"{WHY}\nRehearse instead: {rehearse}")
    if not click.confirm("Run anyway?", err=True):
        raise UsageError("Not started.", kept="Nothing was changed.", hint=rehearse)
