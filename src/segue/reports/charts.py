"""Small charts as SVG: bars with the whiskers of their intervals, readable without a script."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from segue.reports.report import Cell
from segue.reports.statistics import Difference, Mean, Rate
from segue.reports.wording import wording

_WIDTH = 140
_HEIGHT = 16


def chart(cell: Cell, column: str, scale: float) -> str:
    """The bar of a cell, or nothing where there is nothing to draw; `scale` is the end of the axis."""
    title = wording(cell, column)
    if isinstance(cell, Rate) and cell.value is not None:
        return _bar(cell.value, *cell.interval, title)
    if isinstance(cell, Mean) and cell.value is not None and scale > 0:
        low, high = (
            (cell.value, cell.value) if cell.low is None or cell.high is None else (cell.low, cell.high)
        )
        return _bar(cell.value / scale, low / scale, high / scale, title)
    if isinstance(cell, Difference) and scale > 0:
        return _balance(cell, scale, title)
    return ""


def scale_of(cells: Iterable[Cell]) -> float:
    """Where the axis ends that all averages or differences of a column share."""
    ends = [0.0]
    for cell in cells:
        if isinstance(cell, Mean):
            ends.append(max(cell.high or 0, cell.value or 0))
        elif isinstance(cell, Difference):
            ends += [abs(cell.low), abs(cell.high)]
    return max(ends)


def svg(width: float, height: float, label: str, inside: str, kind: str = "bar") -> str:
    """A drawing with a text for those who cannot see it."""
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{clean(label)}">'
        f"<title>{clean(label)}</title>{inside}</svg>"
    )


def clean(text: str) -> str:
    """Text of anybody, safe inside of a drawing: escaped, and without what XML forbids."""
    return escape("".join(char if char.isprintable() else " " for char in text))


def _bar(value: float, low: float, high: float, title: str) -> str:
    track = f'<rect class="track" width="{_WIDTH}" height="{_HEIGHT}" rx="3"/>'
    bar = f'<rect class="fill" width="{_x(value):.1f}" height="{_HEIGHT}" rx="3"/>'
    return svg(_WIDTH, _HEIGHT, title, track + bar + _whisker(_x(low), _x(high)))


def _balance(found: Difference, scale: float, title: str) -> str:
    """A bar to the left or to the right of zero."""

    def place(value: float) -> float:
        return _x((value / scale + 1) / 2)

    zero, end = _WIDTH / 2, place(found.value)
    kind = "fill" if found.shown else "fill faint"
    left, width = min(zero, end), max(abs(end - zero), 1)
    inside = (
        f'<rect class="track" width="{_WIDTH}" height="{_HEIGHT}" rx="3"/>'
        f'<rect class="{kind}" x="{left:.1f}" width="{width:.1f}" height="{_HEIGHT}"/>'
        f'<line class="zero" x1="{zero}" x2="{zero}" y1="0" y2="{_HEIGHT}"/>'
    )
    return svg(_WIDTH, _HEIGHT, title, inside + _whisker(place(found.low), place(found.high)))


def _x(share: float) -> float:
    return max(0.0, min(1.0, share)) * _WIDTH


def _whisker(low: float, high: float) -> str:
    middle = _HEIGHT / 2
    path = f"M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 4}v8M{high:.1f} {middle - 4}v8"
    return f'<path class="whisker" d="{path}"/>'
