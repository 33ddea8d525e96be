"""Say until when something waits, in the same words everywhere: date, time, and how long that is."""

from __future__ import annotations

import time

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
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
    for name, size in _UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count} {name}" if count else "")
        if len(parts) == 2:
            break
    return f"in {' '.join(filter(None, parts))}"
