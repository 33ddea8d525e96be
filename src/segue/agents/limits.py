"""When a limit ends: read from the fields of an error, else from the sentence an agent prints about it.

Sentences are the last resort: they leave out seconds and days.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from email.utils import parsedate_to_datetime
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import Struct

from segue.domain.outcome import FailureKind
from segue.domain.text import find_objects

FARTHEST = 366 * 86400.0
"""No limit lasts longer; a later instant is a misreading, and a larger number is an instant."""
JUST_OVER = 60.0
"""Seconds for which the end of a limit may be past when we read of it: then the agent can work already."""
MARGIN = 5.0
"""Seconds to wait beyond the end that a service names: its clock is not ours."""
SHORT_RETRY = 15.0
"""Seconds that an agent may wait before it retries, whoever else could work: that is its own business."""

_WHOLE = 60.0
"""Seconds that a sentence leaves out when it names minutes: the limit ends at the end of the minute."""
_RECENT = 900.0
"""Seconds for which a time of day that is past means today, not tomorrow: the limit has just ended."""
_PAST_DATE = 7 * 86400.0
"""Seconds for which a date without a year that is past means this year, not the next."""

_FIELD = re.compile(
    r"(?:(?:quota)?(?:resets?|retry)(?:at|on|time|timestamp|date|after|in|delay)|\w*ratelimit\w*reset)"
    r"(ms|milliseconds)?(?:s|secs?|seconds)?"
)
"""Names of fields, in small letters without signs, that say when or after how long a limit ends."""
_STATUS = {"status", "statuscode", "httpstatus", "httpstatuscode", "errorstatus", "apierrorstatus", "code"}
_MOST, _DEPTH = 2000, 8
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_UNIT = r"(?:months?|weeks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])"
_AMOUNT = re.compile(rf"(\d{{1,9}}(?:\.\d{{1,9}})?)\s?({_UNIT})", re.ASCII)
_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?\s?[a-z]{1,8}[\s,]*)+", re.ASCII)
_SECONDS = {"mo": 30 * 86400, "w": 7 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1}


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
        """Return whether the wait is longer than is acceptable."""
        return self.until - now > max(patience, SHORT_RETRY)


def read_signal(data: Any, now: float) -> Signal:
    """Return what any JSON says about a limit, also where it is quoted in a text; the latest end counts."""
    status, ends = 0, list[float]()
    for name, value in _fields(data, [_MOST], _DEPTH):
        if name in _STATUS and not status:
            status = _read_status(value)
        if (field := _FIELD.fullmatch(name)) and (end := _read_end(value, bool(field[1]), now)) is not None:
            ends.append(end)
    return Signal(status, max(ends, default=None))


def reset_at(value: Any, now: float) -> float | None:
    """Return the end of a limit that a field names, with a margin; None if it cannot be one."""
    instant = read_instant(value)
    if instant is None or not now - JUST_OVER < instant <= now + FARTHEST:
        return None
    return instant + MARGIN


def read_instant(value: Any) -> float | None:
    """Return an instant given as seconds or milliseconds since the epoch, or as a date of any usual form."""
    if isinstance(value, str):
        text = value[:100].strip()
        value = float(text) if _NUMBER.fullmatch(text) else _read_date(text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value / 1000 if value > 1e11 else float(value)


def _fields(data: Any, left: list[int], depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of all fields, the names in small letters without signs."""
    left[0] -= 1
    if left[0] < 0 or depth < 0:
        return
    if isinstance(data, str):
        for inner in find_objects(data[:100_000]) if "{" in data else ():
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


def _read_end(value: Any, is_ms: bool, now: float) -> float | None:
    """Return the end that `40`, `"34.5s"`, `"1h2m"`, `{"seconds": 34}` or an instant names; None if none."""
    if isinstance(value, Mapping):
        value = value.get("seconds")
    text = str(value)[:100].strip().lower()
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if _NUMBER.fullmatch(text) and float(text) <= FARTHEST:
        return now + float(text) * (0.001 if is_ms else 1.0)
    if _DURATION.fullmatch(text):
        parts = _AMOUNT.findall(text)
        seconds = _add(parts) if parts else float(text[:-2]) / 1000 if text.endswith("ms") else FARTHEST
        return now + seconds if seconds < FARTHEST else None
    return reset_at(value, now)


def _add(parts: list[tuple[str, str]]) -> float:
    """Return the seconds of amounts with units."""
    units = (unit[:2] if unit.startswith("mo") else unit[0] for _, unit in parts)
    return sum(float(amount) * _SECONDS[unit] for (amount, _), unit in zip(parts, units, strict=True))


