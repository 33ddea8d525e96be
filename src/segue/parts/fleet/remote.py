"""Runs that were submitted to the fleet, from afar: stop and continue them, read their tasks and changes.

What the core does with a run that has an `origin`; imported only then.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path, PurePath

from segue.domain.errors import Locked, SegueError, UsageError
from segue.domain.kinds import with_kinds
from segue.domain.run import LOCAL, Origin, Run, RunState
from segue.domain.task import Task
from segue.parts.fleet.git.addresses import canonical_url
from segue.runtime.app import App
from segue.runtime.plan import kind_rules
from segue.runtime.sources import load_run_app
from segue.system.git.folders import git_dirs
from segue.system.git.objects import Objects
from segue.system.git.repository import Repository
from segue.system.identity import person

_STOP_TIMEOUT = 60.0


async def resume(app: App, run: Run) -> None:
    """Let the workers of the fleet continue a run."""
    from segue.parts.fleet.queue import enqueue, open_queue
    from segue.parts.fleet.register import Register, entry_of
    from segue.parts.fleet.schema import address_of

    if run.state is RunState.DONE:
        raise UsageError(f"Run {run.id} is done.", hint="Submit it again: segue submit SOURCE")
    with Register(address_of(app)) as register:
        register.clear_failures(run.id)
        if not register.requeue(run.id):
            raise Locked(f"Run {run.id} is being driven.", hint=f"Follow it: segue logs -f {run.id}")
    async with open_queue(address_of(app)) as queue:
        await enqueue(queue, [entry_of(run)])


async def stop(app: App, run: Run) -> Run:
    """Ask the worker that drives a run to stop it; take one that nobody drives out of the queue."""
    from segue.parts.fleet.queue import dequeue, lock_of, open_queue
    from segue.parts.fleet.register import Register
    from segue.parts.fleet.schema import address_of

    if run.state in (RunState.DONE, RunState.STOPPED):
        return run
    async with open_queue(address_of(app)) as queue:
        await dequeue(queue, lock_of(run.id))
    deadline, asked = time.monotonic() + _STOP_TIMEOUT, False
    with Register(address_of(app)) as register:
        while not register.stop(run.id):
            if not asked:
                with app.store() as store:
                    store.send(run.id, "stop", {})
                asked = True
            if time.monotonic() > deadline:
                raise Locked(
                    f"Run {run.id} was asked to stop, but its worker has not answered yet.",
                    kept="It stops as soon as the worker hears of it.",
                    hint="See: segue fleet status",
                )
            await asyncio.sleep(0.1)
        return register.find(run.id) or run


_MOST_BYTES = 50 * 1024**2
"""More than this is not unpacked for a look."""


def read_tasks(app: App, run: Run) -> list[Task]:
    """Return the tasks of a run's source as it was when the run began."""
    assert run.spec.origin is not None
    return asyncio.run(_read_tasks(app, run, run.spec.origin))


def read_diff(app: App, run: Run, base: str, head: str) -> tuple[str, str]:
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


async def _read_tasks(app: App, run: Run, origin: Origin) -> list[Task]:
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
        "--literal-pathspecs",
        "checkout",
        "--quiet",
        "--force",
        commit,
        "--",
        path,
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
    from segue.parts.fleet.git.bundles import unpack_commits

    with tempfile.TemporaryDirectory(prefix="segue-look-") as folder:
        borrow = borrowed.common_dir if borrowed else None
        await unpack_commits(Path(folder), bundles, borrow, long=len(origin.commit) == 64)
        found = Objects(Path(folder))
        yield found if await found.has(*commits) else None


def _load(app: App, run: Run, origin: Origin, with_base: bool) -> list[bytes]:
    """Return the bundles of a run; none if they are too large for a look."""
    from segue.parts.fleet.schema import address_of
    from segue.parts.fleet.work import load_base, load_work
    from segue.store.database import ask
    from segue.store.postgres import Postgres

    with closing(Postgres(address_of(app))) as database:
        names = (f"work/{run.id}", f"base/{origin.commit}" if with_base else "")
        sql = "SELECT coalesce(sum(octet_length(data)), 0) FROM segue_fleet.bundles WHERE name IN (?, ?)"
        [(size,)] = ask(database, sql, *names)
        if size > _MOST_BYTES:
            return []
        packed = load_work(database, run.id)
        base = load_base(database, origin.commit) if with_base else b""
        return [data for data in (base, packed.data if packed else b"") if data]


_NEWEST = 50
"""How many runs are looked at; the newest ones come first."""


def find_submitted(path: Path, runs: Sequence[Run]) -> set[str]:
    """Return the ids of those runs that you have submitted from the repository around a path."""
    me = person()
    mine = [run for run in runs if run.spec.origin and run.spec.origin.submitter == me][:_NEWEST]
    if not mine:
        return set()
    # In a thread with a loop of its own, because the caller's thread may already run one.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _choose(path, mine)).result()


async def _choose(path: Path, runs: Sequence[Run]) -> set[str]:
    url, repo = "", None
    with suppress(SegueError):
        repo = await Repository.open(path)
        url = canonical_url(await repo.remote_url() or f"{LOCAL}{repo.root.name}")
    if repo is None or not url:
        return set()
    found = [run for run in runs if run.spec.origin and canonical_url(run.spec.origin.url) == url]
    if not url.startswith(LOCAL):
        return {run.id for run in found}
    # Another repository may be in a folder of the same name.
    commits = {run.spec.origin.commit for run in found if run.spec.origin}
    known = {commit for commit in commits if await repo.objects().has(commit)}
    return {run.id for run in found if run.spec.origin and run.spec.origin.commit in known}
