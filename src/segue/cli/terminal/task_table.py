"""The tasks of a run as an aligned table with totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

from segue.cli.terminal.output import Output, one_line, terminal_width
from segue.cli.terminal.table import GAP, draw
from segue.domain.run import Step, StepState
from segue.flow.context import Spent
from segue.reports.formatting import format_duration, format_quantity
from segue.store.projections import TaskView

_COLUMNS = ("task", "title", "state", "phase", "tries", "time", "verdict", "commit", "tokens", "cost")
_RIGHT = {"tries", "time", "tokens", "cost"}
_DROPPED = ("commit", "phase", "verdict", "tries")
"""The columns that a narrow terminal loses, in this order."""
_LEAST, _MOST = 16, 48
"""Bounds for the width of a title."""


def print_tasks(output: Output, views: list[TaskView], steps: Sequence[Step], title: str = "") -> None:
    """Print one line per task with phase, time, verdict and usage, and a line of totals."""
    rows = [_cells(view) for view in [*_planning(steps), *views]]
    rows.append(_totals(views, steps))
    columns = [name for name in _COLUMNS if name in ("task", "title") or any(row[name] for row in rows)]
    columns, room = _fit(columns, rows, terminal_width())
    for row in rows:
        row["title"] = one_line(row["title"], room)
    cells = [[row[name] for name in columns] for row in rows]
    lines = draw(columns, cells, output.colored(), right=_RIGHT)
    rule = "─" * max(len(click.unstyle(line)) for line in lines)
    output.text("\n".join(filter(None, [title, *lines[:-1], rule, lines[-1]])))


def _cells(view: TaskView) -> dict[str, str]:
    return {
        "task": one_line(view.key, 40),
        "title": view.title,
        "state": view.state,
        "phase": view.phase,
        "tries": str(view.attempts or ""),
        "time": "" if view.seconds is None else format_duration(view.seconds),
        "verdict": view.verdict or "",
        "commit": (view.commit or "")[:10],
        "tokens": f"{view.tokens:,}" if view.tokens else "",
        "cost": format_quantity(view.cost_usd, "cost_usd") if view.cost_usd else "",
    }


def _planning(steps: Sequence[Step]) -> list[TaskView]:
    """Return the planning before the first task as a row of its own."""
    outlines = [step for step in steps if step.phase == "outline" and step.ended]
    if not outlines:
        return []
    spent, last = Spent.of(outlines), outlines[-1]
    view = TaskView("plan", "Plan the steps", "done" if last.state is StepState.DONE else "failed", "outline")
    view.attempts, view.started, view.ended = len(outlines), outlines[0].started, last.ended
    view.tokens, view.cost_usd = spent.usage.tokens, spent.usage.cost_usd
    return [view]


def _totals(views: list[TaskView], steps: Sequence[Step]) -> dict[str, str]:
    spent = Spent.of(list(steps))
    counts = Counter(view.state for view in views)
    said = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in counts.items())
    launches = f"{spent.launches} launch{'' if spent.launches == 1 else 'es'}"
    took = sum(view.seconds or 0 for view in [*_planning(steps), *views])
    row = dict.fromkeys(_COLUMNS, "")
    row |= {"task": "total", "title": f"{said}; {launches}", "time": format_duration(took)}
    row["tokens"] = f"{spent.usage.tokens:,}" if spent.usage.tokens else ""
    row["cost"] = format_quantity(spent.usage.cost_usd, "cost_usd") if spent.usage.cost_usd else ""
    return row


def _fit(columns: list[str], rows: list[dict[str, str]], width: int | None) -> tuple[list[str], int]:
    """Return the columns that fit beside the title, and the width left for the title."""
    wanted = min(_MOST, max(len(row["title"]) for row in rows))
    if width is None:
        return columns, wanted
    for dropped in (None, *_DROPPED):
        columns = [name for name in columns if name != dropped]
        others = [max(len(name), *(len(row[name]) for row in rows)) for name in columns if name != "title"]
        room = width - sum(others) - len(GAP) * len(others)
        if room >= min(wanted, _LEAST + 14):
            break
    return columns, max(_LEAST, min(wanted, room))
