"""Git's own folders: where they are, whether they are what they should be, and the refs and HEAD in them.

Agents may be able to write there. Git would wait for ever for a pipe, and write through a link wherever it
leads, so both are found before git is started. Refs are read from files: that costs no process and runs
nothing.
"""

# Every git that is started begins with this, and pathlib would cost more than looking.
# ruff: noqa: PTH118
from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import zlib
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


_LARGEST = 64 * 1024**2
_SHA1 = 40
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_written: dict[tuple[str, str], str] = {}
"""What Segue itself has made of refs while agents were at work."""


def note_ref(common: Path, ref: str, commit: str) -> None:
    """Remember that Segue has moved a ref."""
    _written[str(common), ref] = commit


def written_ref(common: Path, ref: str) -> str:
    """Return where Segue has moved a ref to; empty if it has not."""
    return _written.get((str(common), ref), "")


def read_head(git_dir: Path, common: Path) -> str:
    """Return the commit of HEAD; empty where these files do not tell, and git has to be asked."""
    said = _read_text(os.path.join(git_dir, "HEAD"))
    if said.startswith("ref: refs/heads/"):
        return read_ref(common, said.removeprefix("ref: "))
    return said if COMMIT.fullmatch(said) else ""


def read_ref(common: Path, ref: str) -> str:
    """Return the commit of a branch, by its full name; empty where these files do not tell."""
    said = _read_text(os.path.join(common, ref)) or _packed(_read_packed(common)).get(ref, "")
    return said if COMMIT.fullmatch(said) else ""


def is_detached(git_dir: Path) -> bool:
    """Return whether a work tree is on a commit and not on a branch."""
    return COMMIT.fullmatch(_read_text(os.path.join(git_dir, "HEAD"))) is not None


def find_holder(common: Path, ref: str) -> Path | None:
    """Return the folder of the work tree that is on a branch, by its full name; None if none is."""
    for git_dir in (common, *(common / "worktrees").glob("*")):
        if _read_text(os.path.join(git_dir, "HEAD")) != f"ref: {ref}":
            continue
        link = read_start(os.path.join(git_dir, "gitdir")).rstrip(b"\n")
        folder = Path(os.fsdecode(link)).parent if git_dir != common else common.parent
        if (folder / ".git").exists():
            return folder
    return None


def read_tree(common: Path, commit: str) -> str:
    """Return the tree of a commit; empty if it is packed or no commit, and git has to be asked."""
    if not COMMIT.fullmatch(commit):
        return ""
    try:
        data = zlib.decompress(read_start(os.path.join(common, "objects", commit[:2], commit[2:])))
    except zlib.error:
        return ""
    known = hashlib.new("sha1" if len(commit) == _SHA1 else "sha256", data, usedforsecurity=False)
    kind, _, rest = data.partition(b"\0tree ")
    is_commit = kind.startswith(b"commit ") and known.hexdigest() == commit
    return rest.partition(b"\n")[0].decode() if is_commit else ""


def read_branch(git_dir: Path, refs: dict[str, str]) -> tuple[str, str]:
    """Return the branch of HEAD (empty when detached) and its commit, with the refs already known."""
    said = _read_text(os.path.join(git_dir, "HEAD"))
    if not said.startswith("ref: "):
        return "", said
    ref = said.removeprefix("ref: ")
    return ref.removeprefix("refs/heads/"), refs.get(ref, "")


def read_refs(common: Path, own: bool = False) -> dict[str, str]:
    """Return every ref with its commit; Segue's own, unless they are packed, only if `own` is set."""
    refs = dict(_packed(_read_packed(common)))
    folders = ["refs"]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(os.path.join(common, folder)) as found:
                entries = list(found)
        except OSError:
            continue
        for entry in entries:
            name = f"{folder}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                folders += [name] if own or name != "refs/segue" else []
            elif not name.endswith(".lock"):
                refs[name] = _read_text(entry.path)
    return refs


def _read_text(path: str) -> str:
    return read_start(path).decode("utf-8", "replace").strip()


def _read_packed(common: Path) -> bytes:
    return read_start(os.path.join(common, "packed-refs"), _LARGEST)


@lru_cache(maxsize=4)
def _packed(data: bytes) -> dict[str, str]:
    """Return the refs of a packed-refs file; the same content is not parsed again."""
    refs = {}
    for line in data.decode("utf-8", "replace").splitlines():
        if line[:1] not in ("#", "^", ""):
            value, _, name = line.partition(" ")
            refs[name] = value
    return refs
