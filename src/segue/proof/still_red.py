"""Failures that were there before: do they reject what the task has changed?

A failure that stays as it was has nothing to do with the task. One that is another now runs through the
change. If it stays the same when the changed functions return other values, it is these values that it
rejects: a check that gets past them fails elsewhere.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping

from segue.domain.amounts import list_some
from segue.domain.task import TaskKind
from segue.proof.mutation.mutate import Files, falsify
from segue.proof.report import Reason
from segue.proof.runs import Observed, Runs

_SHOWN = 3
_VALUES = re.compile(r"""(?<!line )(?<!:)\b\d[\w.]*|'[^'\n]*'|"[^"\n]*"|/[^\s:'"]*/""")
"""What may differ although a failure is the same: numbers but those of lines, texts, folders."""
_UNFINISHED = re.compile(
    r"not ?implemented|undefined|not defined|not found|no module|no such|cannot (?:find|import)"
    r"|has no attribute|unknown (?:command|option|subcommand)|is not a function",
    re.I,
)
Run = Callable[[Mapping[str, bytes]], Awaitable[Observed]]


async def find_rejection(runs: Runs, known: Collection[str], files: Files, run: Run) -> str:
    """Return which known failures reject the change, in words; empty: none does."""
    changed = [key for key in known if _is_other(runs, key)]
    if not changed or runs.kind is TaskKind.TEST_FIRST:
        return ""
    broken = await asyncio.to_thread(falsify, files)
    if not broken:
        return ""
    falsified = await run(broken)
    rejecting = [key for key in changed if _sign(falsified, key) == _sign(runs.new, key)]
    if not rejecting:
        return ""
    names = list_some([f"`{key}`" for key in rejecting], _SHOWN)
    return f"red before the run, and now because of what the changed code returns: {names}"


def _is_other(runs: Runs, key: str) -> bool:
    """Return whether a failure is another than before, and not one that waits for something missing."""
    now = _sign(runs.new, key)
    return now is not None and now != _sign(runs.base, key) and not _UNFINISHED.search(now)


def _sign(seen: Observed, key: str) -> str | None:
    """Return what is typical of a failure; None: it says nothing that values could change."""
    case = seen.report.tests.get(key) if seen.report is not None else None
    if case is not None:
        rejects = case.reason is Reason.ASSERTION
        return _VALUES.sub("?", case.message) if rejects else None
    return f"exit code {seen.exit_code}\n{_VALUES.sub('?', seen.output)}" if seen.exit_code else None
