"""A finding: one thing a reviewer reports."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict


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


class DismissReason(StrEnum):
    """Why a finding is not addressed."""

    FALSE_POSITIVE = "false_positive"
    ALREADY_CORRECT = "already_correct"
    WRONG_SUGGESTION = "wrong_suggestion"
    OUT_OF_SCOPE = "out_of_scope"


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
        """Return the finding as the journal writes it down."""
        return asdict(self)


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
