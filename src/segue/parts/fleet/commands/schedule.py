"""`segue schedule`: let a fleet begin runs again and again."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import closing

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer
from segue.parts.fleet.commands.submit import confirm_notes, what_to_run


@click.group()
def schedule() -> None:
    """Let the fleet begin runs again and again, at the times of a cron expression (UTC).

    \b
    Examples:
      segue schedule add nightly "0 3 * * *" maintenance.md --agent claude
      segue schedule list
      segue schedule remove nightly
    """


@schedule.command("add")
@click.argument("name")
@click.argument("cron")
@click.argument("source")
@what_to_run
@options("config", "database", "json")
def add(
    name: str,
    cron: str,
    source: str,
    url: str | None,
    base: str | None,
    source_kind: str,
    only: tuple[str, ...],
    needs: tuple[str, ...],
    priority: int,
    yes: bool,
    settings: CommandSettings,
    output: Printer,
) -> None:
    """Add a schedule called NAME that submits SOURCE at the times of CRON.

    Each run begins with what the branch of the repository has then.

    \b
    Examples:
      segue schedule add nightly "0 3 * * *" maintenance.md --agent claude --base main
    """
    from msgspec.structs import replace

    from segue.domain.errors import UsageError
    from segue.parts.fleet import schedules
    from segue.parts.fleet.queue import open_queue
    from segue.parts.fleet.schema import require_prepared
    from segue.parts.fleet.submit import Wanted, prepare
    from segue.store.postgres import Postgres

    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,40}", name):
        raise UsageError(f"{name!r} is not a name.", hint="Use small letters, digits and dashes: nightly")
    app = settings.load()
    address = require_prepared(app)
    schedules.check_cron(cron)

    async def write() -> str:
        wanted = Wanted([source], url, base, source_kind, only, needs, priority)
        (what,) = await prepare(app, wanted, lambda: confirm_notes(app, source, yes, output))
        if not what.commit.startswith("local:") and not what.url.startswith("local:"):
            what = replace(what, commit="", tasks=only)
        with closing(Postgres(address)) as database:
            async with open_queue(address) as queue:
                due = await schedules.add(queue, database, name, cron, what)
        return f"{due.astimezone():%Y-%m-%d %H:%M %Z}"

    due = asyncio.run(write())
    output.result(
        {"name": name, "cron": cron, "next": due}, f"Schedule {name} begins its first run at {due}."
    )


@schedule.command("list")
@options("config", "database", "json", "color")
def list_(settings: CommandSettings, output: Printer) -> None:
    """List the schedules.

    \b
    Examples:
      segue schedule list --json
    """
    from segue.cli.runs import moment
    from segue.parts.fleet.schedules import read_schedules
    from segue.parts.fleet.schema import require_prepared
    from segue.store.postgres import Postgres

    address = require_prepared(settings.look())
    with closing(Postgres(address)) as database:
        found = read_schedules(database)
    data = [
        {
            **{"name": one.name, "cron": one.cron, "source": one.submission.source},
            **{"repo": one.submission.url, "by": one.submitter, "last": one.last},
            "next": int(one.next(time.time()).timestamp() * 1000),
        }
        for one in found
    ]
    rows = [
        (
            *(one.name, one.cron, one.submission.source, one.submission.url, moment(one.last)),
            f"{one.next(time.time()).astimezone():%Y-%m-%d %H:%M}",
        )
        for one in found
    ]
    output.listing(data, ["name", "when (UTC)", "source", "repository", "last", "next"], rows)


@schedule.command("remove")
@click.argument("name")
@options("config", "database", "json")
def remove(name: str, settings: CommandSettings, output: Printer) -> None:
    """Remove the schedule NAME; runs that it has begun continue.

    \b
    Examples:
      segue schedule remove nightly
    """
    from segue.parts.fleet import schedules
    from segue.parts.fleet.queue import open_queue
    from segue.parts.fleet.schema import require_prepared
    from segue.store.postgres import Postgres

    address = require_prepared(settings.find())

    async def delete() -> None:
        with closing(Postgres(address)) as database:
            async with open_queue(address) as queue:
                await schedules.remove(queue, database, name)

    asyncio.run(delete())
    output.result({"name": name, "removed": True}, f"Schedule {name} is removed.")
