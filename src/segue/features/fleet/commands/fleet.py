"""`segue fleet` and `segue worker`: prepare and watch a fleet, and work for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from segue.cli.options import CommandSettings, WholeNumber, options
from segue.cli.terminal.output import Printer
from segue.domain.errors import UsageError
from segue.features.fleet.status import FleetStatus, WorkerStatus

if TYPE_CHECKING:
    pass


@click.group()
def fleet() -> None:
    """Prepare the database of a fleet, and see what its workers do.

    \b
    Examples:
      segue fleet init
      segue fleet status
    """


@fleet.command("init")
@options("repo", "config", "database", "json")
def init(settings: CommandSettings, output: Printer) -> None:
    """Prepare the database: the queue in a schema of its own, and tables for workers and their work.

    It may be repeated; after an update of Segue it brings the database up to date.

    \b
    Examples:
      segue fleet init --database-url postgresql://segue@db.example.com/segue
    """
    from segue.features.fleet.schema import address_of, prepare
    from segue.store.address import masked

    address = address_of(settings.find())
    done = prepare(address)
    if output.json:
        output.data({"database": masked(address), "done": done})
        return
    for line in done or [f"The database {masked(address)} was prepared already; nothing was changed."]:
        output.text(line)
    output.note("On each machine: segue worker   Then: segue submit plan.md")


@fleet.command("status")
@options("repo", "config", "database", "json", "color")
def status(settings: CommandSettings, output: Printer) -> None:
    """Show the workers and what each one does, what waits, what is stalled, and how much gets done.

    \b
    Examples:
      segue fleet status
      segue fleet status --json | jq '.queues[] | select(.served | not)'
    """
    from msgspec import to_builtins

    from segue.features.fleet.schema import require_prepared
    from segue.features.fleet.status import read_status

    app = settings.look()
    require_prepared(app)
    with app.store(read_only=True) as store:
        found = read_status(store)
    if output.json:
        output.data(to_builtins(found))
        return

    show_fleet(found, output)


@click.command()
@click.option("-j", "--jobs", type=WholeNumber(1, 256), metavar="N", help="Work on up to N runs at once.")
@click.option(
    "--queues", multiple=True, metavar="NEEDS", help="Take only runs with these needs, such as any or gpu."
)
@click.option("--tags", multiple=True, metavar="TAG", help="What this machine has beside what is found out.")
@options("repo", "config", "database", "quiet", "color")
def worker(
    jobs: int | None,
    queues: tuple[str, ...],
    tags: tuple[str, ...],
    settings: CommandSettings,
    output: Printer,
) -> int:
    """Take runs that were submitted to the fleet, and drive them on this machine.

    Which repositories and agents are allowed is up to the owner of this machine: `[worker]` in segue.toml.
    SIGTERM ends the worker and leaves its agents at work for the one that starts next; Ctrl-C, or a second
    SIGTERM, gives its runs back to the queue.

    \b
    Examples:
      segue worker
      segue worker --jobs 4 --tags gpu
    """

    from segue.features.fleet.options import worker_settings
    from segue.features.fleet.placement import examine
    from segue.features.fleet.schema import require_prepared
    from segue.features.fleet.worker import Worker

    app = settings.load()
    require_prepared(app)
    chosen = worker_settings(app)
    if not chosen.allow_repos:
        raise UsageError(
            "No repository is allowed on this machine.",
            kept="Nothing was started.",
            hint='Set [worker] allow_repos = ["https://github.com/OWNER/*"] in segue.toml; "*" allows all',
        )

    async def work() -> None:
        equipment = await asyncio.to_thread(examine, app, tags)
        await Worker(app, equipment, jobs or chosen.jobs, output.text, queues).run()

    asyncio.run(work())
    return 0


def show_fleet(found: FleetStatus, output: Printer) -> None:
    """Print the workers, then the queues, then what needs attention."""
    if not found.workers:
        output.text("No workers yet. Start one on each machine: segue worker")
    else:
        output.table(
            ["worker", "host", "state", "seats", "at work on", "seen"],
            [_show_worker(worker, found.now) for worker in found.workers],
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
    states = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in sorted(found.states.items()))
    output.text(f"\nRuns: {states or 'none'}; {found.finished_hour} finished in the last hour.")
    if found.stalled:
        output.warn(f"The workers of these runs are silent, so others take over: {', '.join(found.stalled)}")


def _show_worker(worker: WorkerStatus, now: int) -> tuple[object, ...]:
    runs = ", ".join(worker.runs) or "-"
    return (*(worker.id, worker.host, worker.state, worker.seats, runs), f"{_span(now - worker.seen)} ago")


def _span(ms: int) -> str:
    seconds = max(0, ms) // 1000
    if seconds < 60:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 3600 else f"{seconds // 3600} h {seconds % 3600 // 60} min"
