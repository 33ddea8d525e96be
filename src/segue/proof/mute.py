"""Ask a check without test ids whether it can still fail: what only the check uses is made to.

Whoever reports tests has a test that must fail for this. Of other commands only the exit code is known, and
what a test loads may see to it that this is 0.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from segue.proof.compose import Comparison, Recipe
from segue.proof.mutation.grammar import find_language
from segue.proof.paths import PathKind
from segue.proof.runs import Observed, Runs

_MOST = 50
_SAID = "The check passes although its own files were made to fail, which they did before the task."

RunBroken = Callable[[Recipe, Mapping[str, bytes]], Awaitable[Observed]]
"""Runs the check on a tree in which some files are replaced."""


async def find_mute(comparison: Comparison, runs: Runs, run: RunBroken) -> str:
    """Return why the exit code of a check says nothing; empty: it can fail, or nobody knows."""
    if runs.new.report is not None or runs.base.report is not None or runs.base.exit_code != 0:
        return ""
    broken = {}
    for path in [path for path in comparison.base if comparison.kinds.get(path) is PathKind.TEST][:_MOST]:
        text = await comparison.text("base", path)
        if (language := find_language(path, text)) is not None:
            broken[path] = f"{text.rstrip()}\n{language.fail}\n".encode()
    if not broken or (await run(Recipe("head", "base"), broken)).exit_code != 0:
        return ""
    return _SAID if (await run(Recipe("base", "base"), broken)).exit_code != 0 else ""
