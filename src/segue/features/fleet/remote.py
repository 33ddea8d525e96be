"""Runs that were submitted to the fleet, from afar: stop and continue them, read their tasks.

What the core does with a run that has an `origin`; imported only then.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePath

from segue.domain.errors import Locked, SegueError, UsageError
from segue.domain.kinds import with_kinds
from segue.domain.run import Origin, Run, RunState
from segue.domain.task import Task
from segue.features.fleet.git.addresses import canonical_url
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
    from segue.features.fleet.queue import enqueue, open_queue
    from segue.features.fleet.register import Register, entry_of
    from segue.features.fleet.schema import address_of

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
    from segue.features.fleet.queue import dequeue, lock_of, open_queue
    from segue.features.fleet.register import Register
    from segue.features.fleet.schema import address_of

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


def read_tasks(app: App, run: Run) -> list[Task]:
    """Return the tasks of a run's source as it was when the run began."""
    assert run.spec.origin is not None
    return asyncio.run(_read_tasks(app, run, run.spec.origin))


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
            folders = git_dirs(app.repo)
            here = Objects(folders[1]) if folders else None
            if here is None or not await here.has(origin.commit):
                return []  # they are in the repository, which is elsewhere
            await _check_out(here, origin.commit, run.spec.source, place)
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
        url = canonical_url(await repo.remote_url() or "")
    if repo is None or not url:
        return set()
    return {run.id for run in runs if run.spec.origin and canonical_url(run.spec.origin.url) == url}
