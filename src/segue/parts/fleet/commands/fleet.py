"""`segue fleet`, `segue worker` and `segue fetch`: prepare and watch a fleet, work for it, fetch its work."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING

import click

from segue.cli.options import CommandSettings, WholeNumber, options
from segue.cli.runs import moment
from segue.cli.terminal.output import Printer
from segue.domain.errors import UsageError
from segue.parts.fleet.status import FleetStatus, WorkerStatus

if TYPE_CHECKING:
    from segue.domain.run import Run


@click.group()
def fleet() -> None:
    """Prepare the database of a fleet, and see what its workers do.

    \b
    Examples:
      segue fleet init
      segue fleet status
      segue fleet limit cursor-cloud 10
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
    from segue.parts.fleet.schema import address_of, prepare
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

    from segue.parts.fleet.schema import require_prepared
    from segue.parts.fleet.status import read_status

    app = settings.look()
    require_prepared(app)
    with app.store(read_only=True) as store:
        found = read_status(store)
    if output.json:
        output.data(to_builtins(found))
        return

    show_fleet(found, output)


@fleet.command("limit")
@click.argument("agent")
@click.argument("most", type=WholeNumber(min=1), required=False)
@options("repo", "config", "database", "json")
def limit(agent: str, most: int | None, settings: CommandSettings, output: Printer) -> None:
    """Let at most MOST of AGENT be at work in the whole fleet; without MOST, take the limit away.

    \b
    Examples:
      segue fleet limit cursor-cloud 10
      segue fleet limit cursor-cloud
    """
    from segue.parts.fleet.register import Register
    from segue.parts.fleet.schema import require_prepared
    from segue.runtime.registry import check_name

    app = settings.find()
    check_name("agents", agent, app.loaded.settings.acp)
    address = require_prepared(app)
    with Register(address) as register:
        register.limit(agent, most)
    said = f"At most {most} of {agent} work at once." if most else f"{agent} is not limited any more."
    output.result({"agent": agent, "most": most}, said)


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
    import asyncio

    from segue.domain.errors import UsageError
    from segue.parts.fleet.options import worker_settings
    from segue.parts.fleet.placement import examine
    from segue.parts.fleet.schema import require_prepared
    from segue.parts.fleet.worker import Worker

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


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--keep", is_flag=True, help="Leave the work in the database, for others.")
@options("repo", "config", "database", "json")
def fetch(run_id: str, keep: bool, settings: CommandSettings, output: Printer) -> None:
    """Bring the work of RUN into this clone, as the branch segue/RUN.

    Nothing else changes here. It works while the run is still at work, too. Once a run is done and this
    clone has all of its work, the database forgets it.

    \b
    Examples:
      segue fetch last
      segue fetch 20261115-0219 && git merge segue/20261115-021955-5c1f
    """
    from segue.cli.runs import find_run
    from segue.domain.run import RunState
    from segue.parts.fleet.git.portable import bring
    from segue.parts.fleet.schema import require_prepared
    from segue.parts.fleet.work import forget_work, load_work
    from segue.store.postgres import Postgres
    from segue.system.git.repository import Repository
    from segue.system.git.worktree import branch_of

    app = settings.find()
    address = require_prepared(app)
    with app.store(read_only=True) as store:
        run = find_run(store, app, run_id)
    if run.spec.origin is None:
        raise UsageError(
            f"Run {run.id} was not submitted to a fleet: its work is in {run.place}.", hint="Look there"
        )
    branch, done = branch_of(run.id), run.state is RunState.DONE
    with closing(Postgres(address)) as database:
        packed = load_work(database, run.id)

        async def unwrap() -> str:
            repo = await Repository.open(app.repo)
            if packed is not None:
                return await bring(repo, packed, branch)
            if done and await repo.has_branch(branch):
                return f"Branch {branch} has the work already."
            raise _nothing_there(run, branch, done)

        said = asyncio.run(unwrap())
        if done and not keep:
            forget_work(database, run.id, run.spec.origin.commit)
    output.result({"run": run.id, "branch": branch, "said": said}, said)


def _nothing_there(run: Run, branch: str, done: bool) -> UsageError:
    if done:
        return UsageError(
            f"The work of run {run.id} is not in the database any more: somebody has fetched it.",
            kept="Nothing was changed.",
            hint=f"It is on branch {branch} of that clone",
        )
    return UsageError(
        f"Run {run.id} has not changed anything yet.",
        kept="Nothing was changed.",
        hint=f"Watch it with: segue logs -f {run.id}",
    )


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


def _show_worker(worker: WorkerStatus, now: int) -> tuple[object, ...]:
    runs = ", ".join(worker.runs) or "-"
    return (*(worker.id, worker.host, worker.state, worker.seats, runs), f"{_span(now - worker.seen)} ago")


def _span(ms: int) -> str:
    seconds = max(0, ms) // 1000
    if seconds < 60:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 3600 else f"{seconds // 3600} h {seconds % 3600 // 60} min"
