"""Draws the figures of reports: cost against pass rate, rates below each other, and trends over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from segue.domain.amounts import format_quantity
from segue.parts.lab.reports.axes import (
    LETTER,
    Axis,
    draw_interval,
    draw_label,
    draw_line,
    draw_point,
    read_interval,
    scale_amounts,
    shorten,
)
from segue.parts.lab.reports.report import Cell, ReportTable, format_cell, format_heading, format_percent
from segue.parts.lab.reports.statistics import Mean, Proportion
from segue.reports.drawing import wrap_svg

Link = Callable[[str], str]
"""Where the name of a point leads."""

_TOP, _LEFT, _BOTTOM, _RIGHT = 32.0, 42.0, 46.0, 14.0
_LINE = 14.0
"""The height of a label."""

Box = tuple[float, float, float, float]
"""Left, top, right and bottom of what is drawn."""


class Point(Struct, frozen=True):
    """One setting: its place on the drawing, and what is known of it."""

    name: str
    x: float
    y: float
    rate: Proportion
    cost: Mean


def draw_scatter(table: ReportTable, width: float, link: Link) -> str:
    """Draw the settings that report a cost; empty if none does."""
    known = [
        (str(name), rate, cost)
        for name, rate, cost in (row[:3] for row in table.rows)
        if isinstance(rate, Proportion) and rate.value is not None
        if isinstance(cost, Mean) and cost.value is not None
    ]
    if not known:
        return ""
    height = 360.0 if width > 500 else 330.0
    ends = [end for _, _, cost in known for end in (cost.value, cost.low or None, cost.high) if end]
    across = scale_amounts(ends, _LEFT, width - _RIGHT)
    up = Axis(0.0, 1.0, height - _BOTTOM, _TOP)
    points = [
        Point(name, across.place(cost.value or 0.0), up.place(rate.value or 0.0), rate, cost)
        for name, rate, cost in known
    ]
    best = find_frontier(points)
    parts = [_draw_grid(across, up, width, height)]
    if len(points) > 2 and len(best) > 1:
        parts.append(_draw_frontier(best))
    parts += [_draw_whiskers(point, across, up) for point in points]
    parts += [draw_point(point.x, point.y, 5.5, point not in best) for point in points]
    parts += _draw_names(points, width, link)
    described = "; ".join(
        f"{one.name}: {format_cell(one.rate)}, {format_cell(one.cost, 'cost_usd')} a run" for one in points
    )
    return wrap_svg(width, height, "Cost against pass rate", "".join(parts), "figure", describe=described)


def find_frontier(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other point beats in both cost and pass rate, the cheapest first."""
    found: list[Point] = []
    for point in sorted(points, key=lambda point: (point.cost.value or 0.0, -(point.rate.value or 0.0))):
        if not found or (point.rate.value or 0.0) > (found[-1].rate.value or 0.0):
            found.append(point)
    return found


def _draw_grid(across: Axis, up: Axis, width: float, height: float) -> str:
    bottom = height - _BOTTOM
    parts = []
    for share in up.ticks(5):
        y = up.place(share)
        parts += [
            draw_line(_LEFT, y, width - _RIGHT, y),
            draw_label(_LEFT - 6, y + 4, format_percent(share), anchor="end"),
        ]
    for value in across.ticks(6 if width > 500 else 4):
        x = across.place(value)
        label = _format_tick(value, "cost_usd")
        parts += [draw_line(x, bottom, x, bottom + 4), draw_label(x, bottom + 17, label, anchor="middle")]
    scale = ", logarithmic" if across.logarithmic else ""
    parts.append(draw_label(width - _RIGHT, height - 6, f"cost per run{scale} →", "name", "end"))
    parts.append(draw_label(0, 12, "↑ runs that pass, %", "name"))
    return "".join(parts)


def _draw_frontier(best: Sequence[Point]) -> str:
    """Draw steps: at every cost the best rate that is known."""
    path = f"M{best[0].x:.1f} {best[0].y:.1f}"
    path += "".join(f"H{point.x:.1f}V{point.y:.1f}" for point in best[1:])
    return f'<path class="frontier" d="{path}"/>'


