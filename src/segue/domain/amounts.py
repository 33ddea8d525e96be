"""Formats durations, quantities and lists, and parses durations, the same way everywhere."""

from __future__ import annotations

import re
from collections.abc import Sequence

_DURATION = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*([mhdw])")
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
