"""What `segue gc` may remove: files of ended runs, and what was meant to be thrown away."""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from segue.domain.errors import SegueError
from segue.domain.run import Run, RunState
from segue.ports import Store
from segue.system import identity
from segue.system.git.repository import Repository
from segue.system.git.worktree import Worktree
from segue.system.sweep import belongs, newest, size_of

_ENDED = (RunState.DONE, RunState.FAILED)
_DAY = 86400.0
_SCRATCH = {"worktrees": re.compile(r"tmp[a-z0-9_]{8}"), "scratch": re.compile(r"pg-[a-z0-9_]{8}")}
"""Folders that are thrown away after use, unless Segue was killed: where they lie, what they are called."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What may go."""

    root: Path
    """Segue's own folder: nothing outside of it is ever deleted."""
    age: float
    """Seconds for which things are kept."""
    force: bool = False
    """Whether work trees with uncommitted changes may go too."""

    def old(self, seconds: float) -> bool:
        """Whether an instant is longer ago than things are kept."""
        return time.time() - seconds >= self.age

    def over(self, run: Run | None) -> bool:
        """Whether a run has ended, long enough ago, and nobody drives it."""
        if run is None or run.state not in _ENDED or not self.old(run.updated / 1000):
            return False
        return run.owner is None or identity.is_dead(run.owner.split("#")[0])


@dataclass(frozen=True, slots=True)
class Found:
    """Something that may be removed, or that is kept although its time is over."""

    kind: str
    """`worktree`, `run`, `scratch` or `lock`."""
    path: Path
    bytes: int
    run: str | None = None
    kept: str = ""
    """Why it stays; empty when it may go."""
    repo: Path | None = None
    """The repository that knows of a work tree."""


async def find(rule: Rule, store: Store) -> AsyncIterator[Found]:
    """Everything whose time is over; what lies elsewhere is not even looked at."""
    runs = {run.id: run for run in store.runs()}
    for path in _entries(rule, "worktrees"):
        run = runs.get(path.name)
        if path.is_dir() and run is not None and rule.over(run):
            yield await _worktree(rule, run, path)
    async for found in _vanished(rule, runs):
        yield found
    for path in _entries(rule, "runs"):
        if path.is_dir() and rule.over(runs.get(path.name)):
            why = "an agent may still work for it" if _supervised(path) else ""
            yield Found("run", path, size_of(path), path.name, why)
    for found in (*_scratch(rule), *_locks(rule, runs)):
        yield found


async def _worktree(rule: Rule, run: Run, path: Path) -> Found:
    """The work tree of a run that is over: it stays when something in it is nowhere else."""
    repo = Path(run.spec.repo)
    why = await _unsaved(run, repo, path)
    sure = rule.force and not why.startswith("locked")
    return Found("worktree", path, size_of(path), run.id, "" if sure else why, repo)


async def _vanished(rule: Rule, runs: dict[str, Run]) -> AsyncIterator[Found]:
    """Work trees of ours that were deleted by hand, but that git still knows of."""
    over = [run for run in runs.values() if run.spec.worktree and rule.over(run)]
    for repo in sorted({run.spec.repo for run in over}):
        try:
            listed = await (await Repository.open(Path(repo))).git("worktree", "list", "--porcelain")
        except SegueError:
            continue
        known = {line.removeprefix("worktree ") for line in listed.splitlines()}
        for run in over:
            path = Path(run.place)
            if (
                run.spec.repo == repo
                and run.place in known
                and not path.exists()
                and belongs(rule.root, path)
            ):
                yield Found("worktree", path, 0, run.id, repo=Path(repo))


async def _unsaved(run: Run, repo: Path, path: Path) -> str:
    if run.spec.worktree is None or os.path.realpath(run.place) != os.path.realpath(path):
        return "it is not the work tree of the run it is named after"
    try:
        tree = Worktree.of(await Repository.open(repo), run)
        found = await tree.opened() if tree else None
        if found is None:
            return "git does not know it, so its changes cannot be told"
        now = await found.snapshot()
        held = await found.git(
            "for-each-ref", "--count=1", "--contains", "HEAD", "refs/heads", "refs/remotes"
        )
    except SegueError:
        return f"its repository {repo} is gone, so its changes cannot be told"
    if (found.git_dir / "locked").exists():
        return "locked with `git worktree lock`"
    if now.dirty:
        return "it has uncommitted changes"
    return "" if held else "its last commit is on no branch"


def _supervised(folder: Path) -> bool:
    """Whether a supervisor of the run may be alive."""
    for note in (folder / "supervisors").glob("[0-9]*"):
        try:
            if not identity.is_dead(note.read_text()):
                return True
        except (OSError, UnicodeDecodeError):
            return True
    return False


def _scratch(rule: Rule) -> Iterator[Found]:
    """A folder that somebody works in just now is younger than a day, whatever the rule says."""
    age = max(rule.age, _DAY)
    for name, pattern in _SCRATCH.items():
        for path in _entries(rule, name):
            if pattern.fullmatch(path.name) and path.is_dir() and time.time() - newest(path) >= age:
                yield Found("scratch", path, size_of(path))


def _locks(rule: Rule, runs: dict[str, Run]) -> Iterator[Found]:
    """Locks that guard nothing any more: their state file is gone, or their run is over."""
    for name in ("plans", "prompts"):
        for path in _entries(rule, name):
            if path.name.endswith(".json.lock") and not path.with_suffix("").exists() and _lock(rule, path):
                yield Found("lock", path, size_of(path))
    for path in _entries(rule, "worktrees"):
        if path.suffix == ".lock" and rule.over(runs.get(path.stem)) and _lock(rule, path):
            yield Found("lock", path, size_of(path), path.stem)


def _lock(rule: Rule, path: Path) -> bool:
    return path.is_file() and rule.old(newest(path))


def _entries(rule: Rule, name: str) -> list[Path]:
    """What lies in one of Segue's folders, without links and without anything that is really elsewhere."""
    folder = rule.root / name
    try:
        entries = sorted(folder.iterdir()) if belongs(rule.root, folder) else []
    except OSError:
        return []
    return [entry for entry in entries if belongs(rule.root, entry)]
