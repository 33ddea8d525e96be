"""The sentences that Codex prints when it fails."""

from __future__ import annotations

from segue.agents.local.failures import FailureTable
from segue.domain.failure import FailureKind

LOGIN = "Run `codex login`, or set CODEX_API_KEY; `codex exec` does not read OPENAI_API_KEY."
FAILURES = FailureTable(
    "Codex",
    LOGIN,
    at_start=(
        (r"no rollout found.*", FailureKind.NOT_STARTED, "Codex does not know the session to continue"),
        (r".*not inside a trusted directory.*", FailureKind.NOT_STARTED, "Codex does not trust this folder"),
        (
            r"error: unexpected argument.*",
            FailureKind.NOT_STARTED,
            "this version of Codex does not know an option",
        ),
        (r"Error loading config.*", FailureKind.NOT_STARTED, "Codex does not accept its configuration"),
    ),
    in_result=(
        (r"unexpected status (?:401|403)\b", FailureKind.AUTH, ""),
        (r"Missing environment variable", FailureKind.AUTH, ""),
        (
            r"unexpected status 404\b",
            FailureKind.NOT_STARTED,
            "Codex's service does not know what it was asked for",
        ),
        (
            r"(?:last|unexpected) status:? 5\d\d|high demand|overloaded",
            FailureKind.OUTAGE,
            "Codex's service is in trouble",
        ),
        (
            r"ran out of room|context_length_exceeded",
            FailureKind.CONTEXT,
            "the conversation has become too long for the model",
        ),
        (r"stream disconnected", FailureKind.OUTAGE, "Codex lost the connection to its service"),
    ),
)
