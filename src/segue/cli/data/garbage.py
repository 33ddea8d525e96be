"""Find what `segue gc` may delete: files of finished runs and temporary folders."""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from segue.domain.errors import SegueError
from segue.domain.run import Run, RunState
from segue.system import identity
from segue.system.git.index import take_snapshot
from segue.system.git.repository import Repository
from segue.system.git.worktree import LinkedTree
from segue.system.lane import LANE_NAME
from segue.system.sweep import belongs, newest, size_of

if TYPE_CHECKING:
    from segue.store.store import Store


_ENDED = (RunState.DONE, RunState.FAILED)
_DAY = 86400.0
_SCRATCH = {
    "worktrees": re.compile(r"tmp[a-z0-9_]{8}"),
    "scratch": re.compile(r"(?:pg|replay|check)-[a-z0-9_]{8}"),
}
"""Temporary folders that remain when Segue is killed: parent folder → name pattern."""


class Rule(Struct, frozen=True):
    """Which leftovers may be deleted."""

    root: Path
    """Segue's state folder: nothing outside it is ever deleted."""
    age: float
    """How long leftovers are kept, in seconds."""
    force: bool = False
    """Also delete worktrees with uncommitted changes."""

    def is_old(self, seconds: float) -> bool:
        """Return whether this instant is longer ago than leftovers are kept."""
        return time.time() - seconds >= self.age

    def is_over(self, run: Run | None) -> bool:
        """Return whether a run ended long enough ago and no process drives it."""
        if run is None or run.state not in _ENDED or not self.is_old(run.updated / 1000):
            return False
        return run.owner is None or identity.is_dead(run.owner.split("#")[0])


class Leftover(Struct, frozen=True):
    """Something old enough to delete, with the reason if it is kept anyway."""

    kind: str
    """`worktree`, `run`, `scratch` or `lock`."""
    path: Path
    bytes: int
    run: str | None = None
    kept: str = ""
    """Why it is kept; empty if it may be deleted."""
    repo: Path | None = None
    """The repository that a worktree belongs to."""


async def find_leftovers(rule: Rule, store: Store) -> AsyncIterator[Leftover]:
    """Yield every leftover in the state folder."""
    runs = {run.id: run for run in store.runs()}
    for path in _entries(rule, "worktrees"):
        run = runs.get(_run_of(path.name))
        if run is None or not rule.is_over(run):
            continue
        if "." in path.name and LANE_NAME.fullmatch(path.name.partition(".")[0]):
            yield Leftover("scratch", path, size_of(path), run.id)
        elif path.is_dir():
            yield await _worktree(rule, run, path)
    async for found in _deleted_worktrees(rule, runs):
        yield found
    for path in _entries(rule, "runs"):
        if path.is_dir() and rule.is_over(runs.get(path.name)):
            why = "an agent may still be running" if _is_supervised(path) else ""
            yield Leftover("run", path, size_of(path), path.name, why)
    for found in (*_scratch(rule), *_bases(rule), *_environments(rule), *_exams(rule), *_locks(rule, runs)):
        yield found


async def _worktree(rule: Rule, run: Run, path: Path) -> Leftover:
    """Describe the worktree of a finished run; it is kept if it contains unsaved work."""
    repo = Path(run.spec.repo)
    why = await _unsaved(run, repo, path)
    sure = rule.force and not why.startswith("locked")
    return Leftover("worktree", path, size_of(path), run.id, "" if sure else why, repo)


async def _deleted_worktrees(rule: Rule, runs: dict[str, Run]) -> AsyncIterator[Leftover]:
    """Yield worktrees that were deleted by hand but are still registered with git."""
    over = [run for run in runs.values() if run.spec.worktree and rule.is_over(run)]
    for repo in sorted({run.spec.repo for run in over}):
        try:
            listed = await (await Repository.open(Path(repo))).git("worktree", "list", "--porcelain")
        except SegueError:
            continue
        mine = {run.id for run in over if run.spec.repo == repo}
        for line in listed.splitlines():
            path = Path(line.removeprefix("worktree "))
            gone = line.startswith("worktree ") and not path.exists()
            if gone and _run_of(path.name) in mine and belongs(rule.root, path):
                yield Leftover("worktree", path, 0, _run_of(path.name), repo=Path(repo))


