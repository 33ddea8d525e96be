"""Says in plain words why Codex failed, from the sentences it prints about it."""

from __future__ import annotations

import re
from dataclasses import replace

from segue.domain.classify import classify, plain
from segue.domain.failure import Failure, FailureKind

_MESSAGE_CHARS = 400
_STDERR_CHARS = 2000
_LOGIN = "; log in with `codex login`, or set CODEX_API_KEY"
_SENTENCES = (
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
)
_STARTING = (
    (r"no rollout found.*", "Codex does not know the session that was to be continued"),
    (r".*not inside a trusted directory.*", "Codex does not trust this folder"),
    (r"error: unexpected argument.*", "this build of Codex does not know an option"),
    (r"Error loading config.*", "Codex does not accept its configuration"),
)


def failed(said: str, err_tail: str, now: float) -> Failure:
    """What Codex said when its turn failed."""
    stderr = plain(err_tail).strip()[-_STDERR_CHARS:]
    known = classify(1, None, None, "", said, "", now)
    if known is not None and known.kind is FailureKind.USAGE_LIMIT:
        return replace(known, stderr_tail=stderr)
    for pattern, kind, meaning in _SENTENCES:
        if re.search(pattern, said):
            message = ": ".join(filter(None, (meaning, said)))[:_MESSAGE_CHARS]
            hint = _LOGIN if kind is FailureKind.AUTH else ""
            return Failure(kind, message + hint, stderr)
    if known is not None and known.kind is not FailureKind.CRASH:
        return replace(known, stderr_tail=stderr)
    return Failure(FailureKind.UNKNOWN, said[:_MESSAGE_CHARS] or "Codex says that it failed", stderr)


def explained(failure: Failure, said: str) -> Failure:
    """A failure without the end of a turn, with the reason Codex gave last."""
    if failure.kind in (FailureKind.TIMEOUT, FailureKind.HANG) and said:
        return replace(failure, message=f"{failure.message}; Codex said last: {said[:_MESSAGE_CHARS]}")
    if failure.kind not in (FailureKind.CRASH, FailureKind.NO_RESULT):
        return failure
    for pattern, meaning in _STARTING:
        if found := re.search(pattern, plain(failure.stderr_tail)):
            message = f"{meaning}: {found[0].strip()}"[:_MESSAGE_CHARS]
            return replace(failure, kind=FailureKind.NOT_STARTED, message=message)
    return failure
