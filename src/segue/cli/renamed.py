"""Old names of commands and options: each is answered with the line to type now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from shlex import join

import click

from segue.domain.errors import UsageError

_Words = list[str]

OLD_COMMANDS = {"version": "--version", "exit-codes": "help exit-codes"}
"""Command → what to type instead."""


def _in_order(words: _Words) -> _Words:
    """Replace `--jobs N --order`, which let each task wait for the one before it."""
    if words[:2] == ["task", "graph"]:
        return [word for word in words if word != "--order"]
    kept = [word for word in words if word != "--order" and not word.startswith("--jobs=")]
    while "--jobs" in kept:
        at = kept.index("--jobs")
        del kept[at : at + 2]
    return [*kept, "--jobs", "1"]


def _without_stay(words: _Words) -> _Words:
    kept = [word for word in words if word not in ("--stay", "--serve")]
    return [*kept, "--serve"]


def _plan_changed(words: _Words) -> _Words:
    return [word.replace("--commits-missing", "--plan-changed") for word in words]


OLD_OPTIONS: dict[str, tuple[str, Callable[[_Words], _Words]]] = {
    "--order": ("now --jobs 1, because one task at a time is in order", _in_order),
    "--stay": ("now `segue serve`, which shows runs that have ended, too", _without_stay),
    "--commits-missing": ("now --plan-changed, which decides about both", _plan_changed),
}
"""Option → what it is now, and how a line with it is typed."""


def find_old(error: click.UsageError, args: Sequence[str]) -> UsageError | None:
    """Return the answer to an old name, where that is what click did not understand."""
    words = list(args)
    first = next((word for word in words if not word.startswith("-")), "")
    if first in OLD_COMMANDS and (error.ctx is None or error.ctx.parent is None):
        new = OLD_COMMANDS[first]
        return UsageError(f"`segue {first}` is now `segue {new}`.", hint=f"Type: segue {new}")
    if isinstance(error, click.NoSuchOption) and error.option_name in OLD_OPTIONS:
        what, renew = OLD_OPTIONS[error.option_name]
        return UsageError(
            f"{error.option_name} is {what}.",
            kept="Nothing was started.",
            hint=f"Type: segue {join(renew(words))}",
        )
    return None