async def _unsaved(run: Run, repo: Path, path: Path) -> str:
    is_lane = LANE_NAME.fullmatch(path.name) is not None
    if not is_lane and path.name != run.id:
        return "it has files of a lane that git does not know"
    if run.spec.worktree is None or (not is_lane and os.path.realpath(run.place) != os.path.realpath(path)):
        return "it is not the worktree of the run it is named after"
    try:
        home = await Repository.open(repo)
        found = await LinkedTree(home, path).opened()
        if found is None:
            return "git does not list it, so its changes are unknown"
        now = await take_snapshot(found)
        places = ("refs/heads", "refs/remotes", f"refs/segue/kept/{run.id}")
        held = await found.git("for-each-ref", "--count=1", "--contains", "HEAD", *places)
    except SegueError:
        return f"its repository {repo} is gone, so its changes are unknown"
    if (found.git_dir / "locked").exists():
        return "locked with `git worktree lock`"
    if now.dirty:
        return "it has uncommitted changes"
    return "" if held else "its last commit is on no branch"


def _run_of(name: str) -> str:
    """Return the run that something is named after: `RUN`, `RUN-lane-2` and the like."""
    found = re.match(r"(.+?)(-lane-[1-9][0-9]{0,3}.*|-kept)", name, re.DOTALL)
    return found[1] if found else name


def _is_supervised(folder: Path) -> bool:
    """Return whether a supervisor of the run may be alive."""
    for note in (folder / "supervisors").glob("[0-9]*"):
        try:
            if not identity.is_dead(note.read_text()):
                return True
        except (OSError, UnicodeDecodeError):
            return True
    return False


def _scratch(rule: Rule) -> Iterator[Leftover]:
    """Yield temporary folders; one younger than a day may be in use, so it is kept."""
    age = max(rule.age, _DAY)
    for name, pattern in _SCRATCH.items():
        for path in _entries(rule, name):
            if pattern.fullmatch(path.name) and path.is_dir() and time.time() - newest(path) >= age:
                yield Leftover("scratch", path, size_of(path))


def _bases(rule: Rule) -> Iterator[Leftover]:
    """Yield results of checks on trees that no run has begun with for long; they can be had again."""
    for path in _entries(rule, "bases"):
        if path.suffix == ".json" and path.is_file() and rule.is_old(newest(path)):
            yield Leftover("scratch", path, size_of(path))


def _environments(rule: Rule) -> Iterator[Leftover]:
    """Yield what setup commands made for checks and nobody has used for long."""
    for folder in _entries(rule, "environments"):
        for path in sorted(folder.glob("setup/*/*")):
            if path.is_dir() and not path.is_symlink() and rule.is_old(newest(path)):
                yield Leftover("scratch", path, size_of(path))


def _exams(rule: Rule) -> Iterator[Leftover]:
    """Yield independent tests that were written long ago."""
    for folder in _entries(rule, "exams"):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.is_file() and rule.is_old(newest(path)):
                yield Leftover("scratch", path, size_of(path))


def _locks(rule: Rule, runs: dict[str, Run]) -> Iterator[Leftover]:
    """Yield stale locks: their state file is gone, or their run is over."""
    for name in ("plans", "prompts"):
        for path in _entries(rule, name):
            if (
                path.name.endswith(".json.lock")
                and not path.with_suffix("").exists()
                and _is_old_lock(rule, path)
            ):
                yield Leftover("lock", path, size_of(path))
    for path in _entries(rule, "worktrees"):
        if path.suffix == ".lock" and rule.is_over(runs.get(path.stem)) and _is_old_lock(rule, path):
            yield Leftover("lock", path, size_of(path), path.stem)


def _is_old_lock(rule: Rule, path: Path) -> bool:
    return path.is_file() and rule.is_old(newest(path))


def _entries(rule: Rule, name: str) -> list[Path]:
    """Return the entries of a subfolder, without links that point out of the state folder."""
    folder = rule.root / name
    try:
        entries = sorted(folder.iterdir()) if belongs(rule.root, folder) else []
    except OSError:
        return []
    return [entry for entry in entries if belongs(rule.root, entry)]
