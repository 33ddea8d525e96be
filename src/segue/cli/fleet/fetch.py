"""`segue fetch`: bring the work of a fleet's run into your clone."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer
from segue.domain.errors import UsageError

if TYPE_CHECKING:
    from segue.domain.run import Run


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
    from segue.fleet.bundles import forget_work, load_work
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
