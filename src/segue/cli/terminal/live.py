"""The live table: a row per task on a terminal, redrawn in place while the run works."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from segue.cli.terminal.output import one_line
from segue.cli.terminal.progress import Progress, describe_waits
from segue.cli.terminal.table import GAP, STYLES, fit_columns, join, pad, width
from segue.cli.terminal.task_table import format_cost, name_state
from segue.domain.amounts import format_duration, format_quantity
from segue.domain.events import Recorded
from segue.domain.statement import name_level
from segue.view.task import TaskView

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

_ROWS = 20
"""How many tasks are shown at once, if the terminal is high enough; the caption counts the rest."""
_WAITING = 3
"""How many of the tasks that wait are shown with the reason."""
_FRAME = 10
"""Lines beside the rows: head, rule, bar, captions, news, and one for the cursor."""

_AT_WORK = ("running", "parked")

_CELLS: dict[str, Callable[[Progress, TaskView], str]] = {
    "task": lambda _, task: task.key or "plan",
    "title": lambda _, task: task.title,
    "state": lambda _, task: _name_work(task),
    "level": lambda _, task: name_level(task.proof) if task.proof is not None else "",
    "phase": lambda _, task: f"{task.phase} {task.attempts}" if task.attempts else task.phase,
    "agent": lambda _, task: task.agent,
    "time": lambda progress, task: _elapsed(progress.view.task_seconds(task, time.time())),
    "tokens": lambda _, task: _count(task.usage.tokens) if task.usage.tokens else "",
    "cost": lambda _, task: format_cost(task.usage.cost_usd),
    "last activity": lambda progress, task: progress.last.get(task.key, "") if task.state in _AT_WORK else "",
}
_RIGHT = ("time", "tokens", "cost")
_LEAST = {"title": 30, "last activity": 13}
"""The columns whose text is cut, and what should be left of it."""
_DROPPED = ("tokens", "cost", "agent", "last activity", "phase", "level", "time")
"""Which columns a narrow terminal loses first; the totals stay in the caption."""
_BAR = 20
"""How wide the bar is, where there is room."""
_LONG = 60
"""A longer text is cut on every terminal; only the key of a task is not."""


class LiveTable(Struct):
    """Shows the run on stderr; disappears when it ends, so that the summary takes its place."""

    progress: Progress
    run: str
    color: str = "auto"
    _live: Any = None
    _widths: dict[str, int] = field(default_factory=dict)

    def __call__(self, event: Recorded) -> None:
        """Take the event into the table."""
        self.progress.take(event)

    def __enter__(self) -> LiveTable:
        from rich.console import Console

        from segue.cli.terminal.steady import SteadyLive

        console = Console(stderr=True, no_color=True if self.color == "never" else None)
        self._live = SteadyLive(self, console=console, refresh_per_second=5, transient=True)
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the table as it is now, for a terminal of this size."""
        yield from self._table(options.max_width, console.size.height)
        yield from self._captions(options.max_width)

    def _table(self, width: int, height: int) -> Iterator[Text]:
        from rich.text import Text

        shown = self._window(min(_ROWS, max(3, height - _FRAME - len(self._waiting()))))
        widths = self._fit(shown, width)
        yield _line([(pad(name, size, name in _RIGHT), "bold") for name, size in widths.items()])
        yield Text("─" * min(width, sum(widths.values()) + len(GAP) * (len(widths) - 1)), style="dim")
        for row in shown:
            yield _line([self._cell(row, name, size) for name, size in widths.items()])
        if (more := len(self.progress.rows()) - len(shown)) > 0:
            yield Text(f"… {more} more tasks", style="dim")

    def _cell(self, row: TaskView, name: str, size: int) -> tuple[str, str]:
        styles = {"state": STYLES.get(row.state, ""), "last activity": "dim"}
        styles["task"] = "bold" if row.state == "running" else ""
        text = one_line(_CELLS[name](self.progress, row), size)
        return pad(text, size, name in _RIGHT), styles.get(name, "")

    def _fit(self, rows: list[TaskView], room: int) -> dict[str, int]:
        """Return the columns that fit, with their widths. They only grow, so that the table does not jump."""
        for name, cell in _CELLS.items():
            longest = max((width(cell(self.progress, row)) for row in rows), default=0)
            self._widths[name] = max(
                self._widths.get(name, len(name)), longest if name == "task" else min(longest, _LONG)
            )
        widths = {name: self._widths[name] for name in _CELLS if self._used(name)}
        sizes, left = fit_columns(widths, _LEAST, _DROPPED, room)
        # What is left is given to the texts: to the title up to its length, the rest to the activity.
        share = left // 2 if "last activity" in sizes else left
        more = max(0, min(widths["title"] - sizes["title"], share))
        sizes["title"] += more
        if "last activity" in sizes:
            sizes["last activity"] += max(0, min(left - more, 60))
        return sizes

    def _used(self, name: str) -> bool:
        if name == "agent":
            return bool(self.progress.view.lane_count)
        if name == "level":
            return any(task.proof is not None for task in self.progress.rows())
        if name == "tokens":
            return bool(self.progress.view.usage.tokens)
        return self.progress.view.usage.cost_usd is not None if name == "cost" else True

    def _window(self, most: int) -> list[TaskView]:
        """Return the tasks in their order; where not all fit, those at work and what is next to them."""
        rows = self.progress.rows()
        at_work = [at for at, row in enumerate(rows) if row.state in _AT_WORK]
        current = at_work[0] if at_work else 0
        by_weight = sorted(range(len(rows)), key=lambda at: (at not in at_work, abs(at - current)))
        return [rows[at] for at in sorted(by_weight[:most])]

    def _captions(self, room: int) -> Iterator[Text]:
        yield _text("")
        yield self._bar(room)
        for words in self._waiting():
            yield _text(one_line(words, room), "dim")
        for at, text in self.progress.news:
            stamp = time.strftime("%H:%M:%S", time.localtime(at))
            yield _text(one_line(f"{stamp} {text}", room), "dim")
        for words in islice(describe_waits(self.progress.view, time.time()), _WAITING):
            yield _text(one_line(words, room), "yellow")
        for words in islice(self._for_people(), _WAITING):
            yield _text(one_line(words, room), "red")
        yield _text(join(self._used_so_far(), room))
        saved = ["Ctrl-C stops and saves", f"run {self.run}"]
        yield _text(join(saved if self.run else ["Ctrl-C stops the rehearsal"], room))

    def _bar(self, room: int) -> Text:
        """Return how much is done, as a bar and in words, and how long the rest takes."""
        view = self.progress.view
        if not view.tasks:
            return _text("no tasks yet")
        share = view.done / len(view.tasks)
        size = min(_BAR, room // 4)
        full = int(share * size)
        expected = self.progress.estimate(time.time())
        left = expected.words if expected else ("no estimate yet",)
        words = [
            f"{view.done} of {len(view.tasks)} tasks done",
            *(left if share < 1 else ()),
            *self._states(),
        ]
        line = _text("█" * full, "green").append("░" * (size - full), "dim")
        return line.append(" " + join(words, room - size - 1))

    def _waiting(self) -> list[str]:
        """Say how many tasks wait for others, and what the first of them wait for."""
        waiting = self.progress.view.waiting
        first = islice(waiting.values(), _WAITING)
        count = f"{len(waiting)} task waits" if len(waiting) == 1 else f"{len(waiting)} tasks wait"
        return [f"{count} for others:", *(f"{task.key} {task.waits}" for task in first)] if waiting else []

    def _for_people(self) -> Iterator[str]:
        for task in self.progress.view.tasks.values():
            if task.state == "needs_human":
                yield f"Task {task.key} waits for a person: {task.reason}"

    def _states(self) -> list[str]:
        """Count the tasks that are in neither of the usual states."""
        counts = Counter(name_state(task) for task in self.progress.view.tasks.values())
        return [f"{count} {state}" for state, count in sorted(counts.items()) if state not in _USUAL]

    def _used_so_far(self) -> list[str]:
        """Return time, launches, tokens and money, and what is allowed of them."""
        view, caps = self.progress.view, self.progress.budget
        tokens, cost = view.usage.tokens, view.usage.cost_usd
        used = [
            _elapsed(view.seconds(time.time())),
            _of(view.launches, caps.launches, "launch", "launches"),
        ]
        if tokens or caps.tokens:
            used.append(_of(tokens, caps.tokens, "token", "tokens"))
        if caps.cost_usd:
            share = _share(cost or 0.0, caps.cost_usd)
            used.append(f"${cost or 0.0:,.2f} of ${caps.cost_usd:,.2f} {share}")
        else:
            used.append(format_cost(cost))
        return [*used, *self.progress.counts()]


_USUAL = ("done", "pending", "running")


def _name_work(task: TaskView) -> str:
    """Return the state in a word; of a task at work, what is done to it now: `checking`, `merging`."""
    from segue.flow.phase import PHASES

    known = PHASES.get(task.phase)
    if task.state != "running" or not (task.key and task.phase) or (known is not None and known.edits):
        return name_state(task)
    return f"{task.phase.removesuffix('e')}ing"


def _text(words: str, style: str = "") -> Text:
    from rich.text import Text

    return Text("", no_wrap=True, overflow="crop").append(words, style)


def _line(cells: list[tuple[str, str]]) -> Text:
    line = _text("")
    for text, style in cells:
        line.append(text, style).append(GAP)
    line.rstrip()
    return line


def _elapsed(seconds: float | None) -> str:
    """Format whole seconds: tenths would make the table restless."""
    if seconds is None:
        return ""
    return f"{seconds:.0f}s" if seconds < 60 else format_duration(seconds)


def _count(number: int) -> str:
    return f"{number:,}" if number < 10_000 else format_quantity(float(number), "")


def _of(used: int, cap: int | None, one: str, many: str) -> str:
    if cap is None:
        return f"{_count(used)} {one if used == 1 else many}"
    return f"{_count(used)} of {_count(cap)} {many} {_share(used, cap)}"


def _share(used: float, cap: float) -> str:
    return f"({100 * used / cap:.0f} %)"
