"""Axes for drawings, with round ticks and labels, and the small bars of cells with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from segue.domain.text import cut_text
from segue.parts.lab.reports.report import Cell, format_cell
from segue.parts.lab.reports.statistics import Difference, Mean, Proportion
from segue.reports.drawing import escape_text, wrap_svg

LETTER = 6.4
"""The approximate width of a letter of a label."""

_ROUND = (1, 2, 2.5, 5, 10)
_WIDE = 12
"""Values that differ by more than this factor are shown on a logarithmic axis."""


class Axis(Struct, frozen=True):
    """Maps values to places on the drawing."""

    low: float
    high: float
    begin: float
    end: float
    """The places of `low` and `high`."""
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Return where a value is; values beyond the ends are there."""
        low, high, value = self.low, self.high, min(max(value, self.low), self.high)
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.begin + (self.end - self.begin) * (value - low) / ((high - low) or 1.0)

    def ticks(self, most: int) -> list[float]:
        """Return round values on the axis, at most about so many."""
        if self.logarithmic:
            return list(_list_powers(self.low, self.high, most))
        step = _round_up((self.high - self.low) / max(1, most))
        first = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


def scale_amounts(values: Sequence[float], begin: float, end: float) -> Axis:
    """Return an axis for amounts: from zero, or logarithmic where they differ by far."""
    positive = [value for value in values if value > 0]
    if not positive:
        return Axis(0.0, 1.0, begin, end)
    low, high = min(positive), max(positive)
    if high > _WIDE * low:
        return Axis(low / 1.3, high * 1.3, begin, end, logarithmic=True)
    step = _round_up(high / 5)
    return Axis(0.0, math.ceil(high / step) * step, begin, end)


def draw_label(x: float, y: float, text: str, kind: str = "small", anchor: str = "start") -> str:
    """Draw a text."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape_text(text)}</text>'


def draw_line(x1: float, y1: float, x2: float, y2: float) -> str:
    """Draw a straight line."""
    return f'<line class="tick" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def draw_interval(x1: float, y1: float, x2: float, y2: float) -> str:
    """Draw a horizontal or vertical interval with its ends."""
    across, along = (3, 0) if x1 == x2 else (0, 3)
    ends = "".join(
        f"M{x - across:.1f} {y - along:.1f}L{x + across:.1f} {y + along:.1f}" for x, y in ((x1, y1), (x2, y2))
    )
    return f'<path class="interval" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}{ends}"/>'


def draw_point(x: float, y: float, size: float, is_open: bool) -> str:
    """Draw a point, filled unless it is open."""
    kind = "point open" if is_open else "point"
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{size}"/>'


def read_interval(cell: Cell) -> tuple[float, float] | None:
    """Return the interval of a rate or a mean; None if it has none."""
    if isinstance(cell, Proportion):
        return cell.interval
    if isinstance(cell, Mean) and cell.low is not None and cell.high is not None:
        return cell.low, cell.high
    return None


def shorten(text: str, width: float) -> str:
    """Shorten a label to a width of the drawing."""
    return cut_text(text, max(4, int(width / LETTER)))


def _round_up(value: float) -> float:
    power = 10 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(factor * power for factor in _ROUND if factor * power >= value * (1 - 1e-9))


def _list_powers(low: float, high: float, most: int) -> Iterator[float]:
    """Yield 1, 2, 5, 10, … between the ends; only powers of ten if there are too many."""
    found = [
        factor * 10.0**power
        for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for factor in (1, 2, 5)
        if low <= factor * 10.0**power <= high
    ]
    yield from found if len(found) <= most + 2 else found[:: -(-len(found) // most)]


_WIDTH = 140
_HEIGHT = 16


def draw_cell(cell: Cell, column: str, scale: float) -> str:
    """Draw the bar of a cell; empty if there is nothing to draw. `scale` is the end of the axis."""
    title = format_cell(cell, column)
    if isinstance(cell, Proportion) and cell.value is not None:
        scale = 1.0
    if isinstance(cell, Proportion | Mean) and cell.value is not None and scale > 0:
        low, high = read_interval(cell) or (cell.value, cell.value)
        return _draw_bar(cell.value / scale, low / scale, high / scale, title)
    if isinstance(cell, Difference) and scale > 0:
        return _draw_balance(cell, scale, title)
    return ""


def find_scale(cells: Iterable[Cell]) -> float:
    """Return the end of the axis shared by all means or differences of a column."""
    ends = [0.0]
    for cell in cells:
        if isinstance(cell, Mean):
            ends.append(max(cell.high or 0, cell.value or 0))
        elif isinstance(cell, Difference):
            ends += [abs(cell.low), abs(cell.high)]
    return max(ends)


def _draw_bar(value: float, low: float, high: float, title: str) -> str:
    track = f'<rect class="track" width="{_WIDTH}" height="{_HEIGHT}" rx="3"/>'
    bar = f'<rect class="fill" width="{_to_x(value):.1f}" height="{_HEIGHT}" rx="3"/>'
    return wrap_svg(_WIDTH, _HEIGHT, title, track + bar + _draw_whisker(_to_x(low), _to_x(high)))


def _draw_balance(found: Difference, scale: float, title: str) -> str:
    """Draw a bar to the left or to the right of zero."""

    def to_x(value: float) -> float:
        return _to_x((value / scale + 1) / 2)

    zero, end = _WIDTH / 2, to_x(found.value)
    kind = "fill" if found.is_significant else "fill faint"
    left, width = min(zero, end), max(abs(end - zero), 1)
    inside = (
        f'<rect class="track" width="{_WIDTH}" height="{_HEIGHT}" rx="3"/>'
        f'<rect class="{kind}" x="{left:.1f}" width="{width:.1f}" height="{_HEIGHT}"/>'
        f'<line class="zero" x1="{zero}" x2="{zero}" y1="0" y2="{_HEIGHT}"/>'
    )
    return wrap_svg(_WIDTH, _HEIGHT, title, inside + _draw_whisker(to_x(found.low), to_x(found.high)))


def _to_x(share: float) -> float:
    return max(0.0, min(1.0, share)) * _WIDTH


def _draw_whisker(low: float, high: float) -> str:
    middle = _HEIGHT / 2
    path = f"M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 4}v8M{high:.1f} {middle - 4}v8"
    return f'<path class="whisker" d="{path}"/>'