def _draw_whiskers(point: Point, across: Axis, up: Axis) -> str:
    drawn = ""
    if found := read_interval(point.rate):
        drawn += draw_interval(point.x, up.place(found[0]), point.x, up.place(found[1]))
    if found := read_interval(point.cost):
        drawn += draw_interval(across.place(found[0]), point.y, across.place(found[1]), point.y)
    return drawn


def _draw_names(points: Sequence[Point], width: float, link: Link) -> list[str]:
    """Draw the names beside their points, where they cover neither points nor each other."""
    taken = [(point.x - 7, point.y - 7, point.x + 7, point.y + 7) for point in points]
    parts = []
    for point in sorted(points, key=lambda point: point.y):
        text = shorten(point.name, width / 2)
        box = _find_room(point, len(text) * LETTER + 4, width, taken)
        taken.append(box)
        name = draw_label(box[0], box[3] - 3, text, "label")
        parts.append(f'<a href="{link(point.name)}">{name}</a>')
    return parts


def _find_room(point: Point, long: float, width: float, taken: Sequence[Box]) -> Box:
    """Find a place near the point: right or left of it, above or below, each time a little farther."""
    boxes = [
        (begin, y, begin + long, y + _LINE)
        for far in (0, 10, 20, 30)
        for y in (point.y - _LINE - 2 - far, point.y + 3 + far)
        for begin in (point.x + 8, point.x - 8 - long)
        if begin >= 0 and begin + long <= width
    ]
    free = (box for box in boxes if not any(_overlap(box, other) for other in taken))
    left = max(0.0, min(point.x + 8, width - long))
    return next(free, (left, point.y - _LINE, left + long, point.y))


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


_ROW, _ABOVE, _BELOW = 30.0, 8.0, 40.0


def draw_forest(table: ReportTable, width: float, link: Link) -> str:
    """Draw the first rate of every row of the table; empty if no row has cases."""
    first = table.rows[0] if table.rows else ()
    place = next((at for at, cell in enumerate(first) if isinstance(cell, Proportion)), 0)
    rates = [(str(row[0]), row[place]) for row in table.rows]
    rows = [(name, rate) for name, rate in rates if isinstance(rate, Proportion) and rate.n]
    if not rows:
        return ""
    narrow = width <= 500
    room = _ROW + (14 if narrow else 0)
    left, right = (14.0, 14.0) if narrow else (min(190.0, width / 4), 190.0)
    height = _ABOVE + room * len(rows) + _BELOW
    across = Axis(0.0, 1.0, left, width - right)
    parts = []
    for share in across.ticks(5):
        x = across.place(share)
        parts.append(draw_line(x, _ABOVE, x, height - _BELOW))
        parts.append(draw_label(x, height - _BELOW + 16, format_percent(share), anchor="middle"))
    parts.append(
        draw_label(across.end, height - 4, f"{format_heading(table.columns[place])}, %", "name", "end")
    )
    for number, (name, rate) in enumerate(rows):
        y = _ABOVE + room * (number + 0.5) + (8 if narrow else 0)
        parts.append(_draw_row(name, rate, y, across, narrow, link))
    described = "; ".join(f"{name}: {format_cell(rate)}" for name, rate in rows)
    return wrap_svg(width, height, table.title, "".join(parts), "figure", describe=described)


def _draw_row(name: str, rate: Proportion, y: float, across: Axis, narrow: bool, link: Link) -> str:
    x = across.place(rate.value or 0.0)
    drawn = ""
    if rate.interval is not None:
        low, high = rate.interval
        drawn += draw_interval(across.place(low), y, across.place(high), y)
    drawn += draw_point(x, y, 5, rate.interval is None)
    text = format_cell(rate)
    if narrow:
        label = draw_label(across.begin, y - 10, f"{shorten(name, 150)}: {text}", "label")
    else:
        label = draw_label(across.begin - 10, y + 4, shorten(name, across.begin - 14), "label", "end")
        drawn += draw_label(across.end + 10, y + 4, text, "small")
    return f'{drawn}<a href="{link(name)}">{label}</a>'


