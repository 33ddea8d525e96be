"""Looks at finished work as somebody who clones the repository would see it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from segue.system.git.objects import Objects
from segue.system.git.repository import Repository


async def missing_from_clone(repo: Repository, work: Mapping[str, str]) -> list[str]:
    """Clone the repository and say what is missing there of recorded work; nothing if all is well.

    `work` are commits, each with the tree that was checked; an empty one if nothing was.
    """
    with tempfile.TemporaryDirectory(prefix="segue-clone-") as parent:
        place = Path(parent) / "clone"
        await repo.git("clone", "--quiet", "--bare", "--template=", str(repo.root), str(place))
        heads = await Repository(place, place).git("rev-parse", "--branches", "HEAD")
        clone = Objects(place)
        walked = await clone.git("rev-list", "--stdin", stdin=heads.encode())
        reached = set(walked.out.decode().split())
        found = [f"no branch contains commit {commit[:10]}" for commit in work if commit not in reached]
        for commit, tree in work.items():
            if tree and commit in reached and await clone.tree_of(commit) != tree:
                found.append(f"commit {commit[:10]} does not contain what was checked")
    return found
