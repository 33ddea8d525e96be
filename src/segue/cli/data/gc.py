"""`segue gc`: delete leftovers of finished runs from Segue's state folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.cli.data.garbage import Leftover, Rule
    from segue.runtime.app import App
    from segue.store.store import Store

_USUAL = 30 * 86400.0
"""Seconds for which the files of a run are kept."""


def _parse_age(_context: click.Context, _option: click.Parameter, value: str | None) -> float | None:
    """Parse an age such as `30d`, `12h` or a number of days into seconds."""
    from segue.domain.amounts import parse_duration

    if value is None:
        return None
    age = parse_duration(f"{value}d" if value[-1:].isdecimal() else value)
    if age is None:
        raise click.BadParameter(f"{value!r} is not an age such as 30d or 12h.")
    return age


@click.command()
@click.option("--dry-run", is_flag=True, help="List what would be deleted; delete nothing.")
@click.option(
    "--older-than",
    callback=_parse_age,
    metavar="AGE",
    help="Keep runs that ended less than AGE ago: 30d, 12h (default: 30d).",
)
@click.option("--force", is_flag=True, help="Also delete worktrees with uncommitted changes.")
@options("repo", "config", "database", "json", "quiet", "color")
def gc(
    dry_run: bool, older_than: float | None, force: bool, settings: CommandSettings, output: Printer
) -> None:
    """Delete leftovers of done and failed runs from Segue's state folder.

    Deletes worktrees, output kept by supervisors, temporary folders and stale locks. Keeps branches, the
    database, everything of a run that can be resumed, and everything outside the state folder.

    \b
    Examples:
      segue gc --dry-run
      segue gc --older-than 7d
    """
    import asyncio

    from segue.cli.data.garbage import Rule

    app = settings.look() if dry_run else settings.find()
    age = _USUAL if older_than is None else older_than
    rule = Rule(app.state_dir.absolute(), age, force)
    asyncio.run(_collect(app, rule, output, dry_run))


async def _collect(app: App, rule: Rule, output: Printer, dry_run: bool) -> None:
    from msgspec.structs import replace

    from segue.cli.data.garbage import find_leftovers
    from segue.domain.errors import SegueError

    seen: list[Leftover] = []
    with app.store(read_only=True) as store:
        async for found in find_leftovers(rule, store):
            if not found.kept and not dry_run:
                try:
                    await _remove(rule, store, found)
                except SegueError as error:
                    found = replace(found, kept=error.message.rstrip("."))
            seen.append(found)
    _print_result(output, seen, dry_run)


async def _remove(rule: Rule, store: Store, found: Leftover) -> None:
    """Delete it, unless its run was resumed meanwhile, and deregister a worktree from git."""
    from segue.domain.errors import SegueError
    from segue.system.git.repository import Repository
    from segue.system.sweep import delete

    if found.run is not None and not rule.is_over(store.run(found.run)):
        raise SegueError("its run was resumed")
    delete(rule.root, found.path)
    if found.repo is None:
        return
    try:
        home = await Repository.open(found.repo)
        await home.git("worktree", "remove", "--force", str(found.path))
    except SegueError:
        return  # the repository is gone, or git no longer lists the worktree


def _print_result(output: Printer, seen: list[Leftover], dry_run: bool) -> None:
    gone, stays = [f for f in seen if not f.kept], [f for f in seen if f.kept]
    total = sum(found.bytes for found in gone)
    if output.json:
        output.data(
            {
                "dry_run": dry_run,
                "bytes": total,
                "removed": [_data(found) for found in gone],
                "kept": [{**_data(found), "why": found.kept} for found in stays],
            }
        )
        return
    if gone:
        output.table(["what", "size", "path"], [(f.kind, _size(f.bytes), f.path) for f in gone])
    for found in stays:
        output.warn(f"Kept {found.path}: {found.kept}.")
    verb = "would be deleted" if dry_run else "deleted"
    output.text(f"{len(gone)} {verb}, {_size(total)}." if gone else "Nothing to delete.")


def _data(found: Leftover) -> dict[str, Any]:
    return {"kind": found.kind, "path": str(found.path), "bytes": found.bytes, "run": found.run}


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
