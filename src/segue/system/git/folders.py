"""Where a work tree's git folders are, and whether what git reads there is what it should be.

Agents may be able to write there. Git would wait for ever for a pipe, and write through a link wherever it
leads, so both are found before git is started.
"""

# Every git that is started begins with this, and pathlib would cost more than looking.
# ruff: noqa: PTH118
from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from segue.domain.errors import WorkspaceError
from segue.system.files import read_start
from segue.system.reading import UnsafeFile, read_file

_OF_TREE = (
    *("HEAD", "index", "logs", "logs/HEAD", "info", "info/sparse-checkout", "config.worktree"),
    *("ORIG_HEAD", "MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "FETCH_HEAD", "COMMIT_EDITMSG"),
)
"""What a work tree has of its own."""
_OF_ALL = (
    *("config", "packed-refs", "shallow", "info/exclude", "info/attributes", "info/grafts", "gc.pid"),
    *("objects", "objects/info", "objects/info/alternates", "objects/pack", "refs", "refs/heads"),
    *("logs/refs", "logs/refs/heads", "worktrees", "reftable", "lfs"),
)
"""What all work trees of a repository share."""
IN_TREE = (".gitignore", ".gitattributes", ".gitmodules")
_known: dict[str, Path] = {}
"""The shared folder of each git folder, as it was when Segue first looked."""


class GitPlace(Struct, frozen=True):
    """A work tree and its git folders."""

    root: Path
    git_dir: Path
    common: Path
    """The git folder that all work trees of the repository share."""

    @classmethod
    def of(cls, root: Path, git_dir: Path) -> GitPlace:
        """Return the place of a work tree whose git folder is known."""
        return cls(root, git_dir, common_dir(git_dir))


def find_place(path: Path) -> GitPlace | None:
    """Return the work tree around a path, found in files alone; None if there is none."""
    real = Path(os.path.realpath(path))
    for folder in (real, *real.parents):
        found = _read_link(folder / ".git")
        if found is not None:
            return GitPlace(folder, found, common_dir(found))
    return None


def git_dirs(path: Path) -> tuple[Path, Path] | None:
    """Return the git folder of the work tree around the path, and the one that all its work trees share."""
    found = find_place(path)
    return (found.git_dir, found.common) if found else None


def _read_link(git: Path) -> Path | None:
    """Return the git folder that a `.git` is or names."""
    with contextlib.suppress(OSError, UnsafeFile):
        if git.is_file():
            git = git.parent / os.fsdecode(read_file(git)).removeprefix("gitdir:").strip()
    return Path(os.path.realpath(git)) if git.is_dir() else None


def common_dir(git_dir: Path) -> Path:
    """Return the git folder that all work trees of a repository share; it stays what it first was."""
    key = str(git_dir)
    if (known := _known.get(key)) is not None:
        return known
    # A folder with objects of its own is the shared one. Git never writes `commondir` there.
    if os.path.isdir(f"{key}/objects"):  # noqa: PTH112
        return _known.setdefault(key, git_dir)
    named = _read_common(git_dir)
    return git_dir if named is None else _known.setdefault(key, named)


def work_trees(common: Path) -> list[Path]:
    """Return the folders of a repository's work trees, as files name them."""
    named = (os.fsdecode(read_start(path)).strip() for path in (common / "worktrees").glob("*/gitdir"))
    main = [common.parent] if common.name == ".git" else []
    return main + [Path(one).parent for one in named if os.path.isabs(one)]  # noqa: PTH117


def _read_common(git_dir: Path) -> Path | None:
    try:
        named = os.fsdecode(read_file(git_dir / "commondir")).rstrip("\n")
    except (OSError, UnsafeFile):
        return None
    return Path(os.path.realpath(git_dir / named))


def check_place(place: GitPlace) -> None:
    """Raise WorkspaceError where git would wait for a pipe, write through a link, or use other folders."""
    for path in _checked(place):
        _check(path)
    head = read_start(f"{place.git_dir}/HEAD").decode("utf-8", "replace").strip()
    if head.startswith("ref: refs/"):
        for path in _branch_files(str(place.common), head.removeprefix("ref: ")):
            _check(path)
    if place.git_dir == place.common:
        if os.path.lexists(f"{place.git_dir}/commondir"):
            raise _refuse(f"{place.git_dir}/commondir", "would make git use another repository")
    elif _read_common(place.git_dir) not in (None, place.common):
        raise _refuse(f"{place.git_dir}/commondir", "names another repository than before")


def check_refs(common: Path, names: Iterable[str]) -> None:
    """Raise WorkspaceError where git would wait for a pipe in place of one of these refs."""
    for name in names:
        if name.startswith("refs/"):
            for path in _branch_files(str(common), name):
                _check(path)


def check_tree(root: Path) -> None:
    """Raise WorkspaceError where git waits for a pipe somewhere in the work tree."""
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name != ".git"]
        for name in files:
            if name in IN_TREE:
                _check(os.path.join(folder, name))


def check_objects(common: Path) -> None:
    """Raise WorkspaceError where git would wait for a pipe when it reads objects."""
    for name in ("objects", "objects/info", "objects/info/alternates", "objects/pack"):
        _check(f"{common}/{name}")


@lru_cache(maxsize=64)
def _checked(place: GitPlace) -> tuple[str, ...]:
    found = [*((place.git_dir, name) for name in _OF_TREE), *((place.common, name) for name in _OF_ALL)]
    found += [(place.root, name) for name in IN_TREE]
    return tuple(dict.fromkeys(os.path.join(*path) for path in found))


def _branch_files(common: str, ref: str) -> Iterator[str]:
    """Yield the file of a branch, its log, and the folders on the way."""
    parts = ref.split("/")
    if ".." in parts:
        raise _refuse(f"{common}/HEAD", "names no branch")
    for top in (common, f"{common}/logs"):
        for end in range(3, len(parts) + 1):
            yield os.path.join(top, *parts[:end])


def _check(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return  # git says it better than we could
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return
    if not stat.S_ISLNK(mode):
        raise _refuse(path, "is neither a file nor a folder")
    # Tools that share a git folder between work trees link what has the same name elsewhere.
    real = os.path.realpath(path)
    if os.path.basename(path).startswith(".git"):  # noqa: PTH119 - in the work tree git follows no link
        return
    same = os.path.basename(real) == os.path.basename(path)  # noqa: PTH119
    if not same or not os.path.exists(real):  # noqa: PTH110
        raise _refuse(path, f"is a link to {os.readlink(path)}")  # noqa: PTH115
    _check(real)


def _refuse(path: str, why: str) -> WorkspaceError:
    return WorkspaceError(
        f"{path} {why}, so git was not started.",
        kept="Nothing was changed.",
        hint="Git does not make it so. Remove it, or put back what was there, then give the command again",
    )
