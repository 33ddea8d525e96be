"""Processes merge into one branch while they are killed at random: no work is lost or merged twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.crash.points import SEED
from tests.system.test_git import git, repo
from tests.system.test_merging import RUN, commit

__all__ = ["repo"]
LANES = 4
KILLS = 12
DEADLINE = 240.0

_LANE = """
import asyncio, sys
from pathlib import Path
from segue.system.git.integration import Integration
from segue.system.git.repository import Repository
async def lane(repo, branch, work):
    own = Integration(await Repository.open(Path(repo)), branch, since=1.0)
    await own.repo.recover(own.since)
    while not await own.contains(work):
        head = await own.head()
        merged = await own.merge(head, work)
        await own.advance(head, await own.join(head, work, merged.tree, f"Merge {work}\\n"))
asyncio.run(lane(*sys.argv[1:]))
"""


def start(repo: Path, work: str) -> subprocess.Popen[bytes]:
    """Start a lane in a session of its own, so that it is killed together with its git."""
    return subprocess.Popen(
        [sys.executable, "-c", _LANE, str(repo), RUN, work], start_new_session=True, stderr=subprocess.DEVNULL
    )


def test_every_lane_gets_its_work_onto_the_branch_once(repo: Path) -> None:
    rng, base = random.Random(SEED), git(repo, "rev-parse", "HEAD")
    git(repo, "branch", RUN)
    works = [commit(repo, base, {f"folder/{number}": b"work\n"}) for number in range(LANES * 3)]
    lanes: dict[str, subprocess.Popen[bytes]] = {}
    waiting, kills = list(works), 0
    end = time.monotonic() + DEADLINE
    while waiting or lanes:
        assert time.monotonic() < end, f"{len(lanes)} are at work; SEGUE_CRASH_SEED={SEED}"
        while waiting and len(lanes) < LANES:
            work = waiting.pop(0)
            lanes[work] = start(repo, work)
        if kills < KILLS:
            time.sleep(rng.random() * 0.6)
            victim = rng.choice(list(lanes.values()))
            with suppress(ProcessLookupError):
                os.killpg(victim.pid, signal.SIGKILL)
            kills += 1
        for work, lane in list(lanes.items()):
            with suppress(subprocess.TimeoutExpired):
                lane.wait(0.02)
                del lanes[work]
                waiting += [work] if lane.returncode else []
    merges = git(repo, "log", "--first-parent", "--format=%s", f"{base}..{RUN}").splitlines()
    assert sorted(merges) == sorted(f"Merge {work}" for work in works)
    names = git(repo, "ls-tree", "--name-only", f"{RUN}:folder").split()
    assert sorted(names) == sorted(map(str, range(len(works))))
    git(repo, "fsck", "--strict")
    assert not list((repo / ".git").rglob("*.lock"))


def test_a_gc_that_never_rests_takes_nothing_away(repo: Path) -> None:
    base = git(repo, "rev-parse", "HEAD")
    git(repo, "branch", RUN)
    works = [commit(repo, base, {f"folder/{number % 4}/{number}": b"work\n"}) for number in range(8)]
    loop = "while test ! -e done; do git gc --quiet --prune=now; done 2> /dev/null"
    collector = subprocess.Popen(["sh", "-c", loop], cwd=repo, start_new_session=True)
    try:
        for work in works:
            start(repo, work).wait(DEADLINE)
    finally:
        (repo / "done").touch()
        collector.wait(DEADLINE)
    assert len(git(repo, "ls-tree", "-r", "--name-only", f"{RUN}:folder").split()) == len(works)
    git(repo, "fsck", "--strict")
