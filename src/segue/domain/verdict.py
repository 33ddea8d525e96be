"""Verdicts of judges on criteria, from evidence; and findings of reviewers."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from segue.domain.proof import CheckResult

CONTESTED = "contested"
"""The key of the question whether a task asks for tests to be changed as they were."""


class Criterion(Struct, frozen=True):
    """One thing that must be true; `key` is its name for people (`US1/AC2`, `FR-003`, `task`)."""

    key: str
    text: str
    of_story: bool = False
    """Whether it is about a whole story, and judged by everything that changed since the story began."""


class CriterionVerdict(Struct, frozen=True):
    """Whether a criterion is met, with a quote from the evidence."""

    key: str
    met: bool
    evidence: str


class Result(StrEnum):
    """Did the attempt do what was asked?"""

    PASS = "PASS"
    FAIL = "FAIL"
    PARTIAL = "PARTIAL"


class Action(StrEnum):
    """What follows from a verdict."""

    PROCEED = "PROCEED"
    RETRY = "RETRY"
    WEB_SEARCH = "WEB_SEARCH"
    RUN_DIAGNOSTIC = "RUN_DIAGNOSTIC"
    SKIP = "SKIP"
    MODIFY_PLAN = "MODIFY_PLAN"
    STOP = "STOP"


class Verdict(Struct, frozen=True):
    """What is concluded about an attempt, with the reason."""

    result: Result
    action: Action
    reason: str
    criteria: tuple[CriterionVerdict, ...] = ()
    request: str = ""
    """What the action needs: what to search for, which command to run, why the step is left out."""
    caveats: tuple[str, ...] = ()
    """What the rest of the plan should know: where the work differs from what was planned."""


def without_secrets(verdict: Verdict, redact: Callable[[str], str]) -> Verdict:
    """Return the verdict with all words of the judge redacted."""
    return replace(
        verdict,
        reason=redact(verdict.reason),
        criteria=tuple(replace(found, evidence=redact(found.evidence)) for found in verdict.criteria),
        request=redact(verdict.request),
        caveats=tuple(map(redact, verdict.caveats)),
    )


class Hit(Struct, frozen=True):
    """One thing that a search found."""

    title: str = ""
    url: str = ""
    text: str = ""


class Evidence(Struct, frozen=True):
    """Everything a verdict may rest on."""

    diff: str
    files: tuple[str, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    summary: str = ""
    """What the agent says it did: a claim."""
    diagnostics: tuple[str, ...] | None = None
    """The beginnings of the commands a judge may ask for; None: it does not choose what follows."""
    context: str = ""
    """What the task is a part of; untrusted, and no evidence."""


class Severity(StrEnum):
    """How bad it is, in the words every reviewer's own are mapped to."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    NITPICK = "nitpick"

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return list(Severity).index(self)


class Finding(Struct, frozen=True):
    """One thing a reviewer reports."""

    id: str
    file: str
    line: int | None
    severity: Severity
    rule: str
    """The reviewer's own category or rule name."""
    message: str
    suggestion: str = ""

    @property
    def sameness(self) -> tuple[str, str, str]:
        """Equal for the same finding in two rounds: ids and lines move when code is edited."""
        return self.file, self.rule, " ".join(self.message.split())

    def as_json(self) -> dict[str, Any]:
        """Return the finding as the journal stores it."""
        return asdict(self)


class ReviewerCall(Struct, frozen=True):
    """A program that a reviewer called, and how it ended."""

    command: str
    exit_code: int
    seconds: float
    stdout: str = ""
    """The end of what it printed."""
    stderr: str = ""
    failure: str = ""
    """Why it did not finish on its own."""


class Review(Struct, frozen=True):
    """What one round of a reviewer said: findings, or why it failed."""

    findings: tuple[Finding, ...] = ()
    failure: str = ""
    """Why the reviewer itself failed; empty when it worked."""
    output: str = ""
    """The tail of what it printed."""
    needs_human: bool = False
    """Another attempt would not help: somebody else's review is open, for example."""


class ReviewSubject(Struct, frozen=True):
    """What a reviewer reviews: the commits after `base` up to `head`."""

    repo: Path
    base: str
    head: str
    task: str
    token: str
    """Names this review for programs that are started through the supervisor."""
