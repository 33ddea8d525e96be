"""When a usage limit ends: read from the fields of an error, else from the sentence an agent prints about it.

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
"""Nobody's limit lasts longer; a later instant is a misreading."""
JUST_OVER = 60.0
"""Seconds for which the end of a limit may be past when we read of it: then the agent can work already."""

_WHOLE = 60.0
"""Seconds that a sentence leaves out when it names minutes: the limit ends at the end of the minute."""
_RECENT = 900.0
"""Seconds for which a time of day that is past means today, not tomorrow: the limit has just ended."""
_PAST_DATE = 7 * 86400.0
"""Seconds for which a date without a year that is past means this year, not the next."""

_EPOCH = re.compile(r"(?<![\d.])(\d{10}|\d{13})(?![\d.])", re.ASCII)
_ISO = re.compile(
    r"\b(\d{4}-\d\d-\d\d)(?:T|,?\s(?:at\s)?)(\d\d:\d\d(?::\d\d)?)(?:\.\d+)?\s?(Z|[+-]\d\d:?\d\d)?"
    r"(?![\d:]|\s?[ap]\.?m\b)",
    re.ASCII | re.IGNORECASE,
)
_UNIT = r"(?:months?|weeks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)"
_AMOUNT = rf"(\d{{1,9}}(?:\.\d{{1,9}})?|an?\b|one\b)\s?({_UNIT})(?![a-z])"
_ABOUT = r"(?:(?:about|around|approximately|another)\s|~\s?)?"
_RELATIVE = re.compile(
    rf"\b(?:in|after|wait(?:\sfor)?)[:\s]\s?({_ABOUT}{_AMOUNT}(?:,?\s?(?:and\s)?{_AMOUNT})*)", re.ASCII
)
_AMOUNT_OF_UNIT = re.compile(_AMOUNT, re.ASCII)
_COUNTDOWN = re.compile(r"\bin\s(\d{1,3}):(\d\d):(\d\d)\b", re.ASCII)
_BARE = re.compile(r"\bretry[-_ ]?after[-_ ]?(?:seconds|secs?|s)?\W{1,3}(\d{1,8})(?![\w.:/-])", re.ASCII)
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH, _NTH = rf"(?:{'|'.join(_MONTHS)})", r"(?:st|nd|rd|th)?"
_DATE = (
    rf"(?:(?P<weekday>{'|'.join(_WEEKDAYS)})(?:s|nes|rs|ur)?(?:day)?\b\.?\s?)?"
    r"(?:(?:(?P<near>today|tonight|tomorrow)|(?P<iso>\d{4}-\d\d-\d\d)"
    r"|(?P<numbers>\d{1,2}/\d{1,2}/\d{4}|\d{1,2}\.\d{1,2}\.\d{4})"
    rf"|(?:(?P<month>{_MONTH})[a-z]*\.?\s(?P<day>\d{{1,2}}){_NTH}(?![\d:])"
    rf"|(?P<day_first>\d{{1,2}}){_NTH}\s(?:of\s)?(?P<month_after>{_MONTH})[a-z]*\.?)"
    r"(?:\s(?P<year>\d{4})(?![\d:]))?)(?![\w/])\s?)?"
)
_TIME = (
    r"(?:(?P<hour>\d{1,2})(?:[:.](?P<minute>\d\d))?(?::\d\d)?\s?(?P<half>[ap])\.?m\b"
    r"|(?P<hour24>\d{1,2}):(?P<minute24>\d\d)(?::\d\d)?(?![\d:])|(?P<word>noon|midnight)\b)?"
)
_CLOCK = re.compile(
    r"\b(?:at|resets?|until|after|on|again|available):?\s(?:(?:on|at|again|from)\s){0,2}"
    rf"{_DATE}(?:(?:at|from)\s)?{_TIME}",
    re.ASCII,
)
"""A date, a time of day, or both, after a word that says so."""
_ZONE = re.compile(
    r"\(([a-z][a-z_]*(?:/[a-z0-9_+-]+){1,2})\)"
    r"|(?:\b(?:utc|gmt)|(?<=\d)\s?(?=[+-]\d\d:?\d\d\b))(?:([+-]\d{1,2})(?::?(\d\d))?)?(?![\w:])"
    r"|\b((?-i:[A-Z]{2,4}))\b",
    re.ASCII | re.IGNORECASE,
)
_HOURS = {
    **{"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7},
    **{"WET": 0, "BST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3, "SGT": 8, "JST": 9, "KST": 9},
    **{"AEST": 10, "AEDT": 11},
}
"""Hours from UTC, by the letters that people write for a zone."""
_AREAS = {
    "ET": "America/New_York",
    "CT": "America/Chicago",
    "MT": "America/Denver",
    "PT": "America/Los_Angeles",
}
_UNIT_SECONDS = {"mo": 30 * 86400, "w": 7 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1}


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
    if found := _COUNTDOWN.search(text):
        return now + int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3])
    if found := _RELATIVE.search(text):
        parts = [
            (float(amount) if amount[0].isdigit() else 1.0, unit[:2] if unit[:2] == "mo" else unit[0])
            for amount, unit in _AMOUNT_OF_UNIT.findall(found[1])
        ]
        rest = 0.0 if any(unit == "s" for _, unit in parts) else _WHOLE
        return now + sum(amount * _UNIT_SECONDS[unit] for amount, unit in parts) + rest
    return now + float(found[1]) if (found := _BARE.search(text)) else None


