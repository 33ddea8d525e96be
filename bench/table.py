"""The table that all figures end up in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

HEADINGS = ("what", "ours", "yardstick", "difference", "target", "met")


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: what was measured, and what it is held against."""

    what: str
    ours: str
    yardstick: str
    difference: str
    target: str = ""
    met: bool | None = None
    """None when there is no target, or when it could not be measured here."""

    def cells(self) -> tuple[str, ...]:
        """The texts of the row."""
        met = {True: "yes", False: "NO", None: ""}[self.met]
        return (self.what, self.ours, self.yardstick, self.difference, self.target, met)


def table(figures: Sequence[Figure]) -> str:
    """The figures as a Markdown table with aligned columns."""
    rows = [HEADINGS, *(figure.cells() for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    lines.insert(1, "-|-".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" if "-|-" not in line else f"|-{line}-|" for line in lines)


def more(unit: Callable[[float], str], value: float) -> str:
    """A difference with its sign."""
    return f"{'+' if value >= 0 else '−'}{unit(abs(value))}"


def seconds(value: float) -> str:
    """A time of the order of a second."""
    return f"{value:.3f} s"


def milliseconds(value: float) -> str:
    """A time of the order of a millisecond, given in milliseconds."""
    return f"{value:.2f} ms"


def megabytes(value: float) -> str:
    """A size, given in bytes."""
    return f"{value / 1e6:.0f} MB"
