"""Does a reviewer keep the promises of its socket? Run this on every reviewer, also on your own.

def test_my_reviewer() -> None:
    check_reviewer(lambda repo: MyReviewer(MyOptions(), repo, Redactor([])), "app.py", "eval(x)\n", "x = 1\n")
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from segue.domain.finding import DismissReason, Finding, Review, Severity
from segue.ports import Reviewer, ReviewSubject
from segue.system.process.processes import capture

MakeReviewer = Callable[[Path], Reviewer]
_GIT = ("git", "-c", "user.name=Conformance", "-c", "user.email=conformance@localhost")


def check_reviewer(
    make: MakeReviewer, file: str, bad: str, good: str, fails: MakeReviewer | None = None
) -> None:
    """Raise AssertionError with every promise that is broken.

    `make` builds a reviewer of the repository it is given. It must report something when `file` holds
    `bad`, and nothing when it holds `good`. `fails` builds one whose tool fails, if there is one.
    """
    broken = asyncio.run(_broken_promises(make, file, bad, good, fails))
    if broken:
        raise AssertionError(
            "the reviewer breaks its promises:\n" + "\n".join(f"- {line}" for line in broken)
        )


@dataclass(frozen=True, slots=True)
class _Trial:
    """What every check needs: a throw-away repository, and what to put into it."""

    reviewer: Reviewer
    failing: Reviewer | None
    repo: Path
    file: str
    bad: str
    good: str

    async def change(self, text: str) -> ReviewSubject:
        """Put the text in the file and commit; the subject is all that has changed since the start."""
        path = self.repo / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        await _git(self.repo, "add", "--all")
        await _git(self.repo, "commit", "--quiet", "--allow-empty", "--message", "Change")
        base, head = (await _git(self.repo, "rev-parse", "start", "HEAD")).split()
        return ReviewSubject(self.repo, base, head, "1", f"review-{head}")


async def _broken_promises(
    make: MakeReviewer, file: str, bad: str, good: str, fails: MakeReviewer | None
) -> list[str]:
    broken = []
    for check in _CHECKS:
        with tempfile.TemporaryDirectory(prefix="segue-conformance-") as folder:
            repo = Path(folder).resolve() / "repo"
            await _make_repository(repo)
            trial = _Trial(make(repo), fails(repo) if fails else None, repo, file, bad, good)
            try:
                await check(trial)
            except AssertionError as error:
                broken.append(f"{(check.__doc__ or '').rstrip('.')}: {error}")
    return broken


async def _declares(trial: _Trial) -> None:
    """It says who it is, and that it is ready."""
    _expect(bool(trial.reviewer.name), "its name is empty")
    _expect(isinstance(trial.reviewer.needs_commit, bool), "needs_commit is not a boolean")
    problems = trial.reviewer.check()
    _expect(not problems, "; ".join(problem.message for problem in problems))


async def _finds(trial: _Trial) -> None:
    """It reports what is wrong, in findings that can be stored and followed."""
    found = _findings(await trial.reviewer.review(await trial.change(trial.bad), again=False))
    _expect(bool(found), "nothing was found")
    _expect(len({finding.id for finding in found}) == len(found), "two findings have the same id")
    for finding in found:
        _check_finding(finding, trial.repo)


async def _is_content(trial: _Trial) -> None:
    """It reports nothing when nothing is wrong."""
    found = _findings(await trial.reviewer.review(await trial.change(trial.good), again=False))
    _expect(not found, f"{found} was found")


async def _sees_the_fix(trial: _Trial) -> None:
    """After an address round it reports what is still wrong, and no more what was put right."""
    first = _findings(await trial.reviewer.review(await trial.change(trial.bad), again=False))
    still = _findings(await trial.reviewer.review(await trial.change(trial.bad), again=True))
    same = {finding.sameness for finding in first} == {finding.sameness for finding in still}
    _expect(same, f"first {first}, then {still}, although nothing has changed")
    fixed = _findings(await trial.reviewer.review(await trial.change(trial.good), again=True))
    _expect(not fixed, f"{fixed} is reported although it was put right")


async def _leaves_no_trace(trial: _Trial) -> None:
    """It changes no file of the user, no commit and no branch."""
    subject = await trial.change(trial.bad)
    before = await _state(trial.repo)
    await trial.reviewer.review(subject, again=False)
    _expect(await _state(trial.repo) == before, f"after the review: {await _state(trial.repo)}")
    await trial.reviewer.finish(subject)
    _expect(await _state(trial.repo) == before, f"after the end: {await _state(trial.repo)}")


async def _can_be_told(trial: _Trial) -> None:
    """Dismissing never raises, not even for a finding it has never heard of."""
    subject = await trial.change(trial.bad)
    found = _findings(await trial.reviewer.review(subject, again=False))
    stranger = Finding("0123456789abcdef", "nowhere", 1, Severity.INFO, "none", "Never reported")
    told = [(finding, DismissReason.OUT_OF_SCOPE) for finding in (*found, stranger)]
    await trial.reviewer.dismiss(subject, told)
    await trial.reviewer.dismiss(subject, told)


async def _can_be_repeated(trial: _Trial) -> None:
    """After the end of one task the next can be reviewed, and an interrupted review can be repeated."""
    subject = await trial.change(trial.bad)
    first = _findings(await trial.reviewer.review(subject, again=False))
    repeated = _findings(await trial.reviewer.review(subject, again=False))
    _expect(first == repeated, f"first {first}, then {repeated}")
    for _ in range(2):
        warning = await trial.reviewer.finish(subject)
        _expect(warning == "", f"the end gives a warning: {warning}")
    _expect(bool(_findings(await trial.reviewer.review(subject, again=False))), "the next task finds nothing")


async def _fails_openly(trial: _Trial) -> None:
    """A failure of the tool is a failure, never a review without findings."""
    if trial.failing:
        review = await trial.failing.review(await trial.change(trial.bad), again=False)
        _expect(bool(review.failure.strip()), "it is said to have worked")
        _expect(not review.findings, f"it failed, and yet it found {review.findings}")


_CHECKS: tuple[Callable[[_Trial], Awaitable[None]], ...] = (
    _declares,
    _finds,
    _is_content,
    _sees_the_fix,
    _leaves_no_trace,
    _can_be_told,
    _can_be_repeated,
    _fails_openly,
)


def _findings(review: Review) -> tuple[Finding, ...]:
    _expect(not review.failure, f"it failed: {review.failure}")
    return review.findings


def _check_finding(finding: Finding, repo: Path) -> None:
    _expect(bool(finding.id) and bool(finding.message.strip()), f"{finding} has no id or no message")
    _expect(finding.line is None or finding.line >= 1, f"lines count from 1, not {finding.line}")
    path = PurePosixPath(finding.file)
    _expect(
        not path.is_absolute() and ".." not in path.parts, f"{finding.file} is not a path in the repository"
    )
    _expect(not finding.file or (repo / path).exists(), f"{finding.file} does not exist")
    json.dumps(finding.as_json(), allow_nan=False)


def _expect(holds: bool, sentence: str) -> None:
    # Not an `assert` statement: those vanish under `python -O`.
    if not holds:
        raise AssertionError(sentence)


async def _make_repository(repo: Path) -> None:
    repo.mkdir()
    (repo / "README.md").write_text("A throw-away repository.\n")
    await _git(repo, "init", "--quiet")
    await _git(repo, "add", "--all")
    await _git(repo, "commit", "--quiet", "--message", "Start")
    await _git(repo, "tag", "start")


async def _state(repo: Path) -> str:
    head = await _git(repo, "rev-parse", "--symbolic-full-name", "HEAD", "--branches")
    return head + await _git(repo, "rev-parse", "HEAD") + await _git(repo, "status", "--porcelain")


async def _git(repo: Path, *arguments: str) -> str:
    done = await capture([*_GIT, *arguments], repo)
    if done.exit_code != 0:
        raise RuntimeError(f"git {arguments[0]}: {done.err.decode('utf-8', 'replace')}")
    return done.out.decode("utf-8", "replace")
