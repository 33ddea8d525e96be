"""The tasks of a run as an aligned table with totals."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence

import click

from segue.cli.terminal.output import Printer, clean, one_line, terminal_width
from segue.cli.terminal.table import draw, fit_columns, join, width
from segue.domain.amounts import format_duration, format_quantity
from segue.domain.outcome import Usage
from segue.view.run import RunView
from segue.view.task import TaskView

_COLUMNS = ("task", "lane", "title", "state", "phase", "tries", "time", "verdict", "commit", "tokens", "cost")
_RIGHT = {"lane", "tries", "time", "tokens", "cost"}
_DROPPED = ("lane", "phase", "commit", "tries", "tokens", "cost", "time")
"""The columns that a narrow terminal loses, in this order."""
_USEFUL, _MOST = 30, 48
"""Widths of a title: other columns go before it gets less, and it never gets more."""
_FAILED = ("needs_human", "failed", "stopped", "parked", "running")
_ENDED = ("done", "skipped", "replanned")
_FEW, _MANY = 3, 12
"""How many tasks that have not begun, and how many others, are listed where something failed."""


def print_tasks(
    output: Printer, view: RunView, title: str = "", brief: bool = False, only: str | None = None
) -> None:
    """Print one line per task with time, proof and usage, and a line of totals."""
    lines = task_lines(view, terminal_width(), output.colored(), brief, only)
    output.painted("\n".join([*filter(None, [clean(title)]), *lines]))


def task_lines(
    view: RunView, terminal: int | None, colored: bool, brief: bool, only: str | None = None
) -> list[str]:
    """Return the table for a terminal of this width, or for no terminal.

    A brief one begins with what failed; where something failed, most of the other tasks are only counted.
    """
    now = time.time()
    tasks = [*([view.planning] if view.planning else []), *view.tasks.values()]
    tasks = [task for task in tasks if only in (None, task.key)]
    listed, left_out = _choose(tasks) if brief else (tasks, ())
    rows = [_cells(task, view.task_seconds(task, now)) for task in listed]
    rows.append(_totals(view, view.seconds(now)))
    columns = [name for name in _COLUMNS if name in ("task", "title") or any(row[name] for row in rows)]
    columns, room, verdicts = _fit(columns, rows, terminal)
    total = rows[-1]
    narrow = total["title"] if width(total["title"]) > room or "cost" not in columns else ""
    for row in rows:
        row["title"] = one_line(row["title"], room)
        row["verdict"] = one_line(row["verdict"], verdicts)
    cells = [[row[name] for name in columns] for row in rows]
    lines = draw(columns, cells, colored, right=_RIGHT)
    rule = "─" * max(width(click.unstyle(line)) for line in lines)
    if narrow and terminal is not None:
        lines[-1] = join([f"total  {narrow}", total["time"], total["cost"]], terminal)
    return [*lines[:-1], *left_out, rule, lines[-1]]


def format_cost(cost: float | None) -> str:
    """Format a cost; empty where it was not reported."""
    return "" if cost is None else format_quantity(cost, "cost_usd")


def name_state(task: TaskView) -> str:
    """Return the state of a task in words."""
    return task.state.replace("_", " ")


def _choose(tasks: Sequence[TaskView]) -> tuple[list[TaskView], list[str]]:
    """Return the tasks to list, those that failed first, and lines that count the others."""
    failed = [task for task in tasks if task.state in _FAILED]
    ended = [task for task in tasks if task.state in _ENDED]
    open_ = [task for task in tasks if task.state not in (*_FAILED, *_ENDED)]
    if not failed and not open_:
        return ended, []
    listed = [*failed[:_MANY], *ended[-_MANY:], *open_[:_FEW]]
    return listed, list(_count([*failed[_MANY:], *ended[:-_MANY], *open_[_FEW:]]))


def _count(tasks: Sequence[TaskView]) -> Iterator[str]:
    for state, count in Counter(name_state(task) for task in tasks).items():
        yield f"… and {count} more {'task is' if count == 1 else 'tasks are'} {state}"


def _cells(task: TaskView, seconds: float | None) -> dict[str, str]:
    return {
        "task": clean(task.key) or "plan",
        "lane": str(task.lane or ""),
        "title": task.title,
        "state": name_state(task),
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
    counts = Counter(name_state(task) for task in view.tasks.values())
    states = ", ".join(f"{count} {state}" for state, count in counts.items())
    launches = f"{view.launches} launch{'' if view.launches == 1 else 'es'}"
    words = "; ".join(filter(None, (states, launches, view.describe_spent(time.time()))))
    row = dict.fromkeys(_COLUMNS, "")
    row |= {"task": "total", "title": words, "time": format_duration(seconds)}
    return row | _usage_cells(view.usage)


def _fit(columns: list[str], rows: list[dict[str, str]], room: int | None) -> tuple[list[str], int, int]:
    """Return the columns that fit beside the title, and the widths left for the title and the verdict."""
    wanted = min(_MOST, max(width(row["title"]) for row in rows))
    if room is None:
        return columns, max(wanted, width(rows[-1]["title"])), _MOST  # totals are never cut
    widths = {name: max(len(name), *(width(row[name]) for row in rows)) for name in columns}
    least = {"title": min(wanted, _USEFUL), "verdict": widths.get("verdict", 0)}
    sizes, left = fit_columns(widths, least, _DROPPED, room)
    if left < 0:
        sizes, left = fit_columns(widths, least, (*_DROPPED, "verdict"), room)
    return list(sizes), min(wanted, sizes["title"] + max(0, left)), sizes.get("verdict", 0)
