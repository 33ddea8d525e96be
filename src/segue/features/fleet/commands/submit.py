"""`segue submit`: let the workers of a fleet run a task list."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

import click

from segue.cli.options import CommandSettings, WholeNumber, options
from segue.cli.terminal.output import Printer
from segue.domain.errors import UsageError

if TYPE_CHECKING:
    from segue.features.fleet.submit import Wanted
    from segue.runtime.app import App


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE…")
@click.option("--agent", metavar="NAME[:MODEL]", help="The agent to use; see `segue doctor --agents`.")
@click.option("--model", help="The model to use.")
@click.option("--flow", help="The phases of each task.")
@click.option("--source", "source_kind", default="", metavar="NAME", help="The kind of SOURCE.")
@click.option("--task", "only", multiple=True, metavar="KEY", help="Run only this task (repeatable).")
@click.option(
    "-C",
    "--repo",
    "url",
    metavar="URL",
    help="The repository (default: the one you are in, or its remote).",
)
@click.option("--base", metavar="REF", help="The branch or commit to begin with (default: where you are).")
@click.option("--priority", type=WholeNumber(-1000, 1000), default=0, help="Higher ones come first.")
@click.option("--needs", multiple=True, metavar="TAG", help="What the worker must have, such as gpu.")
@click.option("-y", "--yes", is_flag=True, help="Let the simulated agent work on a real source.")
@click.option("--at", metavar="TIME", help="When to begin: 2026-11-20T03:00, or 03:00 for the next one.")
@options("config", "database", "json")
def submit(
    sources: tuple[str, ...],
    url: str | None,
    base: str | None,
    source_kind: str,
    only: tuple[str, ...],
    needs: tuple[str, ...],
    priority: int,
    yes: bool,
    at: str | None,
    settings: CommandSettings,
    output: Printer,
) -> None:
    """Submit a run of each SOURCE to the fleet; a worker that has what it needs takes it.

    SOURCE is what `segue run` takes.

    \b
    Examples:
      segue submit plan.md --agent claude
      segue submit plan.md --repo https://github.com/acme/shop --base main
      segue submit specs/001-login --needs gpu --priority 10
      segue submit "add a search page" --agent codex --at 03:00
    """
    import asyncio

    from segue.domain.amounts import list_some
    from segue.features.fleet.schema import require_prepared
    from segue.features.fleet.submit import Wanted

    wanted = Wanted(sources, url, base, source_kind, only, needs, priority)
    when = read_time(at) if at else None
    app = settings.load()
    require_prepared(app)
    runs = asyncio.run(_submit(app, wanted, when, lambda: confirm_notes(app, sources[0], yes, output)))
    if output.json:
        output.data({"runs": runs})
        return
    output.text(f"Submitted {list_some(runs, 5)}.")
    _warn(app, set(runs), output)
    output.note(f"Follow it: segue logs -f {runs[0]}   The fleet: segue fleet status")


def confirm_notes(app: App, source: str, yes: bool, output: Printer) -> None:
    """Ask before a real source is handed to the simulated agent, unless the command line says yes."""
    from segue.cli.run.choose import confirm_simulated, name_options
    from segue.runtime.rehearsal import only_writes_notes

    if not yes and only_writes_notes(app):
        command = click.get_current_context().command_path.split()[1:]
        confirm_simulated(source, (*command, *name_options()), output)


async def _submit(app: App, wanted: Wanted, at: datetime | None, confirm: Callable[[], None]) -> list[str]:
    from segue.features.fleet.queue import open_queue
    from segue.features.fleet.schema import address_of
    from segue.features.fleet.submit import prepare, submit

    submissions = await prepare(app, wanted, confirm)
    async with open_queue(address_of(app)) as queue:
        return await submit(app, queue, submissions, at)


def _warn(app: App, runs: set[str], output: Printer) -> None:
    """Say which of the runs no worker can take at the moment."""
    from segue.features.fleet.status import read_status

    with app.store(read_only=True) as store:
        lonely = [queue for queue in read_status(store).queues if not queue.served and runs & {*queue.runs}]
    for queue in lonely:
        needs = f" and has {', '.join(queue.needs)}" if queue.needs else ""
        output.note(f"No worker is here that may work on {queue.repo}{needs}. It waits until one comes.")


def read_time(text: str) -> datetime:
    """Read when to begin: a moment, or the time of a day, in local time unless it names a zone."""
    from datetime import timedelta

    now = datetime.now().astimezone()
    try:
        if "T" not in text and "-" not in text:
            hour, minute = map(int, text.split(":"))
            then = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
            return then if then > now else then + timedelta(days=1)
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--at {text!r} is not a time.", hint="Give 2026-11-20T03:00 or 03:00") from None
    return moment if moment.tzinfo else moment.astimezone()
