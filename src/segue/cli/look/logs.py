"""`segue logs`: print the events of a run, and follow them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.domain.events import Recorded
    from segue.ports import Store


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Wait for more events until the run ends.")
@click.option("--task", metavar="KEY", help="Print only events of this task.")
@click.option("--phase", help="Print only events of this phase.")
@options("repo", "config", "database", "json")
def logs(
    run_id: str | None,
    follow: bool,
    task: str | None,
    phase: str | None,
    settings: CommandSettings,
    output: Printer,
) -> None:
    """Print the events of RUN, or of the newest run.

    \b
    Examples:
      segue logs
      segue logs -f
      segue logs --task 3 --json | jq .event
    """
    from segue.cli.runs import NO_RUNS, find_run
    from segue.cli.terminal.display import EventRecords
    from segue.cli.terminal.output import one_line
    from segue.reports.event_text import describe_event, locate_event

    app = settings.load()
    printer = EventRecords(output)

    def show(event: Recorded) -> None:
        if not _matches(event, task, phase):
            return
        if output.json:
            printer(event)
        elif text := describe_event(event):
            stamp = time.strftime("%H:%M:%S", time.localtime(event.ts / 1000))
            output.text(f"{stamp} {locate_event(event):12} {one_line(text, 200)}".rstrip())

    with app.store(read_only=True) as store:
        run = find_run(store, app, run_id)
        if run is None:
            output.note(NO_RUNS)
        else:
            _print(store, run.id, show, follow)


def _matches(recorded: Recorded, task: str | None, phase: str | None) -> bool:
    parts = (recorded.step or "").split("/")
    about = parts[1] if len(parts) > 2 else getattr(recorded.event, "task", None)
    return (task is None or about == task) and (phase is None or (len(parts) > 2 and parts[2] == phase))


def _print(store: Store, run_id: str, show: Callable[[Recorded], None], follow: bool) -> None:
    """Print the recorded events; with `follow`, wait for more until the run ends."""
    from segue.cli.runs import state_of
    from segue.domain.run import RunState

    last = 0
    while True:
        run = store.run(run_id)
        ended = run is None or state_of(run) not in (RunState.RUNNING, RunState.PARKED)
        for event in store.events(run_id, after=last):
            show(event)
            last = event.seq
        if ended or not follow:
            return
        store.wait_for_change(timeout=1.0)
