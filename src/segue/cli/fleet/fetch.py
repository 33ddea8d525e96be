"""`segue fetch`: bring the work of a fleet's run into your clone."""

from __future__ import annotations

import asyncio

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer


@click.command()
@click.argument("run_id", metavar="RUN")
@options("repo", "config", "database", "json")
def fetch(run_id: str, settings: CommandSettings, output: Printer) -> None:
    """Bring the work of RUN into this clone, as the branch segue/RUN.

    Nothing else changes here. It works while the run is still at work, too.

    \b
    Examples:
      segue fetch 20261115-0219
      segue fetch 20261115-0219 && git merge segue/20261115-021955-5c1f
    """
    from segue.cli.runs import find_run
    from segue.domain.errors import UsageError
    from segue.fleet.bundles import load_work
    from segue.fleet.schema import address_of, check_prepared
    from segue.store.postgres import Postgres
    from segue.system.git.portable import bring
    from segue.system.git.repository import Repository
    from segue.system.git.worktree import branch_of

    app = settings.find()
    address = address_of(app)
    check_prepared(address)
    with app.store(read_only=True) as store:
        run = find_run(store, app, run_id)
    if run.spec.origin is None:
        raise UsageError(
            f"Run {run.id} was not submitted to a fleet: its work is in {run.place}.", hint="Look there"
        )
    database = Postgres(address)
    try:
        packed = load_work(database, run.id)
    finally:
        database.close()
    if packed is None:
        raise UsageError(
            f"Run {run.id} has not changed anything yet.",
            kept="Nothing was changed.",
            hint=f"Watch it with: segue logs -f {run.id}",
        )

    async def unwrap() -> str:
        return await bring(await Repository.open(app.repo), packed, branch_of(run.id))

    said = asyncio.run(unwrap())
    output.result({"run": run.id, "branch": branch_of(run.id), "said": said}, said)
