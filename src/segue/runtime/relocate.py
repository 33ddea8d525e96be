"""Bring the runs of a repository along whose folder was moved: the id in its git folder is still the same."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from segue.domain.errors import Locked, SegueError
from segue.domain.run import USUAL_RUNS, RepositoryMark, Run, RunSpec
from segue.system import identity
from segue.system.files import write_atomic
from segue.system.git.folders import GitPlace, find_place, make_id, read_id
from segue.system.git.outside import ask_git

if TYPE_CHECKING:
    from segue.ports import Source
    from segue.runtime.app import App
    from segue.store.store import Store


def find_moved(store: Store, folder: Path) -> list[Run]:
    """Return the runs of this repository that began when it was in another folder, the newest first.

    A copy has the same id; while the original is there, the runs are its own.
    """
    here = find_place(folder)
    own = read_id(here.git_dir) if here is not None else ""
    if here is None or not own:
        return []
    runs = [
        run for run in store.runs(kinds=USUAL_RUNS) if run.spec.repository and run.spec.repository.id == own
    ]
    others = [run for run in runs if run.spec.repo != str(here.root)]
    there = {repo for repo in {run.spec.repo for run in others} if _is_there(Path(repo), here, own)}
    return [run for run in others if run.spec.repo not in there]


def _is_there(folder: Path, here: GitPlace, own: str) -> bool:
    there = find_place(folder)
    if there is None or there.root != folder or read_id(there.git_dir) != own:
        return False
    return not there.root.samefile(here.root)  # mounted twice


def say_moved(runs: list[Run]) -> str:
    """Say where the repository was before."""
    return f"This repository was at {runs[0].spec.repo}; it is the same one."


def known_key(store: Store, app: App, source: Source) -> str:
    """Return the key under which runs of a source are stored: that of another folder, if it was moved."""
    if store.runs(source_key=source.key, limit=1):
        return source.key
    place = find_place(app.repo)
    for run in find_moved(store, app.repo):
        named = _rebase(run.spec.source, run.spec.repo, str(place.root)) if place else ""
        if run.spec.source_kind == source.kind and named == source.address:
            return run.source_key
    return source.key


def bring_along(app: App, folder: Path) -> str:
    """Let runs that began in another folder of this repository belong to this one; return what to say."""
    here = find_place(folder)
    with app.store(read_only=True) as known:
        runs = find_moved(known, folder) if here is not None else []
    if here is None or not runs:
        return ""
    for old in {run.spec.repo for run in runs}:
        _take_over(app, old, here)
    return say_moved(runs)


def mark_place(store: Store, root: Path, git_dir: Path) -> RepositoryMark:
    """Return what a repository is recognised by from now on; a copy of another gets an id of its own."""
    own = read_id(git_dir)
    places = {run.spec.repo for run in store.runs() if run.spec.repository and run.spec.repository.id == own}
    return RepositoryMark(make_id(git_dir, fresh=bool(places) and str(root) not in places), identity.host())


def _take_over(app: App, old: str, here: GitPlace) -> None:
    """Let the runs of a folder belong to another one, with their state files and work trees."""
    new = str(here.root)
    with app.store() as store:
        runs = [run for run in store.runs() if run.spec.repo == old and run.spec.origin is None]
        for run in runs:
            _refuse_driven(run)
        moved: dict[str, tuple[str, RunSpec]] = {}
        for run in runs:
            named = ("repo", "source", "config", "worktree", "settings")
            spec = replace(run.spec, **{name: _rebase(getattr(run.spec, name), old, new) for name in named})
            with contextlib.suppress(SegueError):  # a source that is not here stays where it was
                key = app.past_source(replace(run, spec=spec)).key
                if key == run.source_key or not store.runs(source_key=key, limit=1):
                    moved[run.id] = key, spec
        # Files first: a kill in between leaves them to be found missing and made again from the journal.
        for run in (run for run in runs if run.id in moved):
            for path in app.state_dir.glob(f"*/{run.source_key}.json"):
                target = path.with_name(f"{moved[run.id][0]}.json")
                if not target.exists():
                    path.rename(target)
            for note in app.guard_folder(run.id).rglob("before.json"):
                with contextlib.suppress(OSError, ValueError):
                    write_atomic(note, json.dumps(_rebase(json.loads(note.read_bytes()), old, new)).encode())
        store.relocate(moved)
    trees = {str(path) for path in (Path(run.place) for run in runs if run.spec.worktree) if path.is_dir()}
    if trees:
        ask_git(here, "worktree", "repair", *trees)


def _refuse_driven(run: Run) -> None:
    owner = (run.owner or "").split("#")[0]
    if owner and not identity.is_dead(owner):
        raise Locked(
            f"Run {run.id}, which began in {run.spec.repo}, is still being worked on by process "
            f"{identity.pid_of(owner)} on {owner.split('/')[0]}.",
            kept="Nothing was changed.",
            hint=f"Stop it first: segue stop {run.id}",
        )


def _rebase(value: Any, old: str, new: str) -> Any:
    """Return a value in which all paths in one folder are paths in another."""
    if isinstance(value, str):
        return new + value[len(old) :] if value == old or value.startswith(f"{old}/") else value
    if isinstance(value, Mapping):
        return {_rebase(name, old, new): _rebase(one, old, new) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_rebase(one, old, new) for one in value)
    return value