_SCALE, _MARGIN, _GAP = 46.0, 14.0, 34.0
_TITLE, _RATES, _COSTS, _PERIODS = 24.0, 150.0, 96.0, 40.0
_LABEL = 72.0
"""The room that the name of a period takes."""


class _Panel(Struct, frozen=True):
    """One of the two panels: its places across and up, and the column that it shows."""

    up: Axis
    places: tuple[float, ...]
    column: str
    cells: tuple[Cell, ...]


def draw_trend(table: ReportTable, width: float, link: Link) -> str:
    """Draw the periods from left to right; empty without any."""
    if not table.rows:
        return ""
    names = [str(row[0]) for row in table.rows]
    rates, costs = (tuple(row[place] for row in table.rows) for place in (2, 3))
    step = (width - _SCALE - _MARGIN) / len(names)
    places = tuple(_SCALE + step * (number + 0.5) for number in range(len(names)))
    lower = _TITLE + _RATES + _GAP
    panels = [_Panel(Axis(0.0, 1.0, _TITLE + _RATES, _TITLE), places, "passed", rates)]
    known = [cost for cost in costs if isinstance(cost, Mean) and cost.value is not None]
    if known:
        ends = [end for cost in known for end in (cost.value, cost.low or None, cost.high) if end]
        panels.append(_Panel(scale_amounts(ends, lower + _COSTS, lower), places, "cost_usd", costs))
    base = lower + _COSTS if known else _TITLE + _RATES
    parts = [part for panel in panels for part in _draw_panel(panel, width)]
    parts += _label_periods(names, places, rates, base, step, link)
    described = "; ".join(
        f"{name}: {format_cell(rate)}, {format_cell(cost, 'cost_usd')}"
        for name, rate, cost in zip(names, rates, costs, strict=True)
    )
    return wrap_svg(width, base + _PERIODS, "Trend", "".join(parts), "figure", describe=described)


def _draw_panel(panel: _Panel, width: float) -> Iterator[str]:
    title = "runs that pass, %" if panel.column == "passed" else "cost per run"
    if panel.up.logarithmic:
        title += ", logarithmic"
    yield draw_label(_SCALE, panel.up.end - 9, title, "name")
    for value in panel.up.ticks(4 if panel.column == "passed" else 3):
        y = panel.up.place(value)
        yield draw_line(_SCALE, y, width - _MARGIN, y)
        yield draw_label(_SCALE - 6, y + 4, _format_tick(value, panel.column), anchor="end")
    shown = [
        (x, panel.up.place(cell.value), read_interval(cell))
        for x, cell in zip(panel.places, panel.cells, strict=True)
        if isinstance(cell, Proportion | Mean) and cell.value is not None
    ]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in shown)
    yield f'<path class="course" d="M{path}"/>'
    for x, y, found in shown:
        if found is not None:
            yield draw_interval(x, panel.up.place(found[0]), x, panel.up.place(found[1]))
        yield draw_point(x, y, 4.5, found is None)


def _format_tick(value: float, column: str) -> str:
    if column == "passed":
        return format_percent(value)
    return "$0" if value == 0 else format_quantity(value, column).removesuffix(".00")


def _label_periods(
    names: Sequence[str],
    places: Sequence[float],
    rates: Sequence[Cell],
    base: float,
    step: float,
    link: Link,
) -> Iterator[str]:
    """Label so many periods as there is room for, with the number of their runs."""
    every = max(1, math.ceil(_LABEL / step))
    for number, (name, x, rate) in enumerate(zip(names, places, rates, strict=True)):
        if number % every == 0:
            runs = len(rate.runs) if isinstance(rate, Proportion) else 0
            count = draw_label(x, base + 32, f"{runs} runs", "small", "middle")
            yield f'<a href="{link(name)}">{draw_label(x, base + 17, name, "small", "middle")}</a>{count}'
