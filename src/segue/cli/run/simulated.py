"""Ask before the simulated agent uses up a plan: its notes are no work, and yet tasks are marked done."""

from __future__ import annotations

import os
from collections.abc import Sequence
from shlex import join

import click

from segue.cli.terminal.output import Printer
from segue.domain.errors import UsageError
from segue.runtime.app import App

_AGENT = "scripted"
_WHY = (
    "The scripted agent is simulated: it writes a note for each task, its commits are not real work, and the "
    "tasks are marked done."
)


def confirm_simulated(source: str | None, words: Sequence[str], output: Printer) -> None:
    """Ask whether the simulated agent may work on a real source; `words` are those of the command line."""
    rehearse = join(["segue", "rehearse", *([source] if source else [])])
    if not output.at_terminal():
        raise UsageError(
            _WHY,
            kept="Nothing was started.",
            hint=f"Rehearse instead: {rehearse}   or run anyway: {join(['segue', 'run', *words, '--yes'])}",
        )
    output.warn(f"{_WHY}\nRehearse instead: {rehearse}")
    if not click.confirm("Run anyway?", err=True):
        raise UsageError("Not started.", kept="Nothing was changed.", hint=rehearse)


def only_writes_notes(app: App) -> bool:
    """Return whether the simulated agent plays a role, and nobody has said how.

    Who has given it a script wants what the script says, and so does an experiment.
    """
    settings, roles = app.loaded.settings, app.loaded.settings.roles
    named = [settings.agent, *(getattr(roles, name) for name in roles.__struct_fields__)]
    chains = (name.split(",") for name in named if name)
    used = any(choice.split(":")[0].strip() == _AGENT for chain in chains for choice in chain)
    return used and not settings.agents.get(_AGENT, {}).get("script") and not os.environ.get("SEGUE_TRIAL")
