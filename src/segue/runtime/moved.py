"""Recognise a repository whose folder was moved, mounted elsewhere or cloned again, and bring its runs along.

Runs belong to the folder they began in. Where no run of a source is known, one may have been made when the
repository was elsewhere. If only one repository can be meant, its runs are taken along; a person decides
between two.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.errors import Locked, SegueError, UsageError
from segue.domain.results import CommitOutput, read_as
from segue.domain.run import USUAL_RUNS, RepositoryMark, Run, RunSpec
from segue.store.address import is_postgres
from segue.system import identity
from segue.system.files import write_atomic
from segue.system.git.folders import GitPlace, find_place
from segue.system.git.marks import find_address, find_remotes, find_roots, mark, read_id
from segue.system.git.outside import ask_git

if TYPE_CHECKING:
    from segue.ports import Source
    from segue.runtime.app import App
    from segue.store.store import Store


class CopyKnown(UsageError):
    """Another folder may be the same repository; the user must say which one continues its runs."""


class Elsewhere(Struct, frozen=True):
    """Where the repository was, or may have been, when runs began in it."""

    runs: tuple[Run, ...]
    """The newest run of each such place."""
    why: str = ""
    """Why it is not certain that this is the same one; empty if it is."""
    remains: bool = False
    """Whether one of them may still be there."""

    @property
    def repo(self) -> str:
        """The folder it was in, last."""
        return self.runs[0].spec.repo

    @property
    def words(self) -> str:
        """Say that it is the same one, or why nobody knows."""
        return self.why or f"This repository was at {self.repo}; it is the same one."


def find_elsewhere(
    store: Store, app: App, here: GitPlace, wanted: Callable[[Run], bool] = lambda _run: True
) -> Elsewhere | None:
    """Return where this repository was when a wanted run began; None if it is not known from elsewhere."""
    others = [run for run in store.runs(kinds=USUAL_RUNS) if run.spec.repo != str(here.root) and wanted(run)]
    known = [(run, run.spec.repository) for run in others if run.spec.repository is not None]
    own = read_id(here) if known else ""
    same = [run for run, kept in known if kept.id == own]
    copied = bool(same)
    if not same and here.git_dir == here.common:
        same = _find_clones(here, known) or _find_by_work(store, app, here, others)
    places = {run.spec.repo: run for run in reversed(same)}
    if not places:
        return None
    runs = tuple(sorted(places.values(), key=lambda run: -run.created))
    there = [why for run in runs if (why := _describe_there(app, here, run, copied))]
    if there:
        kind = "a copy of" if copied else "another clone of"
        return Elsewhere(runs, f"{here.root} is {kind} {', and of '.join(there)}.", remains=True)
    several = f"{here.root} may have been any of {', '.join(run.spec.repo for run in runs)}."
    return Elsewhere(runs, several if len(runs) > 1 else "")


def _find_clones(here: GitPlace, known: list[tuple[Run, RepositoryMark]]) -> list[Run]:
    """Return the runs in clones: the same first commits, and the same remote, or one is that of the other."""
    if not any(kept.roots for _, kept in known):
        return []
    remotes, address = find_remotes(here), find_address(here.root)
    alike = [
        (run, kept.roots)
        for run, kept in known
        if kept.roots
        and (
            remotes & {*kept.remotes}
            or address in kept.remotes
            or (kept.host == identity.host() and find_address(Path(run.spec.repo)) in remotes)
        )
    ]
    roots = find_roots(here) if alike else ""
    return [run for run, theirs in alike if theirs == roots]


def _find_by_work(store: Store, app: App, here: GitPlace, runs: list[Run]) -> list[Run]:
    """Return the runs whose folder is gone and whose first commit is here: older versions left no mark."""
    found: dict[str, bool] = {}
    for run in runs:
        kept, folder = run.spec.repository, run.spec.repo
        away = is_postgres(app.database()) and (kept is None or kept.host != identity.host())
        if found.get(folder) or away or (kept and not kept.roots) or find_place(Path(folder)) is not None:
            continue
        steps = (step for step in store.steps(run.id) if step.phase == "commit")
        commit = next((made for step in steps if (made := read_as(CommitOutput, step.output).commit)), None)
        if commit is not None:
            found[folder] = ask_git(here, "merge-base", commit, "HEAD").decode().strip() == commit
    return [run for run in runs if found.get(run.spec.repo)]


def _describe_there(app: App, here: GitPlace, run: Run, copied: bool) -> str:
    """Name the place of a run if its repository may still be there; empty if it is gone."""
    kept, folder = run.spec.repository, Path(run.spec.repo)
    if kept is None:
        return ""  # known by its work, and gone
    if is_postgres(app.database()) and kept.host != identity.host():
        return f"{folder} on the machine {kept.host}, where run {run.id} worked"
    there = find_place(folder)
    if there is None or there.root != Path(os.path.realpath(folder)):
        return ""
    with contextlib.suppress(OSError):
        if there.root.samefile(here.root):  # mounted twice
            return ""
    if copied and read_id(there) != kept.id:
        return ""  # another repository has its place now
    return f"{folder}, which still exists and where run {run.id} worked"


def known_key(store: Store, app: App, source: Source) -> str:
    """Return the key under which runs of a source are stored: that of another folder, if it was moved."""
    here = None if store.runs(source_key=source.key, limit=1) else find_place(app.repo)
    found = find_elsewhere(store, app, here, _same_source(source, here)) if here else None
    return found.runs[0].source_key if found and not found.why else source.key


def _same_source(source: Source, here: GitPlace) -> Callable[[Run], bool]:
    def is_same(run: Run) -> bool:
        named = _rebase(run.spec.source, run.spec.repo, str(here.root))
        return run.spec.source_kind == source.kind and named == source.address

    return is_same


def settle_source(app: App, source: Source, root: Path, *, restart: bool = False) -> tuple[str, bool]:
    """Bring along the runs of a source that began in another folder of this repository.

    Returns what to say, and whether this is a copy that starts over and needs a name of its own. Raises
    CopyKnown if a person must decide.
    """
    here = find_place(root)
    if here is None or here.root != root:
        return "", False
    with app.store(read_only=True) as known:
        if known.runs(source_key=source.key, limit=1):
            return "", False
        found = find_elsewhere(known, app, here, _same_source(source, here))
    if found is None:
        return "", False
    choice = "restart" if restart else app.loaded.settings.plan_changed
    if found.why and choice == "restart":
        return "", True
    if found.why and choice == "ask":
        there = f"To continue there: cd {found.repo}. " if found.remains else ""
        raise CopyKnown(
            found.why,
            kept="Nothing was started or changed.",
            hint=f"{there}If this folder takes the place of {found.repo}, whose runs count here then: "
            f"segue run {source.address} --plan-changed keep. To do every task here: --plan-changed restart",
        )
    take_over(app, found.repo, here)
    return f"This repository was at {found.repo}; it is the same one.", False


def settle_here(app: App) -> str:
    """Bring along all runs of this repository, if it has none in its folder; returns what to say."""
    here = find_place(app.repo)
    if here is None:
        return ""
    with app.store(read_only=True) as known:
        if any(run.spec.repo == str(here.root) for run in known.runs()):
            return ""
        found = find_elsewhere(known, app, here)
    if found is None or found.why:
        return ""
    take_over(app, found.repo, here)
    return found.words


def take_over(app: App, old: str, here: GitPlace) -> None:
    """Let the runs of a folder belong to another one, with their state files and work trees."""
    new, known_by = str(here.root), mark(here)
    with app.store() as store:
        runs = [run for run in store.runs() if run.spec.repo == old and run.spec.origin is None]
        for run in runs:
            _refuse_driven(run)
        moved: dict[str, tuple[str, RunSpec]] = {}
        for run in runs:
            spec = replace(_move_spec(run.spec, old, new), repository=known_by)
            with contextlib.suppress(SegueError):  # a source that is not here stays where it was
                key = app.past_source(replace(run, spec=spec)).key
                if key == run.source_key or not store.runs(source_key=key, limit=1):
                    moved[run.id] = key, spec
        # Files first: a kill in between leaves them to be found missing and made again from the journal.
        for run in (run for run in runs if run.id in moved):
            _move_files(app, run.source_key, moved[run.id][0])
            for note in app.guard_folder(run.id).rglob("before.json"):
                _move_note(note, old, new)
        store.relocate(moved)
    trees = {str(path) for path in (Path(run.place) for run in runs if run.spec.worktree) if path.is_dir()}
    if trees:
        ask_git(here, "worktree", "repair", *trees)


def mark_place(root: Path, git_dir: Path, *, fresh: bool = False) -> RepositoryMark:
    """Return what a repository is recognised by from now on."""
    return mark(GitPlace.of(root, git_dir), fresh=fresh)


def _refuse_driven(run: Run) -> None:
    owner = (run.owner or "").split("#")[0]
    if owner and not identity.is_dead(owner):
        raise Locked(
            f"Run {run.id}, which began in {run.spec.repo}, is still being worked on by process "
            f"{identity.pid_of(owner)} on {owner.split('/')[0]}.",
            kept="Nothing was changed.",
            hint=f"Stop it first: segue stop {run.id}",
        )


def _move_spec(spec: RunSpec, old: str, new: str) -> RunSpec:
    return replace(
        spec,
        repo=new,
        source=_rebase(spec.source, old, new),
        config=_rebase(spec.config, old, new),
        worktree=_rebase(spec.worktree, old, new),
        settings=_rebase(spec.settings, old, new),
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


def _move_files(app: App, old: str, new: str) -> None:
    """Rename the state files of a source; one that is there already counts."""
    for path in app.state_dir.glob(f"*/{old}.json"):
        target = path.with_name(f"{new}.json")
        if not target.exists():
            path.rename(target)


def _move_note(note: Path, old: str, new: str) -> None:
    """Let what a launch must not have touched be looked for in the new place."""
    with contextlib.suppress(OSError, ValueError):
        write_atomic(note, json.dumps(_rebase(json.loads(note.read_bytes()), old, new)).encode())
