"""Long suites: run the whole once, and of the other runs only the files with tests that the task changed."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from segue.proof.compose import Comparison
from segue.proof.mentions import Mentions
from segue.proof.report import TestOutcome, join_reports
from segue.proof.runs import Observed

_CAN_SELECT = frozenset(("pytest", "unittest"))


async def select_files(comparison: Comparison, base: Observed, long: float) -> tuple[str, ...]:
    """Return the files whose tests can be run without the others; none: the command must be run whole.

    `long`: a suite that takes fewer seconds is run whole, because that takes no longer.
    """
    report, files = base.report, comparison.changed_tests()
    if base.seconds <= long or report is None or not _CAN_SELECT.issuperset(report.runners):
        return ()
    if comparison.mixed or not all(path.endswith(".py") for path in files):
        return ()
    kept = [path for path in files if path in comparison.head]
    askers = await Mentions(comparison.objects, comparison.head).find(kept)
    return () if any(askers.values()) else files


def has_tests(files: Collection[str], comparison: Comparison, seen: Observed) -> bool:
    """Return whether each of these files that is there has tests: it is not what others need."""
    found = {case.file for case in seen.report.tests.values()} if seen.report is not None else set()
    return found.issuperset(path for path in files if path in comparison.head)


def join_parts(whole: Observed, part: Observed, files: Collection[str]) -> Observed:
    """Return how the command ends if tests of these files end as in the part, and others as in the whole."""
    if whole.report is None or part.report is None:
        return part if whole.report is None else whole
    rest = {key: case for key, case in whole.report.tests.items() if case.file not in files}
    others = replace(whole.report, tests=rest)
    left = TestOutcome.FAILED in {case.outcome for case in rest.values()}
    unexplained = whole.exit_code if left or not whole.report.failed else 0
    opened = None if whole.opened is None or part.opened is None else (*whole.opened, *part.opened)
    return replace(
        part,
        exit_code=part.exit_code or unexplained,
        report=join_reports((others, part.report)),
        output=f"{whole.output}\n{part.output}",
        changed=tuple(dict.fromkeys((*whole.changed, *part.changed))),
        opened=opened and tuple(dict.fromkeys(opened)),
        seconds=whole.seconds + part.seconds,
    )
