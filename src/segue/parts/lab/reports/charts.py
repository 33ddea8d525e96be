"""Draws small SVG charts: bars with the whiskers of their intervals, without a script."""

from __future__ import annotations

from collections.abc import Iterable

from segue.parts.lab.reports.formatting import format_cell
from segue.parts.lab.reports.report import Cell
from segue.parts.lab.reports.statistics import Difference, Mean, Proportion
from segue.reports.drawing import wrap_svg

_WIDTH = 140
_HEIGHT = 16


def draw_cell(cell: Cell, column: str, scale: float) -> str:
    """Draw the bar of a cell; empty if there is nothing to draw. `scale` is the end of the axis."""
    title = format_cell(cell, column)
    if isinstance(cell, Proportion) and cell.value is not None:
        return _draw_bar(cell.value, *(cell.interval or (cell.value, cell.value)), title)
    if isinstance(cell, Mean) and cell.value is not None and scale > 0:
        low, high = (
            (cell.value, cell.value) if cell.low is None or cell.high is None else (cell.low, cell.high)
        )
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
