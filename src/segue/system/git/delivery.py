"""Looks at finished work as somebody who clones the repository would see it."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from segue.system.git.objects import Objects
from segue.system.git.repository import Repository, common_dir


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


async def find_absent(repo: Repository, commits: Collection[str]) -> frozenset[str]:
    """Return the commits that the repository lacks: it is new, shallow, or another clone."""
    asked = "".join(f"{commit}\n" for commit in commits).encode()
    said = await repo.git("cat-file", "--batch-check", stdin=asked)
    return frozenset(line.split()[0] for line in said.splitlines() if line.endswith(" missing"))


async def find_trailers(repo: Repository, name: str) -> frozenset[str]:
    """Return the values of a trailer in the messages of all commits that a branch, tag or stash contains."""
    said = await repo.git("log", "--all", f"--format=%(trailers:key={name},valueonly)")
    return frozenset(said.split())


def is_shallow(repo: Repository) -> bool:
    """Return whether the repository was cloned without all of its history."""
    return (common_dir(repo.git_dir) / "shallow").is_file()
