"""Check that a reviewer keeps the promises of `segue.ports.Reviewer`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from msgspec import Struct

from segue.domain.verdict import Finding, Review
from segue.ports import Reviewer, ReviewSubject
from segue.system.services import Services
from tests.conformance.trial import check_promises, describe_repository, expect_ready, git

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
    assert isinstance(trial.reviewer.needs_commit, bool), "needs_commit is not a boolean"


async def _finds(trial: _ReviewTrial) -> None:
    """It reports what is wrong, in findings that can be stored and followed."""
    found = await trial.review(trial.bad)
    assert found, "nothing was found"
    assert len({finding.id for finding in found}) == len(found), "two findings have the same id"
    for finding in found:
        _check_finding(finding, trial.repo)


async def _sees_the_fix(trial: _ReviewTrial) -> None:
    """After an address round it reports what is still wrong, and nothing that was fixed."""
    first = await trial.review(trial.bad)
    still = await trial.review(trial.bad, again=True)
    same = {finding.sameness for finding in first} == {finding.sameness for finding in still}
    assert same, f"first {first}, then {still}, although nothing has changed"
    fixed = await trial.review(trial.good, again=True)
    assert not fixed, f"{fixed} is reported although it was fixed"


async def _leaves_no_trace(trial: _ReviewTrial) -> None:
    """It changes no file of the user, no commit and no branch."""
    subject = await trial.change(trial.bad)
    before = await describe_repository(trial.repo)
    await trial.reviewer.review(subject, again=False)
    reviewed = await describe_repository(trial.repo)
    assert reviewed == before, f"after the review: {reviewed}"
    await trial.reviewer.finish(subject)
    finished = await describe_repository(trial.repo)
    assert finished == before, f"after the end: {finished}"


async def _can_be_repeated(trial: _ReviewTrial) -> None:
    """After the end of one task the next can be reviewed, and an interrupted review can be repeated."""
    subject = await trial.change(trial.bad)
    first = _findings(await trial.reviewer.review(subject, again=False))
    repeated = _findings(await trial.reviewer.review(subject, again=False))
    assert first == repeated, f"first {first}, then {repeated}"
    for _ in range(2):
        warning = await trial.reviewer.finish(subject)
        assert warning == "", f"the end gives a warning: {warning}"
    assert bool(_findings(await trial.reviewer.review(subject, again=False))), "the next task finds nothing"


async def _fails_openly(trial: _ReviewTrial) -> None:
    """A failure of the tool is a failure, never a review without findings."""
    if trial.failing:
        review = await trial.failing.review(await trial.change(trial.bad), again=False)
        assert bool(review.failure.strip()), "it reports no failure"
        assert not review.findings, f"it failed, but it found {review.findings}"


_PROMISES = (
    _declares,
    _finds,
    _sees_the_fix,
    _leaves_no_trace,
    _can_be_repeated,
    _fails_openly,
)


def _findings(review: Review) -> tuple[Finding, ...]:
    assert not review.failure, f"it failed: {review.failure}"
    return review.findings


def _check_finding(finding: Finding, repo: Path) -> None:
    assert all((finding.id, finding.message.strip())), f"{finding} has no id or no message"
    assert finding.line is None or finding.line >= 1, f"lines count from 1, not {finding.line}"
    path = PurePosixPath(finding.file)
    assert not {"/", ".."} & {*path.parts}, f"{finding.file} is not a path in the repository"
    assert not finding.file or (repo / path).exists(), f"{finding.file} does not exist"
    json.dumps(finding.as_json(), allow_nan=False)
