"""What can be seen of a run from outside: its exit code, and what the command prints."""

from __future__ import annotations

import re

from segue.proof.report import TestOutcome
from segue.proof.runs import Observed

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_OTHER_COUNTS = re.compile(r"^\s*(?:Test (?:Suites|Files)|Snapshots|. suites)\b.*$", re.M)
_PASSED = re.compile(r"\b(\d+) pass(?:ed|ing)\b|\bpass (\d+)\b|^Ran (\d+) tests? in |^(ok)  \t", re.M)
_FAILED = re.compile(
    r"\b[1-9]\d* fail(?:ed|ing|ures?)\b|\bfail [1-9]|\b(?:failures|errors)=[1-9]|^FAIL\b", re.M
)
_OF_THESE_FAILED = re.compile(r"^FAILED \(|\b(?:failures|errors|skipped)=(\d+)", re.M)


def count_passed(output: str) -> int | None:
    """Return how many tests passed (packages, in Go) by the runners' last words; None: there are none."""
    text = _OTHER_COUNTS.sub("", _COLOURS.sub("", output))
    found = [next(part for part in groups if part) for groups in _PASSED.findall(text)]
    if not found:
        return None
    failed = sum(int(number) for number in _OF_THESE_FAILED.findall(text) if number) if "Ran " in text else 0
    return sum(1 if part == "ok" else int(part) for part in found) - failed


def names_failures(output: str) -> bool:
    """Return whether a runner's own last words name tests that failed."""
    return bool(_FAILED.search(_OTHER_COUNTS.sub("", _COLOURS.sub("", output))))


def contradiction(base: Observed, now: Observed) -> str:
    """Return how a report contradicts what the command printed; both said the same on the base."""
    if base.report is None or now.report is None or base.report.runners != now.report.runners:
        return ""
    if "go test" in base.report.runners:  # it names packages
        return ""
    before = len(base.report.ids(TestOutcome.PASSED))
    if not before or count_passed(base.output) != before:
        return ""
    reported, printed = len(now.report.ids(TestOutcome.PASSED)), count_passed(now.output) or 0
    if printed >= reported:
        return ""
    return f"The report names {reported} tests that passed, the output of the command {printed}."


def find_difference(watched: Observed, ordinary: Observed) -> str:
    """Return what an ordinary run shows otherwise than a watched one; empty: nothing."""
    if ordinary.exit_code is None and watched.exit_code is not None:
        return "it takes too long"
    if ordinary.changed:
        return f"its own tests are written to ({', '.join(ordinary.changed[:5])})"
    if (ordinary.exit_code == 0) is not (watched.exit_code == 0):
        return f"it ends with exit code {ordinary.exit_code}"
    before, now = count_passed(watched.output), count_passed(ordinary.output) or 0
    if before is not None and now < before:
        return f"{now} of {before} tests pass"
    return ""
