"""What it costs to merge a finished task into the branch of a run, beside `git merge` in a work tree."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.place import Place, place
from bench.table import Figure, milliseconds, more
from segue.system.git.integration import Integration
from segue.system.git.repository import Repository

_BRANCH = "segue/parts/lab/bench"
_MOST = 60.0


def figures(quick: bool) -> Iterator[Figure]:
    """Measure merges in a small repository and in a large one."""
    for files in (10, 1_000 if quick else 10_000):
        yield _merge(files, repeats=10 if quick else 30)


def _merge(files: int, repeats: int) -> Figure:
    with place() as here:
        start, lanes = _history(here, files, repeats)
        ours = asyncio.run(_time_ours(here.repo, start, lanes))
        _git(here.repo, "checkout", "--quiet", "--detach", lanes[0])
        bare = [_time(here.repo, lane) for lane in lanes[1:]]
    mine, yardstick = 1000 * median(ours), 1000 * median(bare)
    return Figure(
        f"merge of a task without checks, {files:,} files",
        milliseconds(mine),
        f"`git merge` {milliseconds(yardstick)}",
        more(milliseconds, mine - yardstick),
        f"≤ {_MOST:.0f} ms",
        mine <= _MOST,
    )


async def _time_ours(repo: Path, start: str, lanes: list[str]) -> list[float]:
    own = Integration(await Repository.open(repo), _BRANCH)
    assert await own.advance(start, lanes[0])
    taken = []
    for lane in lanes[1:]:
        began = time.monotonic()
        head = await own.head()
        merged = await own.merge(head, lane)
        made = await own.join(head, lane, merged.tree, "Merge\n")
        assert await own.advance(head, made)
        taken.append(time.monotonic() - began)
    return taken[1:]  # the first one also asks for the settings


def _time(repo: Path, lane: str) -> float:
    began = time.monotonic()
    _git(repo, "merge", "--quiet", "--no-edit", lane)
    return time.monotonic() - began


def _history(here: Place, files: int, lanes: int) -> tuple[str, list[str]]:
    """Commit many files, and on top of that one change for each lane."""
    for number in range(files):
        path = here.repo / f"folder{number % 100}" / f"file{number}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{number}\n" * 20)
    _git(here.repo, "add", "--all")
    _git(here.repo, "commit", "--quiet", "--message=Start")
    start = _git(here.repo, "rev-parse", "HEAD")
    _git(here.repo, "branch", _BRANCH, start)
    made = []
    for number in range(lanes + 1):
        _git(here.repo, "checkout", "--quiet", "--detach", start)
        (here.repo / "folder0" / f"work{number}").write_text("work\n")
        _git(here.repo, "add", "--all")
        _git(here.repo, "commit", "--quiet", f"--message=Task {number}")
        made.append(_git(here.repo, "rev-parse", "HEAD"))
    return start, made


def _git(repo: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=repo, check=True, capture_output=True, text=True)
    return done.stdout.strip()
