"""Which tests need not wait for the others: those that a task changed, and those that lead to its change.

A long suite is run whole once, a short one as often as that tells something.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from segue.proof.compose import Comparison
from segue.proof.mentions import Mentions
from segue.proof.paths import PathKind
from segue.proof.report import TestOutcome, join_reports
from segue.proof.runs import Observed

_CAN_SELECT = {"pytest": ".py", "unittest": ".py", "go test": "_test.go"}
"""The runners that can be told to leave tests out, and how the names of their files end."""
_MOST_REACHED = 0.5
"""If a larger part of the tests leads to the change, all are run at once."""
_MOST_FILES = 500


async def select_files(comparison: Comparison, base: Observed) -> tuple[str, ...]:
    """Return the files whose tests can be run without the others; none: the command must be run whole."""
    files, endings = comparison.changed_tests(), _endings(base)
    others = {path for path in find_apart(base).values() if comparison.kinds.get(path) is PathKind.TEST}
    others.difference_update(files)
    if not files or comparison.mixed or (len(endings) != 1 and not others):
        return ()
    if not others and not all(path.endswith(tuple(endings)) for path in files):
        return ()
    if "_test.go" in endings:  # the files of a package share what is in them, and nobody else uses it
        packages = {_folder(path) for path in files}
        return tuple(sorted({*files, *(path for path in _files(base) if _folder(path) in packages)}))
    kept = [path for path in files if path in comparison.head]
    mentions = Mentions(comparison.objects, comparison.head)
    if any(not askers.keys().isdisjoint(files) for askers in (await mentions.find(others)).values()):
        return ()  # they need what would be left out
    return () if any((await mentions.find(kept)).values()) else files


def find_apart(seen: Observed) -> dict[str, str]:
    """Return tests with their files, which run alone if others are not there: their runners find them.

    None: the runners can be told which tests to run.
    """
    if seen.report is None or _CAN_SELECT.keys() >= set(seen.report.runners):
        return {}
    return {key: case.file for key, case in seen.report.tests.items() if case.file}


def has_tests(files: Collection[str], comparison: Comparison, seen: Observed) -> bool:
    """Return whether each of these files that is there has tests: it is not what others need."""
    return _files(seen).issuperset(path for path in files if path in comparison.head)


async def find_reached(comparison: Comparison, base: Observed) -> tuple[str, ...]:
    """Return the files with unchanged tests that lead to what a task changed, over any number of imports.

    None: these are most of the tests, or none, or a runner cannot leave out the others.
    """
    if len(_endings(base)) != 1 or base.report is None:
        return ()
    mentions, found = Mentions(comparison.objects, comparison.head), set[str]()
    pending = set(comparison.changed(PathKind.CODE, PathKind.MERGED))
    while pending and len(found) < _MOST_FILES:
        found |= pending
        packages = {_folder(path) for path in pending if path.endswith(".go")}
        near = {path for path in comparison.head if path.endswith(".go") and _folder(path) in packages}
        known = await mentions.find([path for path in sorted(pending) if path in comparison.head])
        pending = near.union(*known.values()) - found
    reached = (_files(base) & found) - {*comparison.changed_tests()}
    number = sum(case.file in reached for case in base.report.tests.values())
    return tuple(sorted(reached)) if not pending and number <= _MOST_REACHED * base.tests else ()


def find_broken(base: Observed, part: Observed) -> frozenset[str]:
    """Return the tests that passed on the base and fail in a part of them."""
    if base.report is None or part.report is None:
        return frozenset()
    return base.report.ids(TestOutcome.PASSED) & part.report.ids(TestOutcome.FAILED)


def _endings(base: Observed) -> set[str]:
    """Return how the names of test files end; none if a runner cannot leave some out."""
    names = base.report.runners if base.report is not None else ()
    return {_CAN_SELECT[name] for name in names} if _CAN_SELECT.keys() >= set(names) else set()


def _files(seen: Observed) -> set[str]:
    return {case.file for case in seen.report.tests.values()} - {""} if seen.report is not None else set()


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def join_parts(whole: Observed, part: Observed, files: Collection[str]) -> Observed:
    """Return how the command ends if tests of these files end as in the part, and others as in the whole."""
    if whole.report is None or part.report is None:
        return part if whole.report is None else whole
    rest = {key: case for key, case in whole.report.tests.items() if case.file not in files}
    others = replace(whole.report, tests=rest)
    left = TestOutcome.FAILED in {case.outcome for case in rest.values()}
    unexplained = whole.exit_code if left or not whole.report.failed else 0
    opened = None if whole.opened is None or part.opened is None else (*whole.opened, *part.opened)
    joined = join_reports((others, part.report))
    return replace(
        part,
        exit_code=part.exit_code or unexplained,
        # One command is meant: as the base of the next task, it must not ask for the runners of both.
        report=joined and replace(joined, files=whole.report.files),
        output=f"{whole.output}\n{part.output}",
        changed=tuple(dict.fromkeys((*whole.changed, *part.changed))),
        opened=opened and tuple(dict.fromkeys(opened)),
        seconds=whole.seconds + part.seconds,
    )
