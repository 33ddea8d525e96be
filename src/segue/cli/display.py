"""What a person sees while a run works: a live table on a terminal, one line per event otherwise."""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from segue.cli.output import Output, animated, one_line
from segue.cli.show import duration
from segue.domain.event import EventType, Recorded
from segue.ports import Observer
from segue.reports.sentences import place as place
from segue.reports.sentences import sentence as sentence

if TYPE_CHECKING:
    from rich.console import RenderableType

_ROWS = 20
"""How many tasks the live table shows at once; the rest is counted in its footer."""


@dataclass(slots=True)
class Lines:
    """One timestamped line per event, on stderr."""

    verbose: bool = False

    def __call__(self, event: Recorded) -> None:
        """Print the event if it interests a person."""
        chatter = event.type in (EventType.AGENT_OUTPUT, EventType.AGENT_TOOL, EventType.AGENT_TEXT)
        text = None if chatter and not self.verbose else sentence(event)
        if text:
            stamp = time.strftime("%H:%M:%S", time.localtime(event.ts / 1000))
            click.echo(f"{stamp} {place(event):12} {one_line(text, 200)}", err=True)

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


@dataclass(slots=True)
class JsonLines:
    """One JSON record per event, on stdout."""

    output: Output

    def __call__(self, event: Recorded) -> None:
        """Print the event."""
        record = {"type": "event", "run": event.run, "seq": event.seq, "ts": event.ts, "step": event.step}
        self.output.record({**record, "event": event.type, "data": dict(event.data)})

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


@dataclass(slots=True)
class _Row:
    key: str
    title: str
    state: str = "pending"
    phase: str = ""
    attempt: str = ""
    started: float | None = None
    ended: float | None = None
    last: str = ""


@dataclass(slots=True)
class LiveTable:
    """A row per task, redrawn while the run works, on stderr."""

    titles: dict[str, str]
    run: str
    rows: dict[str, _Row] = field(default_factory=dict)
    current: _Row | None = None
    _live: Any = None

    def __call__(self, event: Recorded) -> None:
        """Take the event into the table."""
        data = event.data
        if event.type == EventType.PLAN_REVISED:
            self.rows |= {k: _Row(k, title) for k, title in data["titles"].items() if k not in self.rows}
        if event.type == EventType.TASK_STARTED:
            self.current = self.rows.setdefault(data["task"], _Row(data["task"], data["title"]))
            self.current.state, self.current.started = "running", event.ts / 1000
        if self.current is None:
            return
        if event.type == EventType.AGENT_STARTED:
            self.current.phase, self.current.attempt = place(event).split()[-2:]
        if event.type == EventType.TASK_ENDED:
            self.current.state = "done" if data["done"] else "needs_human"
            self.current.ended = event.ts / 1000
        if event.type == EventType.RUN_PARKED:
            self.current.state = "parked"
        elif event.type == EventType.AGENT_STARTED:
            self.current.state = "running"
        self.current.last = sentence(event) or self.current.last

    def __enter__(self) -> LiveTable:
        from rich.console import Console
        from rich.live import Live

        self.rows = {key: _Row(key, title) for key, title in self.titles.items()}
        console = Console(stderr=True)
        self._live = Live(get_renderable=self.render, console=console, refresh_per_second=8, transient=True)
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def render(self) -> RenderableType:
        """The table as it is now."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        from segue.cli.output import STYLES

        table = Table(
            "task", "title", "state", "phase", "attempt", "time", "last activity", box=box.SIMPLE_HEAD
        )
        for row in self._window():
            until = row.ended or time.time()
            elapsed = duration(until - row.started) if row.started else ""
            table.add_row(
                row.key,
                Text(one_line(row.title, 40)),
                Text(row.state, style=STYLES.get(row.state, "")),
                row.phase,
                row.attempt,
                elapsed,
                Text(one_line(row.last, 60), style="dim"),
            )
        counts = Counter(row.state for row in self.rows.values())
        said = " · ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        table.caption = f"run {self.run} · {said} · Ctrl-C stops and saves"
        return table

    def _window(self) -> list[_Row]:
        """The rows around the current task."""
        rows = list(self.rows.values())
        if len(rows) <= _ROWS or self.current is None:
            return rows[:_ROWS]
        place = next((i for i, row in enumerate(rows) if row is self.current), 0)
        first = max(0, min(place - _ROWS // 2, len(rows) - _ROWS))
        return rows[first : first + _ROWS]


def observer(output: Output, titles: dict[str, str], run: str, verbose: bool) -> Any:
    """The display that fits where the output goes; a context manager that is an Observer."""
    if output.json:
        return JsonLines(output)
    if output.quiet:
        return Silent()
    if animated(sys.stderr) and not verbose:
        return LiveTable(titles, run)
    return Lines(verbose)


class Silent:
    """Shows nothing."""

    def __call__(self, event: Recorded) -> None:
        """See nothing."""

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *exc: object) -> None:
        pass
