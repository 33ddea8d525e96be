"""Looks at finished work as somebody who clones the repository would see it."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from segue.system.git.folders import common_dir
from segue.system.git.repository import Repository

_AS_CLONED = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull}
"""What a clone does not get."""


async def find_missing(repo: Repository, work: Mapping[str, str]) -> list[str]:
    """Say what of recorded work a clone of the repository would lack; nothing if all is well.

    `work` are commits, each with the tree that was checked; an empty one if nothing was.
    """
    asked = "".join(f"{commit}^{{tree}}\n" for commit in work).encode()
    said = await repo.git("cat-file", "--batch-check=%(objectname)", stdin=asked, extra=_AS_CLONED)
    trees = {
        commit: tree
        for commit, tree in zip(work, said.splitlines(), strict=True)
        if not tree.endswith(" missing")
    }
    # Of these commits and their history, what is in no branch.
    names = "".join(f"{commit}\n" for commit in trees).encode()
    heads = ("rev-list", "--stdin", "--not", "--branches", "HEAD")
    astray = {*work} - {*trees} | {*(await repo.git(*heads, stdin=names, extra=_AS_CLONED)).split()}
    return [
        *(f"no branch contains commit {commit[:10]}" for commit in work if commit in astray),
        *(
            f"commit {commit[:10]} does not contain what was checked"
            for commit, tree in work.items()
            if tree and commit not in astray and trees[commit] != tree
        ),
    ]


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
