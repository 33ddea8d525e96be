"""Formats durations, quantities and lists the same way everywhere."""

from __future__ import annotations

from collections.abc import Sequence


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


def format_count(number: int, what: str) -> str:
    """Format a number of things: `1 task`, `3 tasks`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def list_some(names: Sequence[str], most: int) -> str:
    """Return the first names, and how many more there are: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
