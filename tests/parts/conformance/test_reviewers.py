"""Reviewers keep the promises of their socket, and the suite notices when one does not."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from segue.domain.verdict import DismissReason, Finding, Review, Severity
from segue.parts.conformance.reviewer import check_reviewer
from segue.ports import Problem, ReviewSubject
from segue.reviewers.command import CommandReviewer
from segue.system.services import Services
from tests.reviewers.place import preset

RUFF = str(Path(sys.executable).parent / "ruff")


def test_the_command_reviewer_conforms() -> None:
    options = preset("ruff", argv=[RUFF, "check", "--no-cache", "--output-format", "json", "."])
    wrong = preset("ruff", argv=[RUFF, "check", "--no-such-flag"])
    check_reviewer(
        partial(CommandReviewer, options),
        "src/calc.py",
        "import os\n",
        "x = 1\n",
        fails=partial(CommandReviewer, wrong),
    )


class Careless:
    """Breaks every promise it can."""

    name = ""
    needs_commit = False

    def __init__(self, services: Services) -> None:
        self.repo = services.repo
        self.count = 0

    def check(self) -> list[Problem]:
        return [Problem("never ready")]

    async def review(self, subject: ReviewSubject, again: bool) -> Review:
        self.count += 1
        (self.repo / "litter.txt").write_text("litter")
        place = str(self.repo / "litter.txt")
        return Review((Finding("1", place, 0, Severity.INFO, "", f"number {self.count}"),))

    async def dismiss(
        self, subject: ReviewSubject, dismissed: Sequence[tuple[Finding, DismissReason]]
    ) -> None:
        if any(finding.file == "nowhere" for finding, _ in dismissed):
            raise AssertionError("who is that?")

    async def finish(self, subject: ReviewSubject) -> str:
        return "never again"


def test_the_suite_notices_broken_promises() -> None:
    with pytest.raises(AssertionError) as caught:
        check_reviewer(Careless, "a.py", "bad\n", "good\n", fails=Careless)
    said = str(caught.value)
    for complaint in (
        "its name is empty",
        "lines count from 1",
        "was found",
        "although nothing has changed",
        "litter.txt",
        "who is that?",
        "then (Finding",
        "it reports no failure",
    ):
        assert complaint in said
