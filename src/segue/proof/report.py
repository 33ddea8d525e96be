"""What a test runner reported: tests by id, and why the failed ones failed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from segue.domain.text import cut_text

_MESSAGE = 2000
_MISSING = frozenset(("ImportError", "ModuleNotFoundError", "AttributeError", "NameError", "ReferenceError"))
_SYNTAX = frozenset(("SyntaxError", "IndentationError", "TabError"))
_UNDEFINED = re.compile(
    r"[Uu]ndefined (?:function|method|variable|local variable|constant|name)|cannot find symbol"
    r"|not found in scope|NoSuchMethodError|ClassNotFound"
)
_ARGUMENT = re.compile(r"argument|is not a function|is not a constructor|is not defined")
_IN_EXAMPLE = re.compile(r"UNEXPECTED EXCEPTION: (\w+)")
"""What the code of a doctest has raised."""


class TestOutcome(StrEnum):
    """How one test ended."""

    __test__ = False

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    """Skipped, or expected to fail and failed."""


class Reason(StrEnum):
    """Why a test failed."""

    ASSERTION = "assertion"
    MISSING = "missing name"
    """A module, function or argument that does not exist."""
    UNFINISHED = "not implemented"
    RAISED = "exception in the code under test"
    SYNTAX = "syntax error"
    OTHER = "other"

    @property
    def is_right(self) -> bool:
        """Whether a test that waits for code that is still missing may fail like that."""
        return self not in (Reason.SYNTAX, Reason.OTHER)


class CaseResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one test ended."""

    id: str
    outcome: TestOutcome
    file: str = ""
    """Its file, from the root of the repository; empty: not known."""
    reason: Reason | None = None
    message: str = ""
    whole_file: bool = False
    """A file (or, in Go and Rust, a package) that could not be loaded, so that none of its tests ran; its id
    is the path of the file or of the folder."""


class Canary(StrEnum):
    """Whether the test that must fail did so."""

    ABSENT = "absent"
    """It did not run."""
    FAILED = "failed"
    """It failed as it must: this runner can report a failure."""
    SILENT = "silent"
    """It passed or failed for another reason: this runner cannot be believed."""


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the runners of one command reported."""

    tests: Mapping[str, CaseResult] = MappingProxyType({})
    files: int = 0
    """How many runners finished their report."""
    canary: Canary = Canary.ABSENT
    runners: tuple[str, ...] = ()
    weaknesses: tuple[str, ...] = ()
    """What makes its tests say less than those of other runners."""
    equal: tuple[str, ...] = ()
    """Classes of the product whose values equal any other, so that comparing with them says nothing."""
    apart: tuple[str, ...] = ()
    """Calls by tests that the product answers otherwise where nothing tells that tests run."""

    def ids(self, outcome: TestOutcome) -> frozenset[str]:
        """Return the ids of the tests that ended so; files that could not be loaded are not tests."""
        return frozenset(
            key for key, case in self.tests.items() if case.outcome is outcome and not case.whole_file
        )

    @property
    def failed(self) -> frozenset[str]:
        """The ids of what failed, files that could not be loaded included."""
        return frozenset(key for key, case in self.tests.items() if case.outcome is TestOutcome.FAILED)

    def unloaded(self, case: CaseResult) -> CaseResult | None:
        """Return the entry of a file or folder that could not be loaded and contains the test."""
        for entry in self.tests.values():
            if entry.whole_file and (entry.id == case.file or case.file.startswith(f"{entry.id}/")):
                return entry
        return None


def join_reports(reports: Iterable[Report]) -> Report | None:
    """Return what several runners of one command reported together; None if there is no report."""
    found = list(reports)
    if not found:
        return None
    tests: dict[str, CaseResult] = {}
    for case in (case for report in found for case in report.tests.values()):
        add_case(tests, case)
    names = dict.fromkeys(name for report in found for name in report.runners)
    weak = dict.fromkeys(text for report in found for text in report.weaknesses)
    # A runner that ran nothing has no canary; one that ran tests without a canary says less than the others.
    canary = join_canaries(report.canary for report in found if report.tests)
    equal = dict.fromkeys(name for report in found for name in report.equal)
    apart = dict.fromkeys(words for report in found for words in report.apart)
    return Report(
        tests,
        sum(one.files for one in found),
        canary,
        tuple(names),
        tuple(weak),
        equal=tuple(equal),
        apart=tuple(apart),
    )


def add_case(tests: dict[str, CaseResult], case: CaseResult) -> None:
    """Add how a test ended; of one that ran several times, a failure counts."""
    known = tests.get(case.id)
    if known is None or known.outcome is not TestOutcome.FAILED:
        tests[case.id] = case


def join_canaries(canaries: Iterable[Canary]) -> Canary:
    """Return what several canaries say together: no more than the one that says least."""
    seen = set(canaries)
    for canary in (Canary.SILENT, Canary.ABSENT, Canary.FAILED):
        if canary in seen:
            return canary
    return Canary.ABSENT


def explain(name: str, message: str, frames: Iterable[str] = (), test_file: str = "") -> Reason:
    """Return why a test failed, from the exception's name and message.

    `frames` are the files of the repository in the traceback, without dependencies.
    """
    inner = _IN_EXAMPLE.search(message) if name == "UnexpectedException" else None
    name = inner[1] if inner else name
    if name in _SYNTAX:
        return Reason.SYNTAX
    if name in ("AssertionError", "Failed", "AssertionFailedError") or "Assertion" in name:
        return Reason.ASSERTION
    if name in ("DocTestFailure", "MultipleDoctestFailures"):
        return Reason.ASSERTION
    lacks = name in _MISSING or (name == "TypeError" and _ARGUMENT.search(message))
    if lacks or _UNDEFINED.search(message):
        return Reason.MISSING
    if name == "NotImplementedError":
        return Reason.UNFINISHED
    is_raised = inner is not None or any(frame and frame != test_file for frame in frames)
    return Reason.RAISED if is_raised else Reason.OTHER


def shorten(message: str) -> str:
    """Return a failure's message, cut to a useful length."""
    return cut_text(message, _MESSAGE)
