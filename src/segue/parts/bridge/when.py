"""Parses the time of a reminder: an instant with its zone, `in 30m`, `1h30m`, `tomorrow 9:00`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

FARTHEST = timedelta(days=366)

_AMOUNT = re.compile(
    r"(\d{1,6}(?:\.\d{1,3})?)\s*(weeks?|w|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)"
)
_DURATION = re.compile(rf"(?:in\s+)?{_AMOUNT.pattern}(?:\s*(?:and\s+)?{_AMOUNT.pattern})*", re.ASCII)
_ISO = re.compile(
    r"\d{4}-\d\d-\d\d[t ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?P<zone>.*)", re.ASCII | re.IGNORECASE
)
_DAY = re.compile(
    r"(?P<day>today|tomorrow)(?:\s+at)?\s+(?P<hour>\d{1,2}):(?P<minute>\d\d)(?:\s+(?P<zone>\S+))?",
    re.ASCII | re.IGNORECASE,
)
_OFFSET = re.compile(
    r"(?:utc|gmt)?(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)", re.ASCII | re.IGNORECASE
)
_SECONDS = {"w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1}


def parse_time(said: str, now: datetime, zone: tzinfo) -> datetime:
    """Return the instant, or raise ValueError with the reason. `zone` is used where the text names none."""
    text = " ".join(said.split())
    if re.fullmatch(r"[\d.,:]+", text):
        raise ValueError("a bare number is not a time: write `in 30m` or an instant with its zone")
    try:
        when = _parse_duration(text.lower(), now) or _parse_instant(text) or _parse_day(text, now, zone)
    except OverflowError:
        when = now + 2 * FARTHEST
    if when is None:
        raise ValueError("not a time: write `in 30m`, `1h30m`, `tomorrow 9:00` or 2030-01-31T09:00:00Z")
    if when <= now:
        raise ValueError("that is in the past")
    if when > now + FARTHEST:
        raise ValueError("that is more than a year away")
    return when


def _parse_duration(text: str, now: datetime) -> datetime | None:
    if not _DURATION.fullmatch(text):
        return None
    parts = _AMOUNT.findall(text)
    return now + timedelta(seconds=sum(float(amount) * _SECONDS[unit[0]] for amount, unit in parts))


def _parse_instant(text: str) -> datetime | None:
    found = _ISO.fullmatch(text)
    if not found:
        return None
    stated = found["zone"].strip()
    if not stated:
        raise ValueError("the instant has no zone: add Z or +02:00")
    moment = text[: found.start("zone")].replace(" ", "T").upper()
    return datetime.fromisoformat(moment).replace(tzinfo=_parse_zone(stated)).astimezone(UTC)


def _parse_day(text: str, now: datetime, zone: tzinfo) -> datetime | None:
    found = _DAY.fullmatch(text)
    if not found:
        return None
    there = _parse_zone(found["zone"]) if found["zone"] else zone
    day = now.astimezone(there).date() + timedelta(days=found["day"].lower() == "tomorrow")
    clock = time(int(found["hour"]), int(found["minute"]))
    return datetime.combine(day, clock, there).astimezone(UTC)


def _parse_zone(stated: str) -> tzinfo:
    if stated.upper() in ("Z", "UTC", "GMT"):
        return UTC
    if found := _OFFSET.fullmatch(stated):
        hours, minutes = int(found["hours"]), int(found["minutes"])
        if hours > 23 or minutes > 59:
            raise ValueError(f"there is no time zone {stated}")
        offset = timedelta(hours=hours, minutes=minutes)
        return timezone(-offset if found["sign"] == "-" else offset)
    try:
        return ZoneInfo(stated)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"there is no time zone {stated}") from None
