"""The fleet on a terminal."""

from __future__ import annotations

from segue.cli.runs import moment
from segue.cli.terminal.output import Printer
from segue.fleet.status import FleetStatus, WorkerStatus


def show_fleet(found: FleetStatus, output: Printer) -> None:
    """Print the workers, then the queues, then what needs attention."""
    if not found.workers:
        output.text("No workers yet. Start one on each machine: segue worker")
    else:
        output.table(
            ["worker", "host", "state", "seats", "at work on", "seen"],
            [_row(worker, found.now) for worker in found.workers],
        )
    if found.queues:
        output.text("")
        output.table(
            ["waiting for", "repository", "runs", "later", "longest wait", ""],
            [
                (
                    *(", ".join(one.needs) or "any worker", one.repo, one.waiting, one.later),
                    _span(one.oldest) if one.oldest is not None else "",
                    "" if one.served else "no worker can take this",
                )
                for one in found.queues
            ],
        )
    if found.slots:
        output.text("")
        rows = [(agent, used, most) for agent, (used, most) in found.slots.items()]
        output.table(["agent", "at work", "limit"], rows)
    if found.schedules:
        output.text("")
        output.table(
            ["schedule", "when (UTC)", "source", "last", "next"],
            [(one.name, one.cron, one.source, moment(one.last), moment(one.next)) for one in found.schedules],
        )
    states = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in sorted(found.states.items()))
    output.text(f"\nRuns: {states or 'none'}; {found.finished_hour} finished in the last hour.")
    if found.stalled:
        output.warn(f"The workers of these runs are silent, so others take over: {', '.join(found.stalled)}")


def _row(worker: WorkerStatus, now: int) -> tuple[object, ...]:
    runs = ", ".join(worker.runs) or "-"
    return worker.id, worker.host, worker.state, worker.seats, runs, f"{_span(now - worker.seen)} ago"


def _span(ms: int) -> str:
    seconds = max(0, ms) // 1000
    if seconds < 60:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 3600 else f"{seconds // 3600} h {seconds % 3600 // 60} min"
