"""Find the run that somebody means: by its id, a part of it, or as the newest one here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from segue.domain.errors import UsageError
from segue.domain.run import USUAL_RUNS, Run, RunState
from segue.domain.text import suggest
from segue.plugins import find_call
from segue.view.load import ACTIVE

if TYPE_CHECKING:
    from segue.runtime.app import App
    from segue.runtime.moved import Elsewhere
    from segue.store.store import Store

NEWEST = ("last", "latest")
"""Words for the newest run."""
_SHORTEST = 4
"""How long a part of an id must be: `2`, which begins all of them, is rather a task."""
_KNOWN = 200
"""Among how many of the newest runs a mistyped one is searched."""


def find_run(store: Store, app: App, name: str | None) -> Run:
    """Return the run with this id or unique prefix; for `last` or nothing, the newest from here.

    Raises UsageError if there is none.
    """
    run = _named(store, name) or newest_run(store, app)
    if run is not None:
        return run
    found = _find_elsewhere(store, app)
    if found is not None:
        raise UsageError(
            f"There is no run in {app.repo}. {found.words}",
            hint=f"Show that one: segue status {found.runs[0].id}   Start one here: segue run SOURCE",
        )
    raise UsageError(
        f"There is no run in {app.repo}.",
        hint="Start one: segue run SOURCE   Try: segue demo   All runs: segue status",
    )


def _find_elsewhere(store: Store, app: App) -> Elsewhere | None:
    """Return where the repository was when runs began in it, if its folder was moved since."""
    from segue.runtime.moved import find_elsewhere
    from segue.system.git.folders import find_place

    here = find_place(app.repo)
    return find_elsewhere(store, app, here) if here is not None else None


def find_unfinished(store: Store, app: App, name: str | None, *, idle: bool = False) -> Run | None:
    """Return the run with this id or unique prefix; without a name, the newest from here that is not done.

    With `idle`, one that the workers of a fleet see to does not count then.
    """

    def is_wanted(run: Run) -> bool:
        is_driven = run.spec.origin is not None and run.state in ACTIVE
        return run.state is not RunState.DONE and not (idle and is_driven)

    if name in NEWEST:
        return newest_run(store, app)
    return _named(store, name) or newest_run(store, app, is_wanted)


def _named(store: Store, name: str | None) -> Run | None:
    if name is None or name in NEWEST:
        return None
    run = store.run(name)
    if run is None or (len(name) < _SHORTEST and run.id != name):
        raise UsageError(
            f"There is no run {name!r}.{_meant(store, name)}",
            hint="List the runs: segue status   The newest is `last`",
        )
    return run


def _meant(store: Store, name: str) -> str:
    return suggest(name, [run.id for run in store.runs(limit=_KNOWN)], alike=0.8)


def newest_run(store: Store, app: App, is_wanted: Callable[[Run], bool] = lambda _run: True) -> Run | None:
    """Return the newest run of this work tree, or of the repository if the work tree has none of its own.

    What you submitted from here to a fleet counts, wherever it is driven. Runs of other repositories, other
    people and other kinds, such as trials of experiments, are reached by their ids.
    """
    from segue.system.git.folders import git_dirs

    dirs = cache(git_dirs)
    here, runs = dirs(app.repo), store.runs(kinds=USUAL_RUNS)
    if here is None:
        near = [run for run in runs if _contains(run, app.repo)]
    else:
        known = [(run, [dirs(place) for place in _places(run)]) for run in runs]
        sent = _submitted(app.repo, runs)
        near = [
            run for run, found in known if run.id in sent or any(one and one[0] == here[0] for one in found)
        ]
        near = near or [run for run, found in known if _is_in(found, 1, here)]
        near = near or _moved_here(store, app, runs)
    return next((run for run in near if is_wanted(run)), None)


def _moved_here(store: Store, app: App, runs: Sequence[Run]) -> list[Run]:
    """Return the runs of the folder in which this repository certainly was before."""
    found = _find_elsewhere(store, app) if runs else None
    if found is None or found.why:
        return []
    sys.stderr.write(f"{found.words}\n")
    return [run for run in runs if run.spec.repo == found.repo]


def _is_in(found: Sequence[tuple[Path, Path] | None], which: int, here: tuple[Path, Path]) -> bool:
    return any(one and one[which] == here[which] for one in found)


def _submitted(repo: Path, runs: Sequence[Run]) -> set[str]:
    """Return the ids of those runs that you have submitted from a repository to other machines."""
    if all(run.spec.origin is None for run in runs):
        return set()  # one machine pays nothing for fleets
    found: set[str] = find_call("fleet.find_submitted")(repo, runs)
    return found


def _places(run: Run) -> list[Path]:
    """Return where a run works, as far as that still exists."""
    return [path for path in (Path(run.spec.repo), Path(run.place)) if path.is_dir()]


def _contains(run: Run, folder: Path) -> bool:
    return any(folder.is_relative_to(place) for place in (run.spec.repo, run.place))
