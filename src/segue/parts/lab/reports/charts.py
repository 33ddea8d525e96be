"""Draws small SVG charts: bars with the whiskers of their intervals, without a script."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from segue.parts.lab.reports.formatting import format_cell
from segue.parts.lab.reports.report import Cell
from segue.parts.lab.reports.statistics import Difference, Mean, Proportion

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


def wrap_svg(
    width: float,
    height: float,
    label: str,
    inside: str,
    kind: str = "bar",
    fixed: bool = False,
    describe: str = "",
) -> str:
    """Wrap SVG elements into a drawing with a label for screen readers; `fixed`: it is not scaled.

    `describe` says what the drawing shows; such a drawing is a group, so that links in it can be reached.
    """
    safe = escape_text(label)
    if describe:
        head = f'class="{kind}" viewBox="0 0 {width:g} {height:g}" role="group" aria-label="{safe}"'
        return f"<svg {head}><title>{safe}</title><desc>{escape_text(describe)}</desc>{inside}</svg>"
    size = f'width="{width:g}" height="{height:g}" ' if fixed else ""
    head = f'{size}class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{safe}"'
    return f"<svg {head}><title>{safe}</title>{inside}</svg>"


def escape_text(text: str) -> str:
    """Escape untrusted text for a drawing, and remove what XML forbids."""
    return escape("".join(char if char.isprintable() else " " for char in text))


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
