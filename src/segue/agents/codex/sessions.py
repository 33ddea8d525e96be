"""Read the session files of Codex: they have what `codex exec` does not print.

A failed turn's tokens, and how much of the account's limits is used up with the exact end of each.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from msgspec import Struct

from segue.agents.local.values import Json, as_count, as_table, as_text, parse_object
from segue.domain.outcome import Usage
from segue.domain.signals import reset_at

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
        with found[-1].open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
            lines = file.read(_TAIL_BYTES).decode("utf-8", "replace").splitlines()
    except (OSError, IndexError):
        return SessionFacts()
    for line in reversed(lines):
        payload = as_table((parse_object(line) or {}).get("payload")) if '"token_count"' in line else {}
        if as_text(payload.get("type")) == "token_count":
            return _read_counts(payload, now)
    return SessionFacts()


def _read_counts(payload: Json, now: float) -> SessionFacts:
    total = as_table(as_table(payload.get("info")).get("total_token_usage"))
    counts = (as_count(total.get("input_tokens")), as_count(total.get("output_tokens")))
    limits = as_table(payload.get("rate_limits"))
    ends = [_read_end(limits.get(name), now) for name in ("primary", "secondary")]
    return SessionFacts(
        Usage(*counts) if any(counts) else None, max((end for end in ends if end is not None), default=None)
    )


def _read_end(window: Any, now: float) -> float | None:
    """Return when a limit ends, if it is used up."""
    facts = as_table(window)
    used = facts.get("used_percent")
    if not isinstance(used, int | float) or used < _FULL:
        return None
    seconds = facts.get("resets_in_seconds")
    at = now + seconds if isinstance(seconds, int | float) else facts.get("resets_at")
    return reset_at(at, now)
