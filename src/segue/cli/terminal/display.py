"""Shows a run while it works: a live table, lines, JSON, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from segue.cli.terminal.output import Printer, clean, is_interactive, one_line
from segue.domain.events import AgentOutput, AgentText, AgentTool, Recorded
from segue.ports import Observer
from segue.reports.event_text import describe_event, locate_event

if TYPE_CHECKING:
    from segue.cli.terminal.progress import Progress

_CHATTER = (AgentOutput, AgentTool, AgentText)


def event_record(event: Recorded) -> dict[str, Any]:
    """Return an event as a record for programs."""
    record = {"type": "event", "run": event.run, "seq": event.seq, "ts": event.ts, "step": event.step}
    return {**record, "event": event.type, "data": event.data}


def event_line(event: Recorded) -> str:
    """Return an event as a line with its time; empty if it is of no interest to people."""
    text = describe_event(event)
    stamp = time.strftime("%H:%M:%S", time.localtime(event.ts / 1000))
    return f"{stamp} {locate_event(event):12} {one_line(text, 200)}".rstrip() if text else ""


def event_printer(output: Printer, verbose: bool = False) -> Observer:
    """Return an observer that prints: with --json records on stdout, else lines on stderr unless quiet."""

    def show(event: Recorded) -> None:
        if output.json:
            output.record(event_record(event))
        elif not output.quiet and (verbose or not isinstance(event.event, _CHATTER)):
            line = event_line(event)
            if line:
                click.echo(clean(line), err=True)

    return show


@contextmanager
def observer(
    output: Printer, progress: Callable[[], Progress], run: str, verbose: bool
) -> Iterator[Observer]:
    """Yield the display for this output; `progress` returns what is known of the run, for the live table."""
    if output.quiet or verbose or not is_interactive(sys.stderr):
        yield event_printer(output, verbose)
        return
    from segue.cli.terminal.live import LiveTable

    with LiveTable(progress(), run, output.color) as table:
        yield table
