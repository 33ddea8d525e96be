"""Looks at runs wherever they are driven: what a step changed, and what the source says about its tasks."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path, PurePath

from segue.domain.errors import SegueError
from segue.domain.kinds import with_kinds
from segue.domain.run import Origin, Run
from segue.domain.task import Task
from segue.runtime.app import App
from segue.runtime.plan import kind_rules
from segue.runtime.sources import load_run_app, read_source
from segue.system.git.folders import git_dirs
from segue.system.git.objects import Objects

_MOST_BYTES = 50 * 1024**2
"""More than this is not unpacked for a look."""


def read_tasks(app: App, run: Run) -> tuple[list[Task], str]:
    """Return the tasks of a run's source, and why they cannot be read.

    The source of a fleet's run is read as it was when the run began.
    """
    if run.spec.origin is None:
        return read_source(app, run)
    if run.spec.kind.is_planned:
        return [], ""  # they are in the journal
    try:
        return asyncio.run(_read_far(app, run, run.spec.origin)), ""
    except (SegueError, OSError, ValueError) as error:
        return [], str(error)


def read_far_diff(app: App, run: Run, base: str, head: str) -> tuple[str, str]:
    """Return the diff between two commits of a fleet's run, or the reason why there is none."""
    try:
        return asyncio.run(_diff(app, run, base, head))
    except (SegueError, OSError) as error:
        return "", f"{error} {_advise(run)}"


async def _diff(app: App, run: Run, base: str, head: str) -> tuple[str, str]:
    async with _objects(app, run, base, head) as found:
        return ("", _advise(run)) if found is None else (await found.diff(base, head), "")


def _advise(run: Run) -> str:
    return f"The work of this run is not on this machine. In a clone of {run.spec.repo}: segue fetch {run.id}"


async def _read_far(app: App, run: Run, origin: Origin) -> list[Task]:
    own, named = load_run_app(app, run), PurePath(run.spec.source)
    if named.is_absolute() or ".." in named.parts:
        raise ValueError(f"{named} is not in the repository.")
    with tempfile.TemporaryDirectory(prefix="segue-look-") as folder:
        place = Path(folder)
        if origin.files:
            for name, text in origin.files.items():
                (place / Path(name).name).write_text(text, encoding="utf-8")
        else:
            async with _objects(app, run, origin.commit) as found:
                if found is None:
                    return []
                await _check_out(found, origin.commit, run.spec.source, place)
        source = own.source(str(place / named), place, run.spec.source_kind or None)
        return list(with_kinds(source.look(), kind_rules(own)).tasks)


async def _check_out(found: Objects, commit: str, path: str, place: Path) -> None:
    """Write a file or folder of a commit to an empty folder."""
    index = {"GIT_WORK_TREE": str(place), "GIT_INDEX_FILE": str(place / ".git-index")}
    await found.git(
        *("--literal-pathspecs", "checkout", "--quiet", "--force", commit, "--", path),
        variables=index,
        where=place,
    )


@asynccontextmanager
async def _objects(app: App, run: Run, *commits: str) -> AsyncIterator[Objects | None]:
    """Find the commits of a fleet's run: in the clone around us, or else in the database."""
    folders = git_dirs(app.repo)
    here = Objects(folders[1]) if folders else None
    if here is not None and await here.has(*commits):
        yield here
        return
    origin = run.spec.origin
    assert origin is not None
    borrowed = here if here is not None and await here.has(origin.commit) else None
    if borrowed is None and not origin.is_local:
        yield None  # the beginning of the history is on the remote alone
        return
    bundles = await asyncio.to_thread(_load, app, run, origin, borrowed is None)
    if not bundles:
        yield None
        return
    from segue.system.git.looks import unpack_commits

    with tempfile.TemporaryDirectory(prefix="segue-look-") as folder:
        borrow = borrowed.common_dir if borrowed else None
        await unpack_commits(Path(folder), bundles, borrow, long=len(origin.commit) == 64)
        found = Objects(Path(folder))
        yield found if await found.has(*commits) else None


def _load(app: App, run: Run, origin: Origin, with_base: bool) -> list[bytes]:
    """Return the bundles of a run; none if they are too large for a look."""
    from segue.fleet.bundles import load_base, load_work
    from segue.fleet.schema import address_of
    from segue.store.database import ask
    from segue.store.postgres import Postgres

    database = Postgres(address_of(app))
    try:
        names = (f"work/{run.id}", f"base/{origin.commit}" if with_base else "")
        sql = "SELECT coalesce(sum(octet_length(data)), 0) FROM segue_fleet.bundles WHERE name IN (?, ?)"
        [(size,)] = ask(database, sql, *names)
        if size > _MOST_BYTES:
            return []
        packed = load_work(database, run.id)
        base = load_base(database, origin.commit) if with_base else b""
        return [data for data in (base, packed.data if packed else b"") if data]
    finally:
        database.close()
