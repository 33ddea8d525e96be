"""When a limit ends: reads the instant out of the sentence an agent prints about it.

This is the last resort, where no field says it (`domain/signals`): sentences leave out seconds and days.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

FARTHEST = 366 * 86400.0
"""Nobody's limit lasts longer; a later instant is a misreading."""
JUST_OVER = 60.0
"""Seconds for which the end of a limit may be past when we read of it: then the agent can work already."""

_WHOLE = 60.0
"""Seconds that a sentence leaves out when it names minutes: the limit ends at the end of the minute."""
_RECENT = 900.0
"""Seconds for which a time of day that is past means today, not tomorrow: the limit has just ended."""

_EPOCH = re.compile(r"(?<![\d.])(\d{10}|\d{13})(?![\d.])", re.ASCII)
_ISO = re.compile(
    r"\b(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:\.\d+)?\s?(Z|[+-]\d\d:?\d\d)?(?![\d:])", re.ASCII
)
_UNIT = r"(?:days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)"
_AMOUNT = rf"(\d{{1,9}}(?:\.\d{{1,6}})?)\s?({_UNIT})(?![a-z])"
_RELATIVE = re.compile(
    rf"\b(?:in|after|wait)\s((?:about\s)?{_AMOUNT}(?:,?\s?(?:and\s)?{_AMOUNT})*)", re.ASCII
)
_PART = re.compile(_AMOUNT, re.ASCII)
_CLOCK = re.compile(
    r"\b(?:at|resets?|until|after|on)\s(?:on\s|at\s)?"
    r"(?:(?P<weekday>mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s(?:at\s)?)?"
    r"(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s"
    r"(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s(?:(?P<year>\d{4}),?\s)?(?:at\s)?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?::\d\d)?\s?(?P<half>[ap]\.?m\b)?",
    re.ASCII,
)
_ZONE = re.compile(r"\(([a-z][a-z_]*(?:/[a-z0-9_+-]+){0,2})\)|\b(utc|gmt)\b", re.ASCII | re.IGNORECASE)
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


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
        moment = datetime.fromisoformat(f"{day}T{clock}{(offset or '').replace('Z', '+00:00')}")
        return moment.timestamp() if offset else _instant(moment, _zone(text))
    return None


def _relative(text: str, now: float) -> float | None:
    found = _RELATIVE.search(text.lower())
    if not found:
        return None
    parts = _PART.findall(found[1])
    rest = 0.0 if any(unit[0] == "s" for _, unit in parts) else _WHOLE
    return now + sum(float(amount) * _SECONDS[unit[0]] for amount, unit in parts) + rest


def _clock(text: str, now: float) -> float | None:
    zone = _zone(text)
    today = datetime.fromtimestamp(now, zone).date()
    for found in _CLOCK.finditer(text.lower()):
        clock = _time_of_day(found)
        if clock is None:
            continue
        for day in _days(found, today):
            end = _instant(datetime.combine(day, clock), zone) + _WHOLE
            if end > now - _RECENT:
                return max(end, now + _WHOLE)
    return None


def _time_of_day(found: re.Match[str]) -> time | None:
    hour, minute, half = int(found["hour"]), found["minute"], found["half"]
    if half:
        if not 1 <= hour <= 12:
            return None
        return time(hour % 12 + (12 if half[0] == "p" else 0), int(minute or 0))
    # a bare number is not a time: "resets after 3 attempts"
    return time(hour, int(minute)) if minute else None


def _days(found: re.Match[str], today: date) -> Iterator[date]:
    """Return the days the sentence may mean, nearest first; yesterday just after midnight."""
    if found["month"]:
        month, day = _MONTHS.index(found["month"]) + 1, int(found["day"])
        years = (int(found["year"]),) if found["year"] else (today.year, today.year + 1)
        yield from (date(year, month, day) for year in years)
        return
    for ahead in range(-1, 9):
        day_ahead = today + timedelta(days=ahead)
        if found["weekday"] in (None, _WEEKDAYS[day_ahead.weekday()]):
            yield day_ahead


def _instant(moment: datetime, zone: tzinfo | None) -> float:
    return (moment.replace(tzinfo=zone) if zone else moment).timestamp()


def _zone(text: str) -> tzinfo | None:
    """Return the zone the text names; None, which means local time, when it names none that is known here."""
    for found in _ZONE.finditer(text):
        name = found[1] or found[2]
        if name.upper() in ("UTC", "GMT"):
            return UTC
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            continue
    return None
