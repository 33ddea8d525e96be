"""The page of a fleet: its workers, what waits for what, schedules and limits; where there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.domain.errors import SegueError
from segue.runtime.app import App
from segue.store.address import is_postgres
from segue.web.cache import VersionedCache
from segue.web.routes import Data, NotFound, PageRequest, PageRoute

if TYPE_CHECKING:
    from segue.store.store import Store


_PREPARED = VersionedCache[bool](8, max_age=30.0)
"""Whether a database was prepared for a fleet: somebody may do that while the page is open."""


def has_fleet(app: App, store: Store) -> bool:
    """Return whether `segue fleet init` was run on this database; a file is not even asked."""
    address = app.database()
    if not is_postgres(address):
        return False
    sql = "SELECT to_regclass('segue_fleet.versions') IS NOT NULL AS found"
    return _PREPARED.get(address, None, lambda: bool(store.query(sql)[0]["found"]))


def query_fleet(request: PageRequest) -> Data:
    """Return what `segue fleet status --json` prints, and the names of the runs in it."""
    if not has_fleet(request.app, request.store):
        raise NotFound(
            "There is no fleet on this database.", hint="One machine needs none; else: segue fleet init"
        )
    from msgspec import to_builtins

    from segue.parts.fleet.status import read_status

    found: dict[str, Any] = to_builtins(read_status(request.store))
    shown = [*found["stalled"], *(run for one in found["workers"] + found["queues"] for run in one["runs"])]
    runs = map(request.store.run, dict.fromkeys(shown))
    return {**found, "names": {run.id: run.source_name for run in runs if run}}


def find_stuck(app: App, store: Store) -> dict[str, str]:
    """Return the runs that no worker can drive, and why."""
    if not has_fleet(app, store):
        return {}
    from segue.parts.fleet.status import read_status

    try:
        status = read_status(store)
    except SegueError:
        return {}
    needs = {
        run: f"No worker has what it needs: {', '.join(queue.needs) or 'any worker'}. Start one: segue worker"
        for queue in status.queues
        if not queue.served
        for run in queue.runs
    }
    return {**needs, **dict.fromkeys(status.stalled, "Its worker is silent; another one takes it over.")}


PAGES = (PageRoute("/fleet", "fleet.html", "Fleet", query_fleet, menu="Runs", live=True, exists=has_fleet),)
