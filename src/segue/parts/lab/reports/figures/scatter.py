"""Draws cost against pass rate: a point per agent and model or arm, with both intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from segue.domain.amounts import format_quantity
from segue.parts.lab.reports.figures.axes import (
    LETTER,
    Axis,
    draw_interval,
    draw_label,
    draw_line,
    scale_amounts,
    shorten,
)
from segue.parts.lab.reports.formatting import format_cell, format_percent
from segue.parts.lab.reports.report import ReportTable
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
    parts += [_draw_point(point, point in best) for point in points]
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
        label = "$0" if value == 0 else format_quantity(value, "cost_usd").removesuffix(".00")
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
    if point.rate.interval is not None:
        low, high = point.rate.interval
        drawn += draw_interval(point.x, up.place(low), point.x, up.place(high))
    if point.cost.low is not None and point.cost.high is not None:
        low, high = across.place(max(point.cost.low, across.low)), across.place(point.cost.high)
        drawn += draw_interval(low, point.y, high, point.y)
    return drawn


def _draw_point(point: Point, is_best: bool) -> str:
    kind = "point" if is_best else "point open"
    return f'<circle class="{kind}" cx="{point.x:.1f}" cy="{point.y:.1f}" r="5.5"/>'


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
