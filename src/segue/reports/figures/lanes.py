"""Draws which lane worked on which task over time: a row per lane, a bar per stretch of work."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from segue.domain.amounts import format_duration
from segue.domain.text import cut_text
from segue.reports.charts import escape_text, wrap_svg
from segue.reports.figures.timeline import draw_axis
from segue.view.work import Stretch

MOST_BARS = 2000
"""Bars of one chart; the first ones are left out beyond that."""
_WIDTH = 1000
_NAMES = 52
"""The width of the names of the lanes."""
_HEAD = 18
_ROW = 26
_BAR = 20
_THIN = 1.5
_LETTER = 6.6


def draw_lanes(run: str, stretches: Sequence[Stretch], now: int, link: Callable[[str], str]) -> str:
    """Draw the lanes; `link` returns the address of a task. Time in which nobody worked is left out."""
    shown = list(stretches)[-MOST_BARS:]
    if not shown:
        return ""
    clock = WorkingTime(shown, now)
    lanes = sorted({stretch.lane for stretch in shown})
    tops = {lane: _HEAD + row * _ROW for row, lane in enumerate(lanes)}
    height = _HEAD + _ROW * len(lanes)
    axis = f'<g transform="translate({_NAMES} 0)">{draw_axis(clock.seconds, height)}</g>'
    names = "".join(
        f'<text class="small" x="2" y="{top + 14}">lane {lane}</text>' for lane, top in tops.items()
    )
    bars = "".join(_draw_bar(one, tops[one.lane], clock, now, link) for one in shown)
    return wrap_svg(_NAMES + _WIDTH, height, f"Lanes of run {run} over time", axis + names + bars, "timeline")


class WorkingTime:
    """Turns instants into seconds of work: where no stretch is, no time passes."""

    def __init__(self, stretches: Sequence[Stretch], now: int) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._before: list[int] = []
        total = 0
        for stretch in sorted(stretches, key=lambda one: one.start):
            end = now if stretch.end is None else stretch.end
            if self._ends and stretch.start <= self._ends[-1]:
                total += max(0, end - self._ends[-1])
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(stretch.start)
                self._ends.append(end)
                self._before.append(total)
                total += max(0, end - stretch.start)
        self.seconds = max(total / 1000, 0.001)

    def at(self, ts: int) -> float:
        """Return how many seconds somebody worked before this instant."""
        place = max(0, bisect_right(self._starts, ts) - 1)
        inside = max(0, min(ts, self._ends[place]) - self._starts[place])
        return (self._before[place] + inside) / 1000


def describe_stretch(stretch: Stretch, now: int) -> str:
    """Say what a stretch of work was, how long it took and what it waited for."""
    waited = f"after {stretch.why}" if stretch.after == stretch.task else ""
    if stretch.after and not waited:
        waited = f"waited for {stretch.after}: {stretch.why}"
    merged = "merged" if stretch.merging is not None else ""
    collided = "collided" if stretch.collided is not None else ""
    time = format_duration(stretch.seconds(now))
    parts = (f"{stretch.task} in lane {stretch.lane}", time, waited, merged, collided)
    return cut_text(" · ".join(part for part in parts if part), 400)


def _draw_bar(stretch: Stretch, top: float, clock: WorkingTime, now: int, link: Callable[[str], str]) -> str:
    def to_x(ts: int) -> float:
        return _NAMES + clock.at(ts) / clock.seconds * _WIDTH

    end = now if stretch.end is None else stretch.end
    x = min(to_x(stretch.start), _NAMES + _WIDTH - _THIN)
    width = max(to_x(end) - x, _THIN)
    kind = " bad" if stretch.collided is not None else " open" if stretch.end is None else ""
    drawn = [_draw_rect(f"step phase-3{kind}", x, top, width)]
    if stretch.merging is not None:
        merging = min(to_x(stretch.merging), x + width - _THIN)
        drawn.append(_draw_rect("step phase-7", merging, top, max(x + width - merging, _THIN)))
    name = f"{'✗ ' if stretch.collided is not None else ''}{stretch.task}"
    if len(name) * _LETTER + 6 <= width:
        inside = escape_text(name)
        drawn.append(f'<text class="small inside" x="{x + 3:.1f}" y="{top + 14}">{inside}</text>')
    label = escape_text(describe_stretch(stretch, now))
    return (
        f'<a href="{escape_text(link(stretch.task))}" aria-label="{label}"><title>{label}</title>'
        f"{''.join(drawn)}</a>"
    )


def _draw_rect(kind: str, x: float, top: float, width: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{top}" width="{width:.1f}" height="{_BAR}" rx="2"/>'
