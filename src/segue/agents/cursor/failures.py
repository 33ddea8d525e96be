"""Says in plain words why the Cursor CLI failed, from the sentences it prints about it."""

from __future__ import annotations

import re
from dataclasses import replace

from segue.domain.classify import classify, plain
from segue.domain.failure import Failure, FailureKind

AFTER_RESULT = frozenset({"ended", "wall", "idle", "lost"})
"""Endings that do not undo a result that was read before: some builds never exit after it."""

_MESSAGE_CHARS = 400
_KNOWN = (
    (
        r"^.*Workspace Trust Required.*$",
        FailureKind.NOT_STARTED,
        "Cursor does not trust this folder; set agents.cursor.trust = true, or trust it once by hand",
    ),
    (
        r"^.*Cannot use this model:.*$",
        FailureKind.NOT_STARTED,
        "Cursor does not know the model; `cursor-agent models` lists those it knows",
    ),
    (
        r"^.*Failed to claim persistent session.*$",
        FailureKind.NOT_STARTED,
        "Cursor does not accept the session that was to be continued",
    ),
    (
        r"^(?:error: )?unknown option.*$",
        FailureKind.NOT_STARTED,
        "this build of Cursor does not know an option",
    ),
    (
        r"^.*Workspace path does not exist.*$",
        FailureKind.NOT_STARTED,
        "Cursor cannot find the workspace",
    ),
    (
        r"^.*(?:cli-config\.json\.tmp|Unexpected end of JSON input).*$",
        FailureKind.CRASH,
        "Cursor tripped over its own configuration file, as it does when several start at once; another "
        "attempt may work, and agents.cursor.own_config_dir = true avoids it",
    ),
)
_LOGIN = "; log in with `cursor-agent login`, or set CURSOR_API_KEY"


def explained(failure: Failure, out_plain: str) -> Failure:
    """The failure with the reason Cursor gave, when it is one of those known."""
    if failure.kind is FailureKind.AUTH:
        return replace(failure, message=failure.message + _LOGIN)
    if failure.kind not in (FailureKind.CRASH, FailureKind.NO_RESULT):
        return failure
    for text in (failure.stderr_tail, out_plain):
        for pattern, kind, meaning in _KNOWN:
            if found := re.search(pattern, plain(text), re.MULTILINE):
                said = found[0].strip()[:_MESSAGE_CHARS]
                return replace(failure, kind=kind, message=f"{meaning}: {said}")
    return failure


def said_no(result: str, err_tail: str, now: float) -> Failure:
    """A result that says itself that it is an error."""
    known = classify(1, None, None, "", result, err_tail, now)
    if known is not None and known.kind is not FailureKind.CRASH:
        return explained(known, "")
    message = result.strip()[:_MESSAGE_CHARS] or "Cursor says that it failed"
    return Failure(FailureKind.UNKNOWN, message, err_tail.strip()[-2000:])
