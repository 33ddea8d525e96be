"""`segue worker`: work for a fleet on this machine."""

from __future__ import annotations

import click

from segue.cli.options import CommandSettings, WholeNumber, options
from segue.cli.terminal.output import Printer


@click.command()
@click.option("--jobs", type=WholeNumber(1, 256), metavar="N", help="Work on up to N runs at once.")
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
    from segue.fleet.placement import examine
    from segue.fleet.schema import address_of, check_prepared
    from segue.fleet.worker import Worker

    app = settings.load()
    check_prepared(address_of(app))
    chosen = app.loaded.settings.worker
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