def _clock(text: str, now: float) -> float | None:
    zone = _zone(text)
    today = datetime.fromtimestamp(now, zone).date()
    for found in _CLOCK.finditer(" ".join(text.lower().replace(",", " ").split())):
        clock = _time_of_day(found)
        for day in _days(found, today, clock is not None):
            end = _instant(datetime.combine(day, clock or time()), zone) + _WHOLE
            if end > now - (_PAST_DATE if found["month"] or found["month_after"] else _RECENT):
                return max(end, now + _WHOLE)
    return None


def _time_of_day(found: re.Match[str]) -> time | None:
    if found["word"]:
        return time(12 if found["word"] == "noon" else 0)
    if found["half"]:
        hour = int(found["hour"])
        if 1 <= hour <= 12:  # some write 15:00 PM
            hour = hour % 12 + (12 if found["half"] == "p" else 0)
        return time(hour, int(found["minute"] or 0))
    # a bare number is not a time: "resets after 3 attempts"
    return time(int(found["hour24"]), int(found["minute24"])) if found["minute24"] else None


def _days(found: re.Match[str], today: date, has_time: bool) -> Iterator[date]:
    """Yield the days the sentence may mean, nearest first; yesterday just after midnight.

    Without a time, a day that has begun means the next one.
    """
    if found["month"] or found["month_after"]:
        month = _MONTHS.index(found["month"] or found["month_after"]) + 1
        day = int(found["day"] or found["day_first"])
        years = (int(found["year"]),) if found["year"] else range(today.year - 1, today.year + 2)
        for year in years:
            with suppress(ValueError):  # 29 February
                named = date(year, month, day)
                yield named if has_time or named != today else named + timedelta(days=1)
    elif found["iso"]:
        yield date.fromisoformat(found["iso"])
    elif found["numbers"]:
        first, second, year = (int(part) for part in re.split(r"[./]", found["numbers"]))
        # Slashes are American, if that is a date at all; dots are not.
        swap = "." in found["numbers"] or first > 12
        yield date(year, second, first) if swap else date(year, first, second)
    elif found["near"]:
        yield today + timedelta(days=found["near"] == "tomorrow")
    elif has_time or found["weekday"]:
        for ahead in range(-1, 9):
            day_ahead = today + timedelta(days=ahead)
            if found["weekday"] in (None, _WEEKDAYS[day_ahead.weekday()]):
                yield day_ahead


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
        try:
            return ZoneInfo(area or _AREAS[letters])
        except (KeyError, ValueError, OSError):
            continue
    return None


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
_DURATION = re.compile(rf"(?:p?t?(?:{_PART}[\s,]*)+)", re.ASCII)
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_PARTS = re.compile(_PART, re.ASCII)
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
