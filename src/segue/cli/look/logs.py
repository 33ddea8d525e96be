"""`segue logs`: print the events of a run, and follow them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from segue.cli.options import CommandSettings, WholeNumber, join_task, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.domain.events import Recorded
    from segue.domain.run import Run
    from segue.store.store import Store


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.argument("key", metavar="[TASK]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Wait for more events until the run ends.")
@click.option("--task", metavar="KEY", help="Print only events of this task.")
@click.option("--phase", help="Print only events of this phase.")
@click.option("-n", "--limit", type=WholeNumber(min=1), help="Print only so many, the newest.")
@options("repo", "config", "database", "json")
def logs(
    run_id: str | None,
    key: str | None,
    follow: bool,
    task: str | None,
    phase: str | None,
    limit: int | None,
    settings: CommandSettings,
    output: Printer,
) -> None:
    """Print the events of RUN, or of the newest run; TASK prints those of one task only.

    \b
    Examples:
      segue logs
      segue logs -f
      segue logs last 3
      segue logs -n 20
      segue logs --task 3 --json | jq .event
    """
    from segue.cli.runs import describe_wait, find_run_and_task, unknown_task
    from segue.cli.terminal.display import event_line, event_record
    from segue.domain.run import RunState

    task = join_task(key, task)
    app = settings.look_back()

    def matches(event: Recorded) -> bool:
        return _matches(event, task, phase) and (output.json or bool(event_line(event)))

    def show(event: Recorded) -> None:
        if not _matches(event, task, phase):
            return
        if output.json:
            output.record(event_record(event))
        elif line := event_line(event):
            output.text(line)

    with app.store(read_only=True) as store:
        run, task = find_run_and_task(store, app, run_id, task)
        if task is not None and run.spec.titles and task not in run.spec.titles:
            raise unknown_task(run, task, run.spec.titles)  # else --follow would wait for nothing
        if run.state is RunState.QUEUED:
            output.note(describe_wait(run))
        start = _find_start(store, run.id, matches, limit)
        _print(store, run.id, show, follow, after=start)
        if phase is not None and not any(map(matches, store.events(run.id))):
            output.note(_describe_phases(store, run, phase))


def _matches(recorded: Recorded, task: str | None, phase: str | None) -> bool:
    parts = (recorded.step or "").split("/")
    about = parts[1] if len(parts) > 2 else getattr(recorded.event, "task", None)
    return (task is None or about == task) and (phase is None or (len(parts) > 2 and parts[2] == phase))


def _describe_phases(store: Store, run: Run, phase: str) -> str:
    """Say that a phase has no events, and which phases of the run have some."""
    from segue.domain.text import suggest

    seen = list(dict.fromkeys(step.phase for step in store.steps(run.id) if step.phase))
    others = f" There are events of {', '.join(seen)}." if seen else ""
    return f"No event is of phase {phase!r}.{suggest(phase, seen)}{others}"


def _find_start(store: Store, run_id: str, matches: Callable[[Recorded], bool], limit: int | None) -> int:
    """Return the event after which printing begins, so that `limit` of those recorded are printed."""
    if limit is None:
        return 0
    newest = deque((event.seq for event in store.events(run_id) if matches(event)), maxlen=limit)
    return newest[0] - 1 if newest else 0


def _print(store: Store, run_id: str, show: Callable[[Recorded], None], follow: bool, after: int = 0) -> None:
    """Print the events after one; with `follow`, wait for more until the run ends."""
    from segue.view.load import ACTIVE, state_of

    last = after
    while True:
        run = store.run(run_id)
        ended = run is None or state_of(run) not in ACTIVE
        for event in store.events(run_id, after=last):
            show(event)
            last = event.seq
        if ended or not follow:
            return
        store.wait_for_change(timeout=1.0)
