"""`segue fleet`: prepare the database of a fleet, and see what the fleet does."""

from __future__ import annotations

import click

from segue.cli.options import CommandSettings, WholeNumber, options
from segue.cli.terminal.output import Printer


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
    from segue.fleet.schema import address_of, prepare
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

    from segue.fleet.schema import address_of, check_prepared
    from segue.fleet.status import read_status

    app = settings.look()
    check_prepared(address_of(app))
    with app.store(read_only=True) as store:
        found = read_status(store)
    if output.json:
        output.data(to_builtins(found))
        return
    from segue.cli.terminal.fleet import show_fleet

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
    from segue.fleet.register import Register
    from segue.fleet.schema import address_of, check_prepared
    from segue.runtime.registry import check_name

    app = settings.find()
    check_name("agents", agent, app.loaded.settings.acp)
    address = address_of(app)
    check_prepared(address)
    with Register(address) as register:
        register.limit(agent, most)
    said = f"At most {most} of {agent} work at once." if most else f"{agent} is not limited any more."
    output.result({"agent": agent, "most": most}, said)
