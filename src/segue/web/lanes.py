"""The lanes of a run: what each works on, what waits for what, and who worked when."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup
from msgspec import Struct

from segue.domain.amounts import format_duration
from segue.domain.run import Run
from segue.domain.text import cut_text
from segue.reports.drawing import draw_axis, escape_text, wrap_svg
from segue.view.lanes import lanes_data, list_stretches
from segue.view.run import RunView
from segue.view.work import Stretch
from segue.web.live import find_last_event, make_line

if TYPE_CHECKING:
    from segue.store.store import Store


MOST_BARS = 2000
"""Bars of one chart; the first ones are left out beyond that."""
_WIDTH = 1000
_NAMES = 52
"""The width of the names of the lanes."""
_HEAD = 18
_LANE_ROW = 26
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
    tops = {lane: _HEAD + row * _LANE_ROW for row, lane in enumerate(lanes)}
    height = _HEAD + _LANE_ROW * len(lanes)
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
    kind = " open" if stretch.end is None else ""
    if stretch.collided is not None:
        kind = " bad"
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


MOST_BOXES = 120
"""Boxes of one drawing: those of tasks that still wait come first."""
_BOX, _HEIGHT = 150, 24
_COLUMN, _ROW = 210, 32
_LETTERS = 20
_SIGNS = {"done": "✓", "skipped": "↷", "running": "▶", "parked": "⏸", "needs_human": "!", "blocked": "⊘"}
_TONES = {"done": "good", "skipped": "good", "running": "busy", "parked": "wait", "needs_human": "bad"}
_TONES |= {"blocked": "wait", "stopped": "wait"}


class TaskWait(Struct, frozen=True):
    """What one task waits for, or waited for before it began."""

    task: str
    by: tuple[str, ...]
    why: str
    is_over: bool


class WaitBox(Struct, frozen=True):
    """A task that waits, or that others wait for."""

    title: str
    state: str


class WaitGraph(Struct, frozen=True):
    """Which task waits for which."""

    waits: tuple[TaskWait, ...]
    boxes: dict[str, WaitBox]
    """The tasks to draw, by key."""


def build_waits(view: RunView) -> WaitGraph:
    """Find out what each task waits or waited for; nothing where one task at a time is worked on."""
    begun = {
        stretch.task: TaskWait(stretch.task, (stretch.after,), stretch.why, True)
        for stretch in view.work.stretches
        if stretch.lane and stretch.after not in ("", stretch.task)
    }
    waiting = {
        key: TaskWait(key, task.waits_for, task.waits_why, False) for key, task in view.waiting.items()
    }
    known = {**begun, **waiting}
    waits = tuple(known[key] for key in view.tasks if key in known)
    boxes = {key: WaitBox(view.tasks[key].title, view.tasks[key].state) for key in _choose(view, waits)}
    return WaitGraph(waits, boxes)


def _choose(view: RunView, waits: Sequence[TaskWait]) -> dict[str, None]:
    """Choose the tasks to draw, those that still wait first."""
    chosen: dict[str, None] = {}
    for wait in sorted(waits, key=lambda wait: wait.is_over):
        keys = [key for key in (*wait.by, wait.task) if key in view.tasks]
        if len(chosen) + len(keys) > MOST_BOXES:
            break
        chosen |= dict.fromkeys(keys)
    return chosen


def draw_waits(graph: WaitGraph, link: Callable[[str], str]) -> str:
    """Draw the tasks that wait and those they wait for; empty if none does."""
    drawn = [wait for wait in graph.waits if wait.task in graph.boxes]
    if not drawn:
        return ""
    places = _place({wait.task: [key for key in wait.by if key in graph.boxes] for wait in drawn})
    lines = [
        _draw_line(places[key], places[wait.task], wait) for wait in drawn for key in wait.by if key in places
    ]
    boxes = [_draw_box(key, graph.boxes[key], place, link(key)) for key, place in places.items()]
    width = max(column for column, _ in places.values()) * _COLUMN + _BOX + 2
    height = (max(row for _, row in places.values()) + 1) * _ROW
    return wrap_svg(width, height, "What waits for what", "".join([*lines, *boxes]), "waits", True)


def _place(before: Mapping[str, Sequence[str]]) -> dict[str, tuple[int, int]]:
    """Return column and row of each box: right of everything it waits for."""
    columns: dict[str, int] = {}

    def find_column(key: str, path: frozenset[str]) -> int:
        if key not in columns:
            earlier = [
                find_column(one, path | {key})
                for one in before.get(key, ())
                if one not in path and one != key
            ]
            columns[key] = max(earlier, default=-1) + 1
        return columns[key]

    rows: dict[int, int] = {}
    places: dict[str, tuple[int, int]] = {}
    for key in dict.fromkeys(one for task, keys in before.items() for one in (*keys, task)):
        column = find_column(key, frozenset())
        places[key] = (column, rows.get(column, 0))
        rows[column] = rows.get(column, 0) + 1
    return places


def _draw_box(key: str, task: WaitBox, place: tuple[int, int], link: str) -> str:
    x, y = place[0] * _COLUMN + 1, place[1] * _ROW + 1
    name = f"{_SIGNS.get(task.state, '○')} {key} {task.title}"
    label = escape_text(f"{key} {task.title}: {task.state}")
    tone = _TONES.get(task.state, "")
    return (
        f'<a href="{escape_text(link)}" aria-label="{label}"><title>{label}</title>'
        f'<rect class="box {tone}" x="{x}" y="{y}" width="{_BOX}" height="{_HEIGHT}" rx="4"/>'
        f'<text class="inside" x="{x + 6}" y="{y + 16}">{escape_text(cut_text(name, _LETTERS))}</text></a>'
    )


def _draw_line(start: tuple[int, int], end: tuple[int, int], wait: TaskWait) -> str:
    x1, y1 = start[0] * _COLUMN + _BOX + 1, start[1] * _ROW + _HEIGHT // 2 + 1
    x2, y2 = end[0] * _COLUMN + 1, end[1] * _ROW + _HEIGHT // 2 + 1
    middle = (x1 + x2) / 2
    kind = "wait over" if wait.is_over else "wait"
    why = escape_text(f"{wait.task} waits for {', '.join(wait.by)}: {wait.why}")
    path = f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"
    return f'<path class="{kind}" d="{path}"><title>{why}</title></path>'


ROWS = 200
"""Rows of the tables behind the drawings."""
_RECENT = 400
"""Among how many of the latest events is looked for what a task does now."""


def query_lanes(store: Store, run: Run, view: RunView, going: bool, size: int) -> dict[str, Any] | None:
    """Return what a page of `size` tasks shows of the lanes; None where one task at a time is worked on."""
    now = time.time()
    data = lanes_data(view, now)
    if data is None:
        return None
    graph = build_waits(view)
    stretches = [] if going else list_stretches(view)[-MOST_BARS:]
    rows = _list_rows(store, run, view, now) if going else []
    shown = {*graph.boxes, *(stretch.task for stretch in stretches), *(row["task"] for row in rows)}
    return {
        **data,
        "chain": data["chain"][-ROWS:],
        "rows": rows,
        "graph": graph,
        "stretches": stretches,
        "pages": {key: place // size + 1 for place, key in enumerate(view.tasks) if key in shown},
    }


def _list_rows(store: Store, run: Run, view: RunView, now: float) -> list[dict[str, Any]]:
    doing = _find_activity(store, run.id)
    rows = []
    for lane in range(1, view.lane_count + 1):
        task = view.lanes.get(lane)
        row: dict[str, Any] = {"lane": lane, "task": None}
        if task is not None:
            names = ("title", "state", "phase", "agent", "wake", "collisions")
            row |= {"task": task.key, **{name: getattr(task, name) for name in names}}
            row |= {"seconds": view.task_seconds(task, now), "doing": doing.get(task.key, "")}
        rows.append(row)
    return rows


def _find_activity(store: Store, run_id: str) -> dict[str, str]:
    """Return what happened last to each task, among the latest events."""
    found: dict[str, str] = {}
    for event in store.events(run_id, max(0, find_last_event(store, run_id) - _RECENT), _RECENT):
        place = (event.step or "").split("/")
        if place[0] == "task" and len(place) > 1 and (text := make_line(event)["text"]):
            found[place[1]] = text
    return found


def present_lanes(run_id: str, lanes: dict[str, Any] | None) -> dict[str, Any]:
    """Draw the waits and the lanes over time; their boxes and bars link to the tasks."""
    if lanes is None:
        return {}

    def link(key: str) -> str:
        return f"?page={lanes['pages'].get(key, 1)}#task-{quote(key)}"

    now = round(time.time() * 1000)
    return {
        "waits_drawing": Markup(draw_waits(lanes["graph"], link)),  # noqa: S704 - it is escaped
        "lanes_drawing": Markup(draw_lanes(run_id, lanes["stretches"], now, link)),  # noqa: S704
        "words": [describe_stretch(stretch, now) for stretch in lanes["stretches"][-ROWS:]],
        "rows": ROWS,
    }
