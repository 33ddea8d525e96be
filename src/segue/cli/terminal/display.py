"""Observers that show a run while it works: a live table, lines, JSON, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from segue.cli.terminal.output import Printer, is_interactive, one_line
from segue.domain.events import AgentOutput, AgentText, AgentTool, Recorded
from segue.ports import Observer
from segue.reports.event_text import describe_event, locate_event

if TYPE_CHECKING:
    from segue.cli.terminal.progress import Progress


@dataclass(slots=True)
class EventLines:
    """One timestamped line per event, on stderr."""

    verbose: bool = False

    def __call__(self, event: Recorded) -> None:
        """Print the event, unless it is chatter and `verbose` is off."""
        chatter = isinstance(event.event, AgentOutput | AgentTool | AgentText)
        text = None if chatter and not self.verbose else describe_event(event)
        if text:
            stamp = time.strftime("%H:%M:%S", time.localtime(event.ts / 1000))
            click.echo(f"{stamp} {locate_event(event):12} {one_line(text, 200)}", err=True)

    def __enter__(self) -> EventLines:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


@dataclass(slots=True)
class EventRecords:
    """One JSON record per event, on stdout."""

    output: Printer

    def __call__(self, event: Recorded) -> None:
        """Print the event."""
        record = {"type": "event", "run": event.run, "seq": event.seq, "ts": event.ts, "step": event.step}
        self.output.record({**record, "event": event.type, "data": event.data})

    def __enter__(self) -> EventRecords:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def observer(output: Printer, progress: Callable[[], Progress], run: str, verbose: bool) -> Any:
    """Return the display for this output: a context manager that is an Observer.

    `progress` returns what is known of the run so far; only the live table calls it.
    """
    if output.json:
        return EventRecords(output)
    if output.quiet:
        return Silent()
    if is_interactive(sys.stderr) and not verbose:
        from segue.cli.terminal.live import LiveTable

        return LiveTable(progress(), run, output.color)
    return EventLines(verbose)


class Silent:
    """Shows nothing."""

    def __call__(self, event: Recorded) -> None:
        """Ignore the event."""

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *exc: object) -> None:
        pass
