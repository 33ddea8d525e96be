"""Draws how pass rate and cost change over time: two panels above each other, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct

from segue.domain.amounts import format_quantity
from segue.parts.lab.reports.figures.axes import Axis, draw_interval, draw_label, draw_line, scale_amounts
from segue.parts.lab.reports.figures.scatter import Link
from segue.parts.lab.reports.formatting import format_cell, format_percent
from segue.parts.lab.reports.report import Cell, ReportTable
from segue.parts.lab.reports.statistics import Mean, Proportion
from segue.reports.drawing import wrap_svg

_LEFT, _RIGHT, _GAP = 46.0, 14.0, 34.0
_TOP, _RATES, _COSTS, _BOTTOM = 24.0, 150.0, 96.0, 40.0
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
    step = (width - _LEFT - _RIGHT) / len(names)
    places = tuple(_LEFT + step * (number + 0.5) for number in range(len(names)))
    lower = _TOP + _RATES + _GAP
    panels = [_Panel(Axis(0.0, 1.0, _TOP + _RATES, _TOP), places, "passed", rates)]
    known = [cost for cost in costs if isinstance(cost, Mean) and cost.value is not None]
    if known:
        ends = [end for cost in known for end in (cost.value, cost.low or None, cost.high) if end]
        panels.append(_Panel(scale_amounts(ends, lower + _COSTS, lower), places, "cost_usd", costs))
    base = lower + _COSTS if known else _TOP + _RATES
    parts = [part for panel in panels for part in _draw_panel(panel, width)]
    parts += _label_periods(names, places, rates, base, step, link)
    described = "; ".join(
        f"{name}: {format_cell(rate)}, {format_cell(cost, 'cost_usd')}"
        for name, rate, cost in zip(names, rates, costs, strict=True)
    )
    return wrap_svg(width, base + _BOTTOM, "Trend", "".join(parts), "figure", describe=described)


def _draw_panel(panel: _Panel, width: float) -> Iterator[str]:
    title = "runs that pass, %" if panel.column == "passed" else "cost per run"
    if panel.up.logarithmic:
        title += ", logarithmic"
    yield draw_label(_LEFT, panel.up.end - 9, title, "name")
    for value in panel.up.ticks(4 if panel.column == "passed" else 3):
        y = panel.up.place(value)
        yield draw_line(_LEFT, y, width - _RIGHT, y)
        yield draw_label(_LEFT - 6, y + 4, _format_tick(value, panel.column), anchor="end")
    shown = [(x, *found) for x, cell in zip(panel.places, panel.cells, strict=True) for found in _read(cell)]
    path = "L".join(f"{x:.1f} {panel.up.place(value):.1f}" for x, value, *_ in shown)
    yield f'<path class="course" d="M{path}"/>'
    for x, value, low, high in shown:
        y = panel.up.place(value)
        if low is not None and high is not None:
            yield draw_interval(x, panel.up.place(max(low, panel.up.low)), x, panel.up.place(high))
        kind = "point" if low is not None else "point open"
        yield f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'


def _read(cell: Cell) -> Iterator[tuple[float, float | None, float | None]]:
    """Yield the value of a cell and its interval, if it has a value."""
    if isinstance(cell, Proportion) and cell.value is not None:
        yield cell.value, *(cell.interval or (None, None))
    elif isinstance(cell, Mean) and cell.value is not None:
        yield cell.value, cell.low, cell.high


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
