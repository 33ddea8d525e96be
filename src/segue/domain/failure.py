"""How work fails, in words that every agent shares."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class FailureKind(StrEnum):
    """Why an attempt did not succeed."""

    USAGE_LIMIT = "usage_limit"
    RATE_LIMIT = "rate_limit"
    OUTAGE = "outage"
    AUTH = "auth"
    CRASH = "crash"
    REFUSED = "refused"
    CONTEXT = "context"
    MAX_TURNS = "max_turns"
    HANG = "hang"
    TIMEOUT = "timeout"
    TRUNCATED = "truncated"
    NO_RESULT = "no_result"
    NO_CHANGE = "no_change"
    OUTPUT_LIMIT = "output_limit"
    INTERRUPTED = "interrupted"
    LOST = "lost"
    NOT_STARTED = "not_started"
    BRANCH = "branch"
    PLAN_EDITED = "plan_edited"
    COMMIT = "commit"
    TAMPERED = "tampered"
    UNKNOWN = "unknown"


class Failure(Struct, frozen=True):
    """Why an attempt failed: for people a sentence, for programs a kind."""

    kind: FailureKind
    message: str
    stderr_tail: str = ""
    until: float | None = None
    """When a usage limit ends, as seconds since the epoch, if the agent said so."""
