"""Draws rates below each other: a dot with its interval per row, on one scale from 0 to 100 %."""

from __future__ import annotations

from segue.parts.lab.reports.figures.axes import Axis, draw_interval, draw_label, draw_line, shorten
from segue.parts.lab.reports.figures.scatter import Link
from segue.parts.lab.reports.formatting import format_cell, format_heading, format_percent
from segue.parts.lab.reports.report import ReportTable
from segue.parts.lab.reports.statistics import Proportion
from segue.reports.drawing import wrap_svg

_ROW, _TOP, _BOTTOM = 30.0, 8.0, 40.0


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
    height = _TOP + room * len(rows) + _BOTTOM
    across = Axis(0.0, 1.0, left, width - right)
    parts = []
    for share in across.ticks(5):
        x = across.place(share)
        parts.append(draw_line(x, _TOP, x, height - _BOTTOM))
        parts.append(draw_label(x, height - _BOTTOM + 16, format_percent(share), anchor="middle"))
    parts.append(
        draw_label(across.end, height - 4, f"{format_heading(table.columns[place])}, %", "name", "end")
    )
    for number, (name, rate) in enumerate(rows):
        y = _TOP + room * (number + 0.5) + (8 if narrow else 0)
        parts.append(_draw_row(name, rate, y, across, narrow, link))
    described = "; ".join(f"{name}: {format_cell(rate)}" for name, rate in rows)
    return wrap_svg(width, height, table.title, "".join(parts), "figure", describe=described)


def _draw_row(name: str, rate: Proportion, y: float, across: Axis, narrow: bool, link: Link) -> str:
    x = across.place(rate.value or 0.0)
    drawn = ""
    if rate.interval is not None:
        low, high = rate.interval
        drawn += draw_interval(across.place(low), y, across.place(high), y)
    kind = "point" if rate.interval is not None else "point open"
    drawn += f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
    text = format_cell(rate)
    if narrow:
        label = draw_label(across.begin, y - 10, f"{shorten(name, 150)}: {text}", "label")
    else:
        label = draw_label(across.begin - 10, y + 4, shorten(name, across.begin - 14), "label", "end")
        drawn += draw_label(across.end + 10, y + 4, text, "small")
    return f'{drawn}<a href="{link(name)}">{label}</a>'
