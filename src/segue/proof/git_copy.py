"""A git folder of its own for a tree: it has the repository's history, and changes stay in it.

Checks compare what they generate with what is committed (`git diff --exit-code`), and ask git for versions.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from segue.proof.trees import TreeEntry, write_index
from segue.system.git.objects import Objects, as_alternates

SHARED_OBJECTS = ".git/shared"
"""Where a tree with a git folder of its own has git's objects."""
_REFS = ("heads", "tags", "remotes")
_ALONE = ("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.fsyncMethod=batch")
_IDENTITY = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "check"), ("EMAIL", "check@localhost"))
}


class GitSource(Struct, frozen=True):
    """The repository of a work tree."""

    git_dir: Path
    """The work tree's own git folder."""
    objects: Objects


def make_git(folder: Path, source: GitSource) -> None:
    """Make a git folder that reads the repository's objects and has its history."""
    git_dir, objects = source.git_dir, source.objects
    common = objects.common_dir
    for name in ("objects/info", "refs", "info"):
        (folder / name).mkdir(parents=True)
    (folder / "objects/info/alternates").write_bytes(os.fsencode(f"{common}/objects\n"))
    (folder / "config").write_text(objects.format().replace("bare = true", "bare = false"))
    for place, name in (
        (git_dir, "HEAD"),
        (git_dir, "index"),
        (common, "packed-refs"),
        (common, "shallow"),
        (common, "info/exclude"),
    ):
        if (place / name).is_file():
            shutil.copyfile(place / name, folder / name)
    for name in _REFS:
        if (common / "refs" / name).is_dir():
            with suppress(shutil.Error):  # another lane may be at work there
                locks = shutil.ignore_patterns("*.lock")
                shutil.copytree(common / "refs" / name, folder / "refs" / name, ignore=locks)


async def commit_tree(tree: Path, entries: Mapping[str, TreeEntry], objects: Objects) -> Path | None:
    """Commit a tree in a git folder of its own, on top of the last commit; return the objects that it shares.

    None: the work tree is in no repository.
    """
    if objects.place is None or (tree / ".git").exists():
        return None
    git = tree / ".git"
    make_git(git, GitSource(objects.place.git_dir, objects))
    (git / "index").unlink(missing_ok=True)
    shared = objects.common_dir / "objects"
    variables = {
        "GIT_DIR": str(git),
        "GIT_WORK_TREE": str(tree),
        "GIT_OBJECT_DIRECTORY": str(git / "objects"),
        **as_alternates(shared, *filter(None, [objects.aside])),
        **_IDENTITY,
    }
    await write_index(objects, entries, variables)
    commit = ("commit", "--quiet", "--all", "--no-verify", "--no-gpg-sign", "--message", "Change")
    # 1: nothing differs from the last commit
    await objects.git(*_ALONE, *commit, variables=variables, codes=(0, 1), where=tree)
    (git / "objects/info/alternates").write_text(f"../{SHARED_OBJECTS.rpartition('/')[2]}\n")
    return shared
