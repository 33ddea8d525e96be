"""A git folder of its own for a tree: it has the repository's history, and changes stay in it."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from segue.system.git.objects import Objects

_REFS = ("heads", "tags", "remotes")
_MOST_BYTES, _MOST_FILES = 32 * 1024**2, 3000
"""What may be copied of git's objects; a repository with more is read where it is."""


class GitSource(Struct, frozen=True):
    """The repository of a work tree."""

    git_dir: Path
    """The work tree's own git folder."""
    objects: Objects


def make_git(folder: Path, source: GitSource) -> None:
    """Make a git folder that reads the repository's objects and has its history; changes stay in the copy."""
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


def copy_git(folder: Path, source: GitSource) -> bool:
    """Make the same with a copy of the objects; return whether they were few enough for that."""
    objects = source.objects.common_dir / "objects"
    if not _is_small(objects):
        return False
    make_git(folder, source)
    shutil.rmtree(folder / "objects")
    shutil.copytree(objects, folder / "objects")
    return True


def take_objects(folder: Path, objects: Path) -> bool:
    """Copy shared objects into the git folder that reads them; return whether they were few enough."""
    if not _is_small(objects):
        return False
    (folder / "objects/info/alternates").unlink(missing_ok=True)
    shutil.copytree(objects, folder / "objects", dirs_exist_ok=True)
    return True


def _is_small(place: Path) -> bool:
    files = size = 0
    for folder, _, names in os.walk(place):
        files += len(names)
        size += sum(os.lstat(os.path.join(folder, name)).st_size for name in names)  # noqa: PTH118 - many
        if files > _MOST_FILES or size > _MOST_BYTES:
            return False
    return True
