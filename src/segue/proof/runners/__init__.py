"""The test runners whose reports are understood."""

from __future__ import annotations

from collections.abc import Sequence

from segue.proof.report import Report, join_reports
from segue.proof.runners.cargo import CARGO_TEST
from segue.proof.runners.go import GO_TEST
from segue.proof.runners.javascript import NODE_RUNNERS
from segue.proof.runners.junit import JUNIT_FILE
from segue.proof.runners.python import PYTEST, PYTEST_JUNIT, UNITTEST
from segue.proof.runners.ruby import RSPEC
from segue.proof.runners.runner import WHOLE, Ended, Project, Purpose, Runner, Stage
from segue.proof.runners.written import CTEST, DOTNET, TAP

RUNNERS: tuple[Runner, ...] = (PYTEST, UNITTEST, *NODE_RUNNERS, GO_TEST, CARGO_TEST, RSPEC, CTEST, DOTNET)
"""All that apply to a command are armed at once, because a Makefile may start several."""

LAST: tuple[Runner, ...] = (JUNIT_FILE, TAP)
"""Armed with the others, but believed only when none of them reports a test."""

FALLBACKS: tuple[Runner, ...] = (PYTEST_JUNIT,)
"""Tried instead when a hook of the others could not be loaded."""


def read_report(armed: Sequence[Runner], stage: Stage, ended: Ended) -> Report | None:
    """Return what the armed runners reported together; None if there is no report."""
    first = join_reports(
        found for runner in armed if runner not in LAST and (found := runner.read(stage, ended))
    )
    if first is not None and first.tests:
        return first
    last = (found for runner in LAST if runner in armed and (found := runner.read(stage, ended)))
    return next((found for found in last if found.tests), first)


__all__ = [
    "FALLBACKS",
    "LAST",
    "RUNNERS",
    "WHOLE",
    "Ended",
    "Project",
    "Purpose",
    "Runner",
    "Stage",
    "read_report",
]
