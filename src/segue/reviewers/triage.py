"""Triage: dismisses findings by the user's rules; the rest is addressed."""

import fnmatch
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from segue.domain.options import OptionError, Options, Text
from segue.domain.verdict import DismissReason, Finding, Severity

_REGEX = "re:"


class DismissRule(Options, frozen=True):
    """One element of `review.dismiss`."""

    pattern: Text
    """Matched against `file: rule: message`: a shell-style pattern for all of it (`tests/*: *: *`), or `re:`
    and a regular expression to search for."""
    reason: DismissReason = DismissReason.FALSE_POSITIVE
    """false_positive, already_correct, wrong_suggestion or out_of_scope."""

    def __post_init__(self) -> None:
        try:
            _compile(self.pattern)
        except re.error as error:
            raise OptionError("pattern", f"{self.pattern!r} is not a regular expression: {error}") from None


class Triage(Struct, frozen=True):
    """The findings to address, and the dismissed ones with the reason."""

    kept: tuple[Finding, ...]
    dismissed: tuple[tuple[Finding, DismissReason], ...]


def triage(findings: Iterable[Finding], rules: Sequence[DismissRule]) -> Triage:
    """Apply the rules to the findings; the first that matches decides."""
    tests = [(_compile(rule.pattern), rule.reason) for rule in rules]
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
    """Return the line that patterns are matched against, however the message is wrapped."""
    return f"{finding.file}: {finding.rule}: {' '.join(finding.message.split())}"


def at_least(findings: Iterable[Finding], severity: Severity) -> tuple[Finding, ...]:
    """Return the findings of this severity or worse."""
    return tuple(finding for finding in findings if finding.severity.rank <= severity.rank)


def _compile(pattern: str) -> re.Pattern[str]:
    if pattern.startswith(_REGEX):
        return re.compile(pattern.removeprefix(_REGEX))
    # The translation is anchored at its end only.
    return re.compile(r"\A" + fnmatch.translate(pattern))
