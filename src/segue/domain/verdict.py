"""A verdict: what is concluded about an attempt, from evidence."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.criterion import CriterionVerdict


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
