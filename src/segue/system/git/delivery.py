"""Looks at finished work as somebody who clones the repository would see it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from segue.system.git.objects import Objects
from segue.system.git.repository import Repository


async def missing_from_clone(
    repo: Repository, head: str, commits: Sequence[str], trees: Mapping[str, str]
) -> list[str]:
    """Clone a commit and say what is missing there of what a run recorded; nothing if all is well.

    `commits` must be reachable from `head`; `trees` are commits with the tree that was checked.
    """
    with tempfile.TemporaryDirectory(prefix="segue-clone-") as parent:
        place = Path(parent) / "clone"
        name = f"refs/segue/delivery/{head[:12]}"
        await repo.git("update-ref", name, head)
        try:
            await repo.git("clone", "--quiet", "--bare", "--template=", str(repo.root), str(place))
        finally:
            await repo.git("update-ref", "-d", name)
        clone = Objects(place)
        reached = set((await clone.git("rev-list", head)).out.decode().split())
        found = [
            f"commit {commit[:10]} cannot be reached from {head[:10]}"
            for commit in commits
            if commit not in reached
        ]
        for commit, tree in trees.items():
            if commit in reached and await clone.tree_of(commit) != tree:
                found.append(f"commit {commit[:10]} does not contain what was checked")
    return found
