"""Run the tests that prove a change on mutants of it, and say whether they can tell right from wrong."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from enum import Enum, auto
from functools import partial

from msgspec import Struct

from segue.domain.amounts import list_some
from segue.proof.mutants.edits import Files, Mutant, make_mutants
from segue.proof.report import Reason, TestOutcome
from segue.proof.runs import Observed

_SIDE_BY_SIDE = max(2, os.cpu_count() or 2)
_FEW = 6
"""With fewer tries, some of which may mean the same as the original, no share is asked for."""
_NAMED = 5

Run = Callable[[Mapping[str, bytes], Collection[str]], Awaitable[Observed]]
"""Runs the check with the texts of some files replaced; only these tests of it, or all if there are none."""


class MutationLimits(Struct, frozen=True):
    """How much is asked of tests, and how much time that may take."""

    share: float = 0.6
    """Which part of the mutants tests must notice."""
    most: int = 8
    """How many mutants of lines are tried, beside one of each function."""
    seconds: float = 60


class TestStrength(Struct, frozen=True):
    """What mutants show about the tests that prove a change."""

    __test__ = False

    tried: int = 0
    noticed: int = 0
    survivors: tuple[str, ...] = ()
    too_weak: str = ""
    """Why the tests cannot tell right from wrong; empty: they can."""


class _End(Enum):
    ASSERTED = auto()
    """An assertion failed, or the reason is not known."""
    CRASHED = auto()
    SURVIVED = auto()
    LEFT_OUT = auto()
    """It could not be built, or took too long."""


def time_limit(seconds: float) -> float:
    """Return after how many seconds broken code hangs, if tests take so many without it."""
    return 5.0 + 3.0 * seconds


async def measure(run: Run, files: Files, proving: Sequence[str], limits: MutationLimits) -> TestStrength:
    """Return what mutants of the changed files show about the tests that prove the change.

    Without `proving` tests, the command as a whole proves it. They run alone, if they pass alone.
    """
    mutants = await asyncio.to_thread(make_mutants, files, limits.most) if limits.most else []
    if not mutants:
        why = "nothing that changed can be broken" if limits.most else "`proof.mutants` is 0"
        return TestStrength(too_weak=f"not measured: {why}")
    for only in dict.fromkeys((tuple(proving), ())):
        began = time.monotonic()
        if _end(await run({}, only), proving) is _End.SURVIVED:
            patience = time_limit(time.monotonic() - began)
            return await _try(mutants, partial(_run_mutant, run, only, proving, patience), limits)
    return TestStrength(too_weak="not measured: the tests that prove it do not pass a second time")


async def _try(
    mutants: Sequence[Mutant], run: Callable[[Mutant], Awaitable[_End]], limits: MutationLimits
) -> TestStrength:
    """Try mutants side by side until enough is known."""
    ends: dict[Mutant, _End] = {}
    pending, deadline = iter(mutants), time.monotonic() + limits.seconds

    async def work() -> None:
        for mutant in pending:
            counted = [one for one in mutants if ends.get(one) is not _End.LEFT_OUT]
            if time.monotonic() > deadline or (counted and not _find_weakness(counted, ends, limits)):
                return
            ends[mutant] = await run(mutant)

    await asyncio.gather(*(work() for _ in range(_SIDE_BY_SIDE)))
    tried = [mutant for mutant in ends if ends[mutant] is not _End.LEFT_OUT]
    survivors = tuple(mutant.shown for mutant in tried if ends[mutant] is _End.SURVIVED)
    weakness = _find_weakness(tried, ends, limits)
    return TestStrength(len(tried), len(tried) - len(survivors), survivors, weakness)


async def _run_mutant(
    run: Run, only: Sequence[str], proving: Sequence[str], patience: float, mutant: Mutant
) -> _End:
    try:
        async with asyncio.timeout(patience):
            return _end(await run({mutant.path: mutant.text}, only), proving, mutant.unbuilt)
    except TimeoutError:
        return _End.LEFT_OUT


def _end(seen: Observed, proving: Collection[str], unbuilt: str = "") -> _End:
    """Return what the tests made of a mutant."""
    tests = seen.report.tests if seen.report is not None else {}
    cases = [tests[key] for key in proving if key in tests]
    if any(case.outcome is TestOutcome.FAILED for case in cases):
        reasons = {case.reason for case in cases} - {None}
        return _End.ASSERTED if not reasons or Reason.ASSERTION in reasons else _End.CRASHED
    passed = [case for case in cases if case.outcome is TestOutcome.PASSED]
    if len(passed) == len(proving) if proving else seen.exit_code == 0:
        return _End.SURVIVED
    output = "\n".join((seen.output, *(case.message for case in tests.values() if case.whole_file)))
    if seen.exit_code is None or (unbuilt and re.search(unbuilt, output, re.M)):
        return _End.LEFT_OUT
    return _End.CRASHED if proving else _End.ASSERTED


def _find_weakness(mutants: Sequence[Mutant], ends: Mapping[Mutant, _End], limits: MutationLimits) -> str:
    """Return why the tests cannot tell right from wrong, if these mutants count; empty: they can."""
    if not mutants:
        return "not measured: no mutant of the changed lines could be built and run in time"
    noticed = [one for one in mutants if ends.get(one) in (_End.ASSERTED, _End.CRASHED)]
    # A missing name makes any test crash: it must be the result that is wrong, or an assertion that fails.
    seen = {one.owner for one in noticed if one.is_whole or ends[one] is _End.ASSERTED}
    if missed := sorted({one.owner for one in mutants if one.is_new} - seen):
        names = [owner.rpartition(":")[2].replace("@", " in line ").strip() for owner in missed]
        return f"no test that proves the change notices when {list_some(names, _NAMED)} is broken"
    if not seen:
        return "no test that proves the change looks at what comes out of it"
    if len(mutants) < _FEW or len(noticed) >= limits.share * len(mutants):
        return ""
    share = f"{len(noticed)} of {len(mutants)} small changes of the changed lines"
    return f"{share} were noticed, less than {limits.share:.0%}"
