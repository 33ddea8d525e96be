"""Which findings are addressed, and which are set aside by rules the user wrote, with the reason."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, field_validator

from segue.domain.finding import DismissReason, Finding, Severity

_REGEX = "re:"


class DismissRule(BaseModel):
    """One element of `review.dismiss`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pattern: str = Field(
        min_length=1,
        description="Tried on `file: rule: message`: a shell-style pattern for the whole of it "
        "(`tests/*: *: *`), or `re:` and a regular expression that is searched in it.",
    )
    reason: DismissReason = Field(
        default=DismissReason.FALSE_POSITIVE,
        description="false_positive, already_correct, wrong_suggestion or out_of_scope.",
    )

    @field_validator("pattern")
    @classmethod
    def _is_valid(cls, pattern: str) -> str:
        try:
            _compiled(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
        return pattern


@dataclass(frozen=True, slots=True)
class Triage:
    """The findings that are addressed, and those that are not, with the reason."""

    kept: tuple[Finding, ...]
    dismissed: tuple[tuple[Finding, DismissReason], ...]


def triage(findings: Iterable[Finding], rules: Sequence[DismissRule]) -> Triage:
    """Sort the findings; the first rule that fits decides."""
    tests = [(_compiled(rule.pattern), rule.reason) for rule in rules]
    kept: list[Finding] = []
    dismissed: list[tuple[Finding, DismissReason]] = []
    for finding in findings:
        subject = subject_of(finding)
        reason = next((reason for test, reason in tests if test.search(subject)), None)
        if reason is None:
            kept.append(finding)
        else:
            dismissed.append((finding, reason))
    return Triage(tuple(kept), tuple(dismissed))


def subject_of(finding: Finding) -> str:
    """What patterns are tried on: one line, however the message is wrapped."""
    return f"{finding.file}: {finding.rule}: {' '.join(finding.message.split())}"


def at_least(findings: Iterable[Finding], severity: Severity) -> tuple[Finding, ...]:
    """The findings that are as bad as this, or worse."""
    return tuple(finding for finding in findings if finding.severity.rank <= severity.rank)


def _compiled(pattern: str) -> re.Pattern[str]:
    if pattern.startswith(_REGEX):
        return re.compile(pattern.removeprefix(_REGEX))
    # The translation is anchored at its end only.
    return re.compile(r"\A" + fnmatch.translate(pattern))
