"""Formats durations, instants, quantities and lists, and parses durations, the same way everywhere."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence

_DURATION = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*([mhdw])")
_ROUGHLY = ((120, 1, "s"), (10_800, 60, "min"))
"""Seconds up to which a rough duration has a unit of this size."""
_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}


def format_quantity(value: float, measure: str) -> str:
    """Format an amount in the unit of its measure."""
    if measure == "cost_usd":
        return f"${value:,.2f}" if abs(value) >= 0.1 or value == 0 else f"${value:.4f}"
    if measure == "seconds":
        return format_duration(value)
    if abs(value) >= 10_000:
        return f"{value / 1000:,.0f}k"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def format_duration(seconds: float) -> str:
    """Format a duration: `4.2s`, `3m05s`, `2h10m`."""
    if abs(seconds) < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(abs(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    sign = "-" if seconds < 0 else ""
    return f"{sign}{hours}h{minutes:02d}m" if hours else f"{sign}{minutes}m{rest:02d}s"


def format_between(low: float, high: float) -> str:
    """Format a duration that is only known roughly: `40–80 s`, `2–7 min`, `3–5 h`."""
    size, unit = next(((size, unit) for most, size, unit in _ROUGHLY if high < most), (3600, "h"))
    least, most = int(low / size), -int(-high // size)
    return f"{least}–{most} {unit}" if least < most else f"{most} {unit}"


def parse_duration(text: str) -> float | None:
    """Parse `30m`, `12h`, `7d` or `2w` into seconds; None if it is something else."""
    found = _DURATION.fullmatch(text.strip())
    return float(found[1]) * _UNITS[found[2]] if found else None


def format_count(number: int, what: str) -> str:
    """Format a number of things: `1 task`, `3 tasks`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def list_some(names: Sequence[str], most: int) -> str:
    """Return the first names, and how many more there are: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def list_all(names: Iterable[str], most: int) -> str:
    """Return the names as in a sentence, `a, b and c`; of more than `most`, the first, and how many more."""
    listed = list(names)
    if len(listed) > most:
        return list_some(listed, most)
    return " and ".join(filter(None, (", ".join(listed[:-1]), *listed[-1:])))


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LARGEST_FIRST = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_NEAR = 3600.0


def describe_until(until: float, now: float | None = None) -> str:
    """Return `until Tue 18 Nov 09:33, in 2 d 4 h`; the time has seconds if it is near."""
    now = time.time() if now is None else now
    moment, seconds = time.localtime(until), until - now
    year = "" if moment.tm_year == time.localtime(now).tm_year else f" {moment.tm_year}"
    clock = time.strftime("%H:%M:%S" if seconds < _NEAR else "%H:%M", moment)
    date = f"{_DAYS[moment.tm_wday]} {moment.tm_mday} {_MONTHS[moment.tm_mon - 1]}{year}"
    return f"until {date} {clock}, {_describe_distance(seconds)}"


def _describe_distance(seconds: float) -> str:
    """Return `in 2 d 4 h`: the two largest units."""
    left = round(seconds)
    if left <= 0:
        return "now"
    parts: list[str] = []
    for name, size in _LARGEST_FIRST:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count} {name}" if count else "")
        if len(parts) == 2:
            break
    return f"in {' '.join(filter(None, parts))}"
