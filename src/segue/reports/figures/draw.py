"""Knows which tables have a figure, and draws it for wide and for narrow windows."""

from __future__ import annotations

from collections.abc import Callable

from segue.reports.figures.forest import draw_forest
from segue.reports.figures.scatter import Link, draw_scatter
from segue.reports.figures.trend import draw_trend
from segue.reports.report import ReportTable

_DRAWINGS: dict[str, Callable[[ReportTable, float, Link], str]] = {
    "by_setting": draw_scatter,
    "trend": draw_trend,
    "actions": draw_forest,
    "randomised_actions": draw_forest,
    "arms": draw_forest,
}
"""How tables are drawn, by their name."""

_WIDTHS = {"broad": 760.0, "slim": 360.0}
"""The widths of drawings: one for each kind of window, because letters must not shrink with it."""


def draw_figure(table: ReportTable, link: Link) -> str:
    """Draw the figure of a table, once per kind of window; empty if it has none, or nothing to draw."""
    draw = _DRAWINGS.get(table.name)
    drawn = {kind: draw(table, width, link) for kind, width in _WIDTHS.items()} if draw else {}
    return "".join(f'<div class="{kind}">{found}</div>' for kind, found in drawn.items() if found)
