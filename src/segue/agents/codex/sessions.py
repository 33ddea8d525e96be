"""Read the session files of Codex: they have what `codex exec` does not print.

A failed turn's tokens, and how much of the account's limits is used up with the exact end of each.
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from segue.agents.limits import read_instant, reset_at
from segue.agents.local.values import Json, as_count, as_table, as_text, parse_object
from segue.domain.outcome import Usage
from segue.system.files import read_end

_THREAD = re.compile(r"[A-Za-z0-9-]{1,100}")
_TAIL_BYTES = 4 * 1024 * 1024
_FULL = 100.0


class SessionFacts(Struct, frozen=True):
    """What a session's file says last; None: nothing."""

    used: Usage | None = None
    """All tokens of the thread."""
    limited_until: float | None = None
    """When the last limit ends that is used up."""


def read_session(home: Path, thread: str | None, now: float) -> SessionFacts:
    """Return what the file of a thread says; nothing if there is none."""
    if thread is None or not _THREAD.fullmatch(thread):
        return SessionFacts()
    found = sorted(home.glob(f"sessions/*/*/*/rollout-*-{thread}.jsonl"))
    try:
        lines = read_end(found[-1], _TAIL_BYTES).decode("utf-8", "replace").splitlines()
    except IndexError:
        return SessionFacts()
    used: Usage | None = None
    limits: float | None = None
    is_limit_known = False
    for line in reversed(lines):
        event = parse_object(line) or {} if '"token_count"' in line else {}
        payload = as_table(event.get("payload"))
        if as_text(payload.get("type")) != "token_count":
            continue
        # The last one may say only one of the two.
        used = used or _read_total(payload)
        if not is_limit_known and (windows := as_table(payload.get("rate_limits"))):
            limits, is_limit_known = (
                _read_limits(windows, read_instant(event.get("timestamp")) or now, now),
                True,
            )
        if used is not None and is_limit_known:
            break
    return SessionFacts(used, limits)


def _read_total(payload: Json) -> Usage | None:
    total = as_table(as_table(payload.get("info")).get("total_token_usage"))
    found = Usage(as_count(total.get("input_tokens")), as_count(total.get("output_tokens")))
    return found if found.tokens else None


def _read_limits(windows: Json, said: float, now: float) -> float | None:
    """Return when the last limit ends that is used up; `said`: when this was said."""
    ends = (_read_end(as_table(window), said, now) for window in windows.values())
    return max((end for end in ends if end is not None), default=None)


def _read_end(window: Json, said: float, now: float) -> float | None:
    used, seconds = window.get("used_percent"), window.get("resets_in_seconds")
    if not isinstance(used, int | float) or used < _FULL:
        return None
    at = said + seconds if isinstance(seconds, int | float) else window.get("resets_at")
    return reset_at(at, now)
