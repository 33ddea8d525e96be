"""The tasks of a run as an aligned table with totals."""

from __future__ import annotations

import time
from collections import Counter

import click

from segue.cli.terminal.output import Printer, clean, one_line, terminal_width
from segue.cli.terminal.table import draw, fit_columns
from segue.domain.outcome import Usage
from segue.view.amounts import format_duration, format_quantity
from segue.view.run import RunView
from segue.view.task import TaskView

_COLUMNS = ("task", "lane", "title", "state", "phase", "tries", "time", "verdict", "commit", "tokens", "cost")
_RIGHT = {"lane", "tries", "time", "tokens", "cost"}
_DROPPED = ("lane", "commit", "phase", "tries", "tokens")
"""The columns that a narrow terminal loses, in this order."""
_LEAST, _USEFUL, _MOST = 16, 22, 48
"""Widths of a title: never less, enough to keep all columns, never more."""


def print_tasks(output: Printer, view: RunView, title: str = "") -> None:
    """Print one line per task with phase, time, verdict and usage, and a line of totals."""
    now = time.time()
    tasks = [*([view.planning] if view.planning else []), *view.tasks.values()]
    rows = [_cells(task, view.task_seconds(task, now)) for task in tasks]
    # What was done at the same time is not added up.
    at_once = any(task.lane for task in tasks)
    seconds = view.seconds(now) if at_once else sum(view.task_seconds(task, now) or 0.0 for task in tasks)
    rows.append(_totals(view, seconds))
    columns = [name for name in _COLUMNS if name in ("task", "title") or any(row[name] for row in rows)]
    columns, room = _fit(columns, rows, terminal_width())
    for row in rows:
        row["title"] = one_line(row["title"], room)
    cells = [[row[name] for name in columns] for row in rows]
    lines = draw(columns, cells, output.colored(), right=_RIGHT)
    rule = "─" * max(len(click.unstyle(line)) for line in lines)
    output.painted("\n".join(filter(None, [clean(title), *lines[:-1], rule, lines[-1]])))


def format_cost(cost: float | None) -> str:
    """Format a cost; empty where it was not reported."""
    return "" if cost is None else format_quantity(cost, "cost_usd")


def _cells(task: TaskView, seconds: float | None) -> dict[str, str]:
    return {
        "task": one_line(task.key or "plan", 40),
        "lane": str(task.lane or ""),
        "title": task.title,
        "state": task.state,
        "phase": task.phase,
        "tries": str(task.attempts or ""),
        "time": "" if seconds is None else format_duration(seconds),
        "verdict": one_line(task.conclusion, 40),
        "commit": (task.commit or "")[:10],
        **_usage_cells(task.usage),
    }


def _usage_cells(usage: Usage) -> dict[str, str]:
    tokens = f"{usage.tokens:,}" if usage.tokens else ""
    return {"tokens": tokens, "cost": format_cost(usage.cost_usd)}


def _totals(view: RunView, seconds: float) -> dict[str, str]:
    counts = Counter(task.state for task in view.tasks.values())
    states = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in counts.items())
    launches = f"{view.launches} launch{'' if view.launches == 1 else 'es'}"
    row = dict.fromkeys(_COLUMNS, "")
    row |= {"task": "total", "title": f"{states}; {launches}", "time": format_duration(seconds)}
    return row | _usage_cells(view.usage)


def _fit(columns: list[str], rows: list[dict[str, str]], width: int | None) -> tuple[list[str], int]:
    """Return the columns that fit beside the title, and the width left for the title."""
    wanted = min(_MOST, max(len(row["title"]) for row in rows))
    if width is None:
        return columns, wanted
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in columns}
    sizes, left = fit_columns(widths, {"title": min(wanted, _USEFUL)}, _DROPPED, width)
    return list(sizes), max(_LEAST, min(wanted, sizes["title"] + left))
