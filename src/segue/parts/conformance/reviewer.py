"""Check that a reviewer keeps the promises of `segue.ports.Reviewer`; run this on your own reviewers too.

def test_my_reviewer() -> None:
    check_reviewer(lambda services: MyReviewer(MyOptions(), services), "app.py", "eval(x)\n", "x = 1\n")
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from msgspec import Struct

from segue.domain.verdict import DismissReason, Finding, Review, Severity
from segue.parts.conformance.trial import check_promises, describe_repository, expect, expect_ready, git
from segue.ports import Reviewer, ReviewSubject
from segue.system.services import Services

MakeReviewer = Callable[[Services], Reviewer]


def check_reviewer(
    make: MakeReviewer, file: str, bad: str, good: str, fails: MakeReviewer | None = None
) -> None:
    """Raise AssertionError with every promise that the reviewer breaks.

    `make` builds a reviewer that reports something when `file` contains `bad`, and nothing when it contains
    `good`; `fails` one whose tool fails, if there is one.
    """

    def begin(services: Services) -> _ReviewTrial:
        failing = fails(services) if fails else None
        return _ReviewTrial(make(services), failing, services.repo, file, bad, good)

    check_promises("reviewer", begin, _PROMISES)


class _ReviewTrial(Struct, frozen=True):
    """The reviewers, a throwaway repository, and the texts to put into it."""

    reviewer: Reviewer
    failing: Reviewer | None
    repo: Path
    file: str
    bad: str
    good: str

    async def change(self, text: str) -> ReviewSubject:
        """Write the text to the file and commit; the subject is everything since the start."""
        path = self.repo / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        await git(self.repo, "add", "--all")
        await git(self.repo, "commit", "--quiet", "--allow-empty", "--message", "Change")
        base, head = (await git(self.repo, "rev-parse", "start", "HEAD")).split()
        return ReviewSubject(self.repo, base, head, "1", f"review-{head}")

    async def review(self, text: str, again: bool = False) -> tuple[Finding, ...]:
        """Return what is found in the text."""
        return _findings(await self.reviewer.review(await self.change(text), again))


async def _declares(trial: _ReviewTrial) -> None:
    """It says its name, and that it is ready."""
    expect_ready(trial.reviewer)
    expect(isinstance(trial.reviewer.needs_commit, bool), "needs_commit is not a boolean")


async def _finds(trial: _ReviewTrial) -> None:
    """It reports what is wrong, in findings that can be stored and followed."""
    found = await trial.review(trial.bad)
    expect(bool(found), "nothing was found")
    expect(len({finding.id for finding in found}) == len(found), "two findings have the same id")
    for finding in found:
        _check_finding(finding, trial.repo)


async def _is_content(trial: _ReviewTrial) -> None:
    """It reports nothing when nothing is wrong."""
    found = await trial.review(trial.good)
    expect(not found, f"{found} was found")


async def _sees_the_fix(trial: _ReviewTrial) -> None:
    """After an address round it reports what is still wrong, and nothing that was fixed."""
    first = await trial.review(trial.bad)
    still = await trial.review(trial.bad, again=True)
    same = {finding.sameness for finding in first} == {finding.sameness for finding in still}
    expect(same, f"first {first}, then {still}, although nothing has changed")
    fixed = await trial.review(trial.good, again=True)
    expect(not fixed, f"{fixed} is reported although it was fixed")


async def _leaves_no_trace(trial: _ReviewTrial) -> None:
    """It changes no file of the user, no commit and no branch."""
    subject = await trial.change(trial.bad)
    before = await describe_repository(trial.repo)
    await trial.reviewer.review(subject, again=False)
    reviewed = await describe_repository(trial.repo)
    expect(reviewed == before, f"after the review: {reviewed}")
    await trial.reviewer.finish(subject)
    finished = await describe_repository(trial.repo)
    expect(finished == before, f"after the end: {finished}")


async def _accepts_dismissals(trial: _ReviewTrial) -> None:
    """Dismissing never raises, not even for a finding it never reported."""
    subject = await trial.change(trial.bad)
    found = _findings(await trial.reviewer.review(subject, again=False))
    stranger = Finding("0123456789abcdef", "nowhere", 1, Severity.INFO, "none", "Never reported")
    dismissed = [(finding, DismissReason.OUT_OF_SCOPE) for finding in (*found, stranger)]
    await trial.reviewer.dismiss(subject, dismissed)
    await trial.reviewer.dismiss(subject, dismissed)


async def _can_be_repeated(trial: _ReviewTrial) -> None:
    """After the end of one task the next can be reviewed, and an interrupted review can be repeated."""
    subject = await trial.change(trial.bad)
    first = _findings(await trial.reviewer.review(subject, again=False))
    repeated = _findings(await trial.reviewer.review(subject, again=False))
    expect(first == repeated, f"first {first}, then {repeated}")
    for _ in range(2):
        warning = await trial.reviewer.finish(subject)
        expect(warning == "", f"the end gives a warning: {warning}")
    expect(bool(_findings(await trial.reviewer.review(subject, again=False))), "the next task finds nothing")


async def _fails_openly(trial: _ReviewTrial) -> None:
    """A failure of the tool is a failure, never a review without findings."""
    if trial.failing:
        review = await trial.failing.review(await trial.change(trial.bad), again=False)
        expect(bool(review.failure.strip()), "it reports no failure")
        expect(not review.findings, f"it failed, but it found {review.findings}")


_PROMISES = (
    _declares,
    _finds,
    _is_content,
    _sees_the_fix,
    _leaves_no_trace,
    _accepts_dismissals,
    _can_be_repeated,
    _fails_openly,
)


def _findings(review: Review) -> tuple[Finding, ...]:
    expect(not review.failure, f"it failed: {review.failure}")
    return review.findings


def _check_finding(finding: Finding, repo: Path) -> None:
    expect(bool(finding.id) and bool(finding.message.strip()), f"{finding} has no id or no message")
    expect(finding.line is None or finding.line >= 1, f"lines count from 1, not {finding.line}")
    path = PurePosixPath(finding.file)
    expect(
        not path.is_absolute() and ".." not in path.parts, f"{finding.file} is not a path in the repository"
    )
    expect(not finding.file or (repo / path).exists(), f"{finding.file} does not exist")
    json.dumps(finding.as_json(), allow_nan=False)
