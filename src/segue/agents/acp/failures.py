"""Says in plain words why an agent that speaks the Agent Client Protocol failed, from the error it gave."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from segue.agents.acp.client import AUTH_REQUIRED
from segue.agents.cursor.tools import table
from segue.agents.json_lines import string
from segue.domain.classify import classify, plain
from segue.domain.failure import Failure, FailureKind
from segue.domain.resets import reset_time

_MESSAGE_CHARS = 400
_STDERR_CHARS = 2000
_STATUS = re.compile(r"(?:^|\b(?:status|code|error|api)\W{1,6}(?:code\W{1,3})?)([45]\d\d)\b", re.IGNORECASE)
_STAGES = {
    "start": "it could not be started",
    "initialize": "it does not speak the protocol as expected",
    "authenticate": "it could not be authenticated",
    "session": "it does not accept the session",
    "mode": "it does not accept the mode",
    "model": "it does not accept the model",
}
_STOPS = {
    "max_tokens": (FailureKind.TRUNCATED, "its answer was cut at the model's longest output"),
    "max_turn_requests": (FailureKind.MAX_TURNS, "it used all the turns it may take"),
    "refusal": (FailureKind.REFUSED, "the model refused to go on"),
    "cancelled": (FailureKind.INTERRUPTED, "its turn was cancelled"),
}


def refused(line: Mapping[str, Any], title: str, login: str, err_tail: str, now: float) -> Failure:
    """What the error means with which the agent answered."""
    stage, code = string(line.get("stage")), line.get("code")
    said = _said(line)
    stderr = plain(err_tail).strip()[-_STDERR_CHARS:]
    kind, until = _kind(code, said, now)
    if stage == "authenticate":
        kind = FailureKind.AUTH
    if kind is FailureKind.UNKNOWN and table(line.get("data")).get("retried"):
        kind = FailureKind.OUTAGE  # agents try again when a service is not there, not when it says no
    if kind is FailureKind.UNKNOWN and stage in _STAGES:
        kind = FailureKind.NOT_STARTED
    where = f"{_STAGES[stage]}: " if stage in _STAGES else ""
    return Failure(kind, _advised(f"{title}: {where}{said}", kind, login), stderr, until)


def ended_badly(text: str, title: str, login: str, now: float) -> Failure:
    """Last words that mean failure, from an agent that calls its turn a success."""
    kind, until = _kind(None, text, now)
    return Failure(kind, _advised(f"{title}: {text.strip()}", kind, login), "", until)


def died(line: Mapping[str, Any], title: str, login: str, err_tail: str, now: float) -> Failure:
    """What it means that the agent has gone, or never answered."""
    stderr = plain(err_tail).strip()[-_STDERR_CHARS:]
    said, code = string(line.get("message")), line.get("exit_code")
    known = classify(1, None, None, "", "", err_tail, now)
    if known is not None and known.kind is not FailureKind.CRASH:
        return Failure(
            known.kind, _advised(f"{title}: {known.message}", known.kind, login), stderr, known.until
        )
    how = f" and ended with {code}" if isinstance(code, int) else ""
    last = f": {stderr.splitlines()[-1].strip()}" if stderr else ""
    message = f"{title}: {said}{how}, while it was asked for: {line.get('stage')}{last}"[:_MESSAGE_CHARS]
    if said.startswith("no answer"):
        return Failure(FailureKind.HANG, message, stderr)
    kind = FailureKind.TRUNCATED if line.get("stage") == "prompt" else FailureKind.CRASH
    return Failure(kind, message, stderr)


def stopped(reason: Any, denied: int, title: str, setting: str) -> Failure | None:
    """What the reason means for which a turn has ended; None when it is a good one."""
    if reason == "end_turn":
        return None
    if reason == "cancelled" and denied:
        return Failure(
            FailureKind.REFUSED, f"{title}: its turn ended when it was denied a tool; see {setting}"
        )
    known = _STOPS.get(reason) if isinstance(reason, str) else None
    if known is None:
        return Failure(
            FailureKind.UNKNOWN, f"{title}: its turn ended for an unknown reason: {str(reason)[:100]}"
        )
    return Failure(known[0], f"{title}: {known[1]}")


def _said(line: Mapping[str, Any]) -> str:
    """The message, and what stands beside it: some agents only say `Internal error` in the message."""
    data = line.get("data")
    more = data if isinstance(data, str) else ""
    for key in ("details", "message", "error", "reason", "errorName"):
        more = more or string(table(data).get(key)) or string(table(table(data).get("error")).get("message"))
    said = string(line.get("message"))
    return f"{said}: {more}" if more and more not in said else said


def _kind(code: Any, said: str, now: float) -> tuple[FailureKind, float | None]:
    """By the words, for they say more; else by the code, which may be that of the service."""
    known = classify(1, None, None, "", said, "", now)
    if known is not None and known.kind is not FailureKind.CRASH:
        return known.kind, known.until
    found = _STATUS.search(said)
    status = code if isinstance(code, int) and 400 <= code < 600 else int(found[1]) if found else 0
    if code == AUTH_REQUIRED or status in (401, 403) or "AuthError" in said:
        return FailureKind.AUTH, None
    if status == 429:
        return FailureKind.RATE_LIMIT, reset_time(said, now)
    return (FailureKind.OUTAGE if status >= 500 else FailureKind.UNKNOWN), None


def _advised(message: str, kind: FailureKind, login: str) -> str:
    said = message[:_MESSAGE_CHARS]
    return f"{said.rstrip('. ')}. {login}" if kind is FailureKind.AUTH and login else said
