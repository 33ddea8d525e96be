"""Whether independent tests can be used: they load, end the same each time, and tell work from none."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import PurePosixPath

from segue.proof.independent import is_in
from segue.proof.mutation.mutate import Files, hollow_out, make_mutants
from segue.proof.report import CaseResult, Reason, Report, TestOutcome
from segue.proof.runs import Observed

_MUTANTS = 3
_UNLOADED = "cannot be loaded"
_CHANCE = "ends differently each time"
_PASSES = "passes without the work"

RunBroken = Callable[[Mapping[str, bytes], Collection[str]], Awaitable[Observed]]
"""Runs the check with some texts replaced; only these tests of it."""

_NAMES = re.compile(
    r"cannot import name ['\"](?P<imported>\w+)['\"](?: from ['\"](?P<source>[\w.]+))?"
    r"|No module named ['\"](?P<module>[\w.]+)"
    r"|(?:(?:module|type object) ['\"](?P<owner>[\w.]+)['\"] )?has no attribute ['\"](?P<attribute>\w+)"
    r"|name ['\"](?P<name>\w+)['\"] is not defined"
    r"|unexpected keyword argument ['\"](?P<argument>\w+)"
    r"|(?:\w+\.)*(?P<called>\w+) is not (?:a function|a constructor|defined)"
    r"|Cannot find (?:module|name) ['\"](?P<found>[^'\"]+)"
    r"|(?:module ['\"](?P<file>[^'\"]+)['\"] )?does not provide an export named ['\"](?P<exported>\w+)"
    r"|fixture ['\"](?P<fixture>\w+)['\"] not found"
    r"|undefined: (?:(?P<package>\w+)\.)?(?P<undefined>\w+)"
)
_PLACES = ("source", "owner", "file", "package")


def find_unusable(
    first: Observed, second: Observed, files: Collection[str], *, may_pass: bool = False
) -> dict[str, str]:
    """Return the tests in files that show nothing, each with the reason, from two runs without the work.

    `may_pass`: the work must do what was done before.
    """
    found: dict[str, str] = {}
    for case in _cases(first.report, files):
        again = second.report.tests.get(case.id) if second.report is not None else None
        if again is None or again.outcome is not case.outcome:
            found[case.id] = _CHANCE
        elif case.outcome is TestOutcome.PASSED and not may_pass:
            found[case.id] = _PASSES
        elif case.reason is Reason.SYNTAX:
            found[case.file or case.id if case.whole_file else case.id] = _UNLOADED
    return found


def find_failing(
    first: Observed, second: Observed, files: Collection[str], words: str, names: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the tests in files that fail, with what they say, and those that say nothing, with the reason.

    A test says nothing that ends differently each time, or lacks a name that neither the words nor the names
    of the result give.
    """
    failing, unusable = dict[str, str](), dict[str, str]()
    for case in _cases(first.report, files):
        again = second.report.tests.get(case.id) if second.report is not None else None
        if again is None or again.outcome is not case.outcome:
            unusable[case.id] = _CHANCE
        elif case.outcome is TestOutcome.FAILED:
            name = find_missing_name(case)
            if name and not is_given(name, f"{words}\n{names}", names):
                unusable[case.id] = f"uses {name}, which no task names"
            else:
                failing[case.id] = case.message
    return failing, unusable


def name_missing(report: Report | None, failing: Collection[str], files: Collection[str]) -> dict[str, str]:
    """Return the failing tests of files that lack a name, each with that name."""
    found = {}
    for case in _cases(report, files):
        if case.id in failing and (name := find_missing_name(case)):
            found[case.id] = name
    return found


def find_missing_name(case: CaseResult) -> str:
    """Return the name without which a test fails, as `place.name` if that is known; empty: none."""
    match = _NAMES.search(case.message) if case.reason in (Reason.MISSING, Reason.OTHER, None) else None
    found = {key: value for key, value in match.groupdict().items() if value} if match else {}
    name = next((value for key, value in found.items() if key not in _PLACES), "")
    place = next((found[key] for key in _PLACES if key in found), "")
    return f"{PurePosixPath(place).stem if '/' in place else place}.{name}" if place else name


def is_given(name: str, words: str, names: str = "") -> bool:
    """Return whether a text gives a name: of a dotted or slashed one the last part, and the place if need be.

    The place is open where only `names`, the public ones of the result, say it: they have the name elsewhere.
    """
    *places, last = re.split(r"[./]", re.sub(r"\.\w{1,4}$", "", name) if "/" in name else name)
    is_elsewhere = bool(places and places[-1]) and _has(last, names) and not _has(places[-1], words)
    return _has(last, words) and not is_elsewhere


def _has(word: str, text: str) -> bool:
    return re.search(rf"(?<![\w]){re.escape(word)}(?![\w])", text) is not None


async def find_lucky(run: RunBroken, files: Files, tests: Sequence[str]) -> tuple[str, ...]:
    """Return the tests that pass whatever the work does: as nothing, and as each of a few mutants."""
    empty = await asyncio.to_thread(hollow_out, files)
    if not empty or not tests:
        return ()
    left = _passing(await run(empty, tests), tests)
    if not left:
        return ()
    seed = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()
    mutants = (await asyncio.to_thread(make_mutants, files, seed, _MUTANTS)).others
    for mutant in mutants[:_MUTANTS]:
        left = _passing(await run({mutant.path: mutant.text}, left), left)
        if not left:
            break
    return tuple(left)


def _passing(seen: Observed, tests: Sequence[str]) -> list[str]:
    passed = seen.report.ids(TestOutcome.PASSED) if seen.report is not None else frozenset()
    return [test for test in tests if test in passed]


def _cases(report: Report | None, files: Collection[str]) -> list[CaseResult]:
    tests = report.tests.values() if report is not None else ()
    return [case for case in tests if case.file in files or is_in(case.id, tuple(files))]