def _read_date(text: str) -> float | None:
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError, TypeError, IndexError, OverflowError, OSError):
            moment = read(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return None


_EPOCH = re.compile(r"(?<![\d.])(\d{10}|\d{13})(?![\d.])", re.ASCII)
_ISO = re.compile(
    r"\b(\d{4}-\d\d-\d\d)(?:T|,?\s(?:at\s)?)(\d\d:\d\d(?::\d\d)?)(?:\.\d+)?\s?(Z|[+-]\d\d:?\d\d)?"
    r"(?![\d:]|\s?[ap]\.?m\b)",
    re.ASCII | re.IGNORECASE,
)
_RELATIVE = re.compile(
    rf"\b(?:in|after|wait(?:\sfor)?)[:\s]\s?(?:about\s|~\s?)?"
    rf"({_AMOUNT.pattern}(?:,?\s?(?:and\s)?{_AMOUNT.pattern})*)",
    re.ASCII,
)
_BARE = re.compile(r"\bretry[-_ ]?after[-_ ]?(?:seconds|secs?|s)?\W{1,3}(\d{1,8})(?![\w.:/-])", re.ASCII)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = re.compile(
    r"\b(?:at|resets?|until|after|on|again|available):?\s(?:(?:on|at|again|from)\s){0,2}"
    rf"(?:(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?\s(?P<day>\d{{1,2}})(?:st|nd|rd|th)?"
    r"(?:\s(?P<year>\d{4})(?![\d:]))?\s(?:at\s)?)?"
    r"(?:(?P<hour>\d{1,2})(?:[:.](?P<minute>\d\d))?(?::\d\d)?\s?(?P<half>[ap])\.?m\b"
    r"|(?P<hour24>\d{1,2}):(?P<minute24>\d\d)(?::\d\d)?(?![\d:]))",
    re.ASCII,
)
"""A time of day, perhaps with a date before it, after a word that says so."""
_ZONE = re.compile(
    r"\(([a-z][a-z_]*(?:/[a-z0-9_+-]+){1,2})\)"
    r"|(?:\b(?:utc|gmt)|(?<=\d)\s?(?=[+-]\d\d:?\d\d\b))(?:([+-]\d{1,2})(?::?(\d\d))?)?(?![\w:])"
    r"|\b((?-i:[A-Z]{2,4}))\b",
    re.ASCII | re.IGNORECASE,
)
_HOURS = {
    **{"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7},
    **{"BST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3},
}
"""Hours from UTC, by the letters that people write for a zone."""
_AREAS = {"ET": "America/New_York", "CT": "America/Chicago", "PT": "America/Los_Angeles"}


def reset_time(text: str, now: float) -> float | None:
    """Return the instant that the text names, in seconds since the epoch; None if it names none.

    It is after `now`, or just before it if the text names it exactly.
    """
    plain = " ".join(text.split())
    for read in (_absolute, _relative, _clock):
        try:
            instant = read(plain, now)
        except (ValueError, OverflowError, OSError):
            continue  # an impossible date such as 31 February
        if instant is not None and now - JUST_OVER < instant <= now + FARTHEST:
            return instant
    return None


def _absolute(text: str, _now: float) -> float | None:
    if found := _EPOCH.search(text):
        number = float(found[1])
        return number / 1000 if len(found[1]) == 13 else number
    if found := _ISO.search(text):
        day, clock, offset = found.groups()
        moment = datetime.fromisoformat(f"{day}T{clock}{(offset or '').upper().replace('Z', '+00:00')}")
        return moment.timestamp() if offset else _instant(moment, _zone(text))
    return None


def _relative(text: str, now: float) -> float | None:
    text = text.lower()
    if found := _RELATIVE.search(text):
        parts = _AMOUNT.findall(found[1])
        return now + _add(parts) + (0.0 if any(unit.startswith("s") for _, unit in parts) else _WHOLE)
    return now + float(found[1]) if (found := _BARE.search(text)) else None


def _clock(text: str, now: float) -> float | None:
    zone = _zone(text)
    today = datetime.fromtimestamp(now, zone).date()
    for found in _CLOCK.finditer(" ".join(text.lower().replace(",", " ").split())):
        hour, minute = int(found["hour"] or found["hour24"]), int(found["minute"] or found["minute24"] or 0)
        if found["half"] and 1 <= hour <= 12:  # some write 15:00 PM
            hour = hour % 12 + (12 if found["half"] == "p" else 0)
        for day in _days(found, today):
            end = _instant(datetime.combine(day, time(hour, minute)), zone) + _WHOLE
            if end > now - (_PAST_DATE if found["month"] else _RECENT):
                return max(end, now + _WHOLE)
    return None


def _days(found: re.Match[str], today: date) -> Iterator[date]:
    """Yield the days the sentence may mean, nearest first; yesterday just after midnight."""
    if not found["month"]:
        yield from (today + timedelta(days=ahead) for ahead in (-1, 0, 1))
        return
    month, years = _MONTHS.index(found["month"]) + 1, range(today.year - 1, today.year + 2)
    for year in [int(found["year"])] if found["year"] else years:
        with suppress(ValueError):  # 29 February
            yield date(year, month, int(found["day"]))


def _instant(moment: datetime, zone: tzinfo | None) -> float:
    return (moment.replace(tzinfo=zone) if zone else moment).timestamp()


def _zone(text: str) -> tzinfo | None:
    """Return the zone the text names; None, which means local time, when it names none that is known here."""
    for found in _ZONE.finditer(text):
        area, hours, minutes, letters = found.groups()
        if letters in _HOURS:
            return timezone(timedelta(hours=_HOURS[letters]))
        if letters and letters not in _AREAS:
            continue
        if not area and not letters:
            sign = -1 if (hours or "").startswith("-") else 1
            return timezone(timedelta(hours=int(hours or 0), minutes=sign * int(minutes or 0)))
        with suppress(KeyError, ValueError, OSError):
            return ZoneInfo(area or _AREAS[letters])
    return None
