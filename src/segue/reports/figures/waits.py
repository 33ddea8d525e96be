"""Draws which task waits for which: a box per task, a line to those that wait for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from segue.domain.text import cut_text
from segue.reports.charts import escape_text, wrap_svg
from segue.view.run import RunView

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
