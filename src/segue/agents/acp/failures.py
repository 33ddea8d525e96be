"""Say in plain words why an agent that speaks the Agent Client Protocol failed, from the error it gave."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from segue.agents.acp.client import AUTH_REQUIRED
from segue.agents.local.failures import MESSAGE_CHARS, FailureTable
from segue.agents.local.values import Json, as_table, as_text
from segue.domain.classify import classify, plain
from segue.domain.failure import Failure, FailureKind
from segue.domain.resets import reset_time

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
    "refusal": (FailureKind.REFUSED, "the model refused to continue"),
    "cancelled": (FailureKind.INTERRUPTED, "its turn was cancelled"),
}


@dataclass(frozen=True, slots=True)
class AcpFailures:
    """The failures of one agent."""

    title: str
    login: str

    @property
    def table(self) -> FailureTable:
        """The part that all local agents have in common."""
        return FailureTable(self.title, self.login)

    def read_error(self, line: Json, err_tail: str, now: float) -> Failure:
        """Return what an error means that was the answer to a request."""
        stage, said = as_text(line.get("stage")), _read_message(line)
        kind, until = _judge(line.get("code"), said, now)
        if stage == "authenticate":
            kind = FailureKind.AUTH
        if kind is FailureKind.UNKNOWN and as_table(line.get("data")).get("retried"):
            kind = FailureKind.OUTAGE  # agents retry when a service is down, not when it says no
        if kind is FailureKind.UNKNOWN and stage in _STAGES:
            kind = FailureKind.NOT_STARTED
        where = f"{_STAGES[stage]}: " if stage in _STAGES else ""
        return self.table.fail(kind, f"{self.title}: {where}{said}", err_tail, until)

    def read_message(self, text: str, now: float) -> Failure:
        """Return what a last message means that reports a failure, although the turn ended well."""
        kind, until = _judge(None, text, now)
        return self.table.fail(kind, f"{self.title}: {text.strip()}", "", until)

    def read_death(self, line: Json, err_tail: str, now: float) -> Failure:
        """Return what it means that the agent is gone, or never answered."""
        stderr, said = plain(err_tail).strip(), as_text(line.get("message"))
        known = classify(1, None, None, "", "", err_tail, now)
        if known is not None and known.kind is not FailureKind.CRASH:
            return self.table.fail(known.kind, f"{self.title}: {known.message}", err_tail, known.until)
        code = line.get("exit_code")
        how = f" and ended with {code}" if isinstance(code, int) else ""
        last = f": {stderr.splitlines()[-1].strip()}" if stderr else ""
        message = f"{self.title}: {said}{how}, while it was asked for: {line.get('stage')}{last}"
        kind = FailureKind.TRUNCATED if line.get("stage") == "prompt" else FailureKind.CRASH
        kind = FailureKind.HANG if said.startswith("no answer") else kind
        return self.table.fail(kind, message[:MESSAGE_CHARS], err_tail)

    def read_stop(self, reason: Any, denied: int, setting: str) -> Failure | None:
        """Return what the reason means for which a turn ended; None if it is a good one."""
        if reason == "end_turn":
            return None
        if reason == "cancelled" and denied:
            message = f"{self.title}: its turn ended when it was denied a tool; see {setting}"
            return Failure(FailureKind.REFUSED, message)
        unknown = FailureKind.UNKNOWN, f"its turn ended for an unknown reason: {str(reason)[:100]}"
        kind, message = _STOPS.get(reason, unknown) if isinstance(reason, str) else unknown
        return Failure(kind, f"{self.title}: {message}")


def _read_message(line: Json) -> str:
    """Return the message with its details: some agents only say `Internal error` in the message."""
    data = line.get("data")
    more = as_text(data)
    for key in ("details", "message", "error", "reason", "errorName"):
        inner = as_table(as_table(data).get("error")).get("message")
        more = more or as_text(as_table(data).get(key)) or as_text(inner)
    said = as_text(line.get("message"))
    return f"{said}: {more}" if more and more not in said else said


def _judge(code: Any, said: str, now: float) -> tuple[FailureKind, float | None]:
    """Judge by the words, because they say more, or by the code, which may be that of the service."""
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
