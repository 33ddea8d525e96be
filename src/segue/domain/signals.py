"""What a service says in fields, not in words: which status it gave, and until when it is limited."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from msgspec import Struct

from segue.domain.failure import FailureKind
from segue.domain.json_text import objects
from segue.domain.pattern import pattern
from segue.domain.resets import FARTHEST, JUST_OVER

MARGIN = 5.0
"""Seconds to wait beyond the end that a service names: its clock is not ours."""
SHORT_RETRY = 15.0
"""Seconds that an agent may wait before it retries, whoever else could work: that is its own business."""

_AT = {
    *("resetsat", "resetat", "resetson", "resettime", "resettimestamp", "resetdate", "retryat"),
    *("quotaresettime", "quotaresettimestamp", "anthropicratelimitunifiedreset"),
}
_AT_OR_IN = {"ratelimitreset", "xratelimitreset"}
"""An instant for some services, seconds for others."""
_IN = {
    *("retryafter", "retryafterseconds", "retryaftersec", "retryaftersecs", "retryafters", "retryin"),
    *("retryinseconds", "retrydelay", "retrydelayseconds", "resetsin", "resetsinseconds", "resetin"),
    *("resetinseconds", "resetafter", "resetafterseconds", "resetdelay", "quotaresetdelay"),
}
_IN_MS = {"retryafterms", "retryaftermilliseconds", "retrydelayms", "retryinms", "resetsinms", "resetinms"}
_STATUS = {"status", "statuscode", "httpstatus", "httpstatuscode", "errorstatus", "apierrorstatus", "code"}
_PART = r"(\d{1,9}(?:\.\d{1,9})?)\s*(ms|s|m|h|d|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?)"
_DURATION = pattern(rf"(?:p?t?(?:{_PART}[\s,]*)+)", re.ASCII)
_NUMBER = pattern(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_PARTS = pattern(_PART, re.ASCII)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MOST, _DEPTH = 2000, 8


class Signal(Struct, frozen=True):
    """What the fields of an error say; 0 and None: nothing."""

    status: int = 0
    until: float | None = None


class Refusal(Struct, frozen=True):
    """Why a service refuses while the agent waits to try again, and until when it waits."""

    kind: FailureKind
    until: float
    message: str

    def outlasts(self, patience: float, now: float) -> bool:
        """Return whether the wait is longer than anybody has patience for."""
        return self.until - now > max(patience, SHORT_RETRY)


def read_signal(data: Any, now: float) -> Signal:
    """Return what any JSON says about a limit, also where it is quoted in a text; the latest end counts."""
    status, ends = 0, list[float]()
    for name, value in _fields(data, [_MOST], _DEPTH):
        if name in _STATUS and not status:
            status = _read_status(value)
        if (end := _read_end(name, value, now)) is not None:
            ends.append(end)
    return Signal(status, max(ends, default=None))


def reset_at(value: Any, now: float) -> float | None:
    """Return the end of a limit that a field names, with a margin; None if it cannot be one."""
    instant = read_instant(value)
    if instant is None or not now - JUST_OVER < instant <= now + FARTHEST:
        return None
    return instant + MARGIN


def _fields(data: Any, left: list[int], depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of all fields, the names in small letters without signs."""
    left[0] -= 1
    if left[0] < 0 or depth < 0:
        return
    if isinstance(data, str):
        for inner in objects(data[:100_000]) if "{" in data else ():
            yield from _fields(inner, left, depth - 1)
    elif isinstance(data, Mapping):
        for name, value in data.items():
            yield re.sub(r"[^a-z0-9]", "", str(name)[:100].lower()), value
            yield from _fields(value, left, depth - 1)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _fields(value, left, depth - 1)


def _read_status(value: Any) -> int:
    if isinstance(value, str) and value.isdecimal() and len(value) == 3:
        value = int(value)
    return value if isinstance(value, int) and 400 <= value < 600 else 0


def _read_end(name: str, value: Any, now: float) -> float | None:
    if name in _AT:
        return reset_at(value, now)
    unit = 0.001 if name in _IN_MS else 1.0
    if unit == 1.0 and name not in _IN and name not in _AT_OR_IN:
        return None
    seconds = _read_duration(value, unit)
    if seconds is None or (name in _AT_OR_IN and seconds > FARTHEST):
        return reset_at(value, now)  # retry-after may be a date
    return now + seconds if 0 <= seconds <= FARTHEST else None


def _read_duration(value: Any, unit: float) -> float | None:
    """Return the seconds that a field names: `40`, `"34.5s"`, `"1h2m"`, `{"seconds": 34}`; None if none."""
    if isinstance(value, Mapping):
        return _read_duration(value.get("seconds"), 1.0)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value)[:100].strip().lower()
    if _NUMBER.fullmatch(text):
        return float(text) * unit
    if not _DURATION.fullmatch(text):
        return None
    parts = _PARTS.findall(text)
    return sum(float(number) * (0.001 if name == "ms" else _SECONDS[name[0]]) for number, name in parts)


def read_instant(value: Any) -> float | None:
    """Return an instant given as seconds or milliseconds since the epoch, or as a date of any usual form."""
    if isinstance(value, str):
        text = value[:100].strip()
        value = float(text) if _NUMBER.fullmatch(text) else _read_date(text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value / 1000 if value > 1e11 else float(value)


def _read_date(text: str) -> float | None:
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, TypeError, IndexError, OverflowError, OSError):
            continue
    return None
