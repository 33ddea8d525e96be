"""What changed in a work tree, as git's index and `git status` tell it: files, submodules, what is too large.

Git is never started in a submodule: its configuration may be an agent's, and git would run what it names. Nor
may it meet a file that is too large: it reads one to its end, whatever its size, before it says a word.
"""

# A launch looks twice, and pathlib would cost more than looking.
# ruff: noqa: PTH118
from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from segue.domain.errors import WorkspaceError
from segue.domain.workspace import Snapshot
from segue.system.files import read_start, signature
from segue.system.git.folders import GitPlace, find_place, read_head

if TYPE_CHECKING:
    from segue.system.git.repository import Repository

_MODE = (0o160000).to_bytes(4)
_LARGEST = 1024**3
_HEADER, _FIXED, _FLAG_EXTENDED, _NAME_LENGTH = 12, 40, 0x4000, 0xFFF
_MOST_FILES = 20_000
STATUS = (
    *("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all"),
    "--ignore-submodules=dirty",  # their commits are compared, and git is not started in them
)
LOOK_TIMEOUT = 120.0
_FROM_HERE = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
_SIZES = (20, 32)
_LARGEST_TEXT = 8 * 1024**2
_MARKERS = re.compile(rb"^(<{7}|>{7})( |$)", re.MULTILINE)
MADE_AGAIN = re.compile(
    r"(^|/)(node_modules|__pycache__|\.?venv|env|target|dist|build|out|coverage|htmlcov|vendor|\.[\w.-]*cache"
    r"|\.(next|nuxt|tox|nox|gradle|eggs|coverage|parcel-cache|turbo|svelte-kit|idea|vscode|DS_Store)"
    r"|[\w.-]+\.egg-info)(/|$)|\.(pyc|pyo|o|so|class|log|tmp)$"
)
"""Files that a tool makes again."""


STAY_INSIDE = "Segue commits nothing inside submodules: they are uncommitted, where the agent left them."
"""What becomes of files that an agent changed in a submodule."""


class _IndexEntry(NamedTuple):
    """What an index has of a file."""

    name: str
    mode: bytes
    id: str
    size: int
    mtime: tuple[int, int]


def find_gitlinks(git_dir: Path) -> dict[str, str]:
    """Return the submodules that the index names, each with its commit."""
    stamp = signature(git_dir / "index")
    return dict(_read_gitlinks(str(git_dir), stamp)) if stamp else {}


@lru_cache(maxsize=64)
def _read_gitlinks(git_dir: str, _stamp: object) -> tuple[tuple[str, str], ...]:
    found = read_index(git_dir, lambda data: _MODE in data)
    return tuple((one.name, one.id) for one in found if one.mode == _MODE)


def read_index(git_dir: str, wanted: Callable[[bytes], bool] = bool) -> list[_IndexEntry]:
    """Return what an index has of files; nothing if it is not `wanted`, or damaged."""
    data = read_start(os.path.join(git_dir, "index"), _LARGEST)
    files = [data]
    for size in _SIZES:  # an index may be split: most of it is in another file then
        at = data.rfind(b"link", 0, len(data) - size)
        if at > 0:
            name = f"sharedindex.{data[at + 8 : at + 8 + size].hex()}"
            files.append(read_start(os.path.join(git_dir, name), _LARGEST))
    return [entry for file in files if wanted(file) for entry in _parse(file)]


def _parse(data: bytes) -> list[_IndexEntry]:
    version, count = int.from_bytes(data[4:8]), int.from_bytes(data[8:12])
    for size in _SIZES if data.startswith(b"DIRC") else ():
        with contextlib.suppress(IndexError, ValueError):
            return list(_entries(data, version, count, size))
    return []


def _entries(data: bytes, version: int, count: int, size: int) -> Iterator[_IndexEntry]:
    at, before = _HEADER, b""
    for _ in range(count):
        start, mode, flags = at, data[at + 24 : at + 28], int.from_bytes(data[at + _FIXED + size :][:2])
        if mode[2] >> 4 not in (0x4, 0x8, 0xA, 0xE):
            raise ValueError("no mode of a file")
        at += _FIXED + size + (4 if version > 2 and flags & _FLAG_EXTENDED else 2)
        if version == 4:
            dropped, at = _number(data, at)
            end = data.index(b"\0", at)
            name = before[: len(before) - dropped] + data[at:end]
            at = end + 1
        else:
            end = data.index(b"\0", at)
            name = data[at:end]
            at = start + (end - start + 8) // 8 * 8
        if flags & _NAME_LENGTH != min(len(name), _NAME_LENGTH):
            raise ValueError("the name has another length")
        before = name
        mtime = int.from_bytes(data[start + 8 : start + 12]), int.from_bytes(data[start + 12 : start + 16])
        length = int.from_bytes(data[start + 36 : start + 40])
        commit = data[start + _FIXED : start + _FIXED + size].hex()
        yield _IndexEntry(os.fsdecode(name), mode, commit, length, mtime)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number as git writes it with a variable length, and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1


def checked_out(root: Path, path: str) -> str:
    """Return the commit that a submodule is at; empty if it is not there, or its files do not tell."""
    place = _place_of(root / path)
    return read_head(place.git_dir, place.common) if place else ""


def _place_of(top: Path) -> GitPlace | None:
    """Return the git folders of a submodule; None if it is not there."""
    place = find_place(top)
    return place if place is not None and str(place.root) == os.path.realpath(top) else None


def has_work(root: Path, path: str) -> bool:
    """Return whether a submodule has files that are not as git left them; those of tools do not count."""
    top = os.path.join(root, path)
    place = _place_of(Path(top))
    known = {one.name: one for one in read_index(str(place.git_dir))} if place else {}
    within = _links_within(top, place)
    for name, commit in within.items():
        if checked_out(Path(top), name) not in ("", commit) or has_work(Path(top), name):
            return True
    for file, found in _files(top, within):
        before = known.get(name := os.path.relpath(file, top))
        if before is None and MADE_AGAIN.search(name):
            continue
        mtime = divmod(found.st_mtime_ns, 10**9)
        if before is None or before.size != found.st_size & 0xFFFFFFFF or before.mtime != mtime:
            return True
    return False


def is_moved(root: Path, git_dir: Path, path: str) -> bool:
    """Return whether a submodule is at another commit than the index names, and has no other changes."""
    return checked_out(root, path) not in ("", find_gitlinks(git_dir).get(path)) and not has_work(root, path)


def mark_modules(root: Path, git_dir: Path) -> dict[str, str]:
    """Return a digest of each submodule's files, as their times and sizes tell, to see what has changed."""
    return {path: _mark(os.path.join(root, path)) for path in find_gitlinks(git_dir)}


def _mark(top: str) -> str:
    digest = hashlib.sha256()
    for name in _links_within(top, _place_of(Path(top))):
        below = os.path.join(top, name)
        digest.update(f"{name}\0{checked_out(Path(top), name)}\0{_mark(below)}".encode())
    for path, found in _files(top):
        facts = (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        digest.update(f"{path}\0{facts}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _links_within(top: str, place: GitPlace | None) -> dict[str, str]:
    """Return the submodules of a submodule, with their commits; an index may name places outside of it."""
    real = os.path.realpath(top)
    found = find_gitlinks(place.git_dir) if place else {}
    return {
        name: commit
        for name, commit in found.items()
        if os.path.realpath(os.path.join(real, name)) == os.path.join(real, name) != real
    }


def _files(top: str, without: Collection[str] = ()) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files below a folder, in the same order each time, but for its git folder and these."""
    seen = 0
    for folder, names, files in os.walk(top):
        if without:
            names[:] = [name for name in names if os.path.relpath(f"{folder}/{name}", top) not in without]
        names[:] = sorted(name for name in names if name != ".git")
        for name in sorted(files):
            if name == ".git":
                continue
            if (seen := seen + 1) > _MOST_FILES:
                return
            with contextlib.suppress(OSError):
                yield (path := os.path.join(folder, name)), os.lstat(path)


_LEAST = 4096
"""Bytes that a file counts for at least: git stores each one as a file of its own."""
_MOST_LEFT_OUT = 200
"""Paths that are left out one by one; more of them would slow git down."""
_bound = [512 * 1024**2]
"""What git reads, packs and writes in seconds, on slow machines too: to git itself more is a big file."""

File = tuple[str, int]
"""A path as Python has it, and its size."""


def allow_bytes(most: int) -> None:
    """Let git add this much at once, from now on."""
    _bound[0] = most


def find_heavy(files: Iterable[File]) -> tuple[File, ...]:
    """Return what must be left out of these files: the largest, until the others are within the bound."""
    counted = [(path, max(size, _LEAST)) for path, size in files]
    total, heavy = sum(size for _, size in counted), []
    if total <= _bound[0]:
        return ()
    for path, size in sorted(counted, key=lambda file: -file[1]):
        heavy.append((path, size))
        total -= size
        if total <= _bound[0]:
            break
    return tuple(heavy)


def left_out(heavy: Iterable[File]) -> tuple[str, ...]:
    """Return the paths that git must not read; raises WorkspaceError if they are too many to be named."""
    paths = tuple(path for path, _ in heavy)
    if len(paths) > _MOST_LEFT_OUT:
        raise refuse_heavy(heavy)
    return paths


def refuse_heavy(heavy: Iterable[File]) -> WorkspaceError:
    """Return the error for files that git is not let read."""
    return WorkspaceError(
        name_heavy(map(describe, heavy)),
        kept="Git was stopped before it had read that; nothing was changed.",
        hint="Remove it, put back what was there, or raise git.add_bytes, then give the command again",
    )


def name_heavy(described: Iterable[str]) -> str:
    """Name files that are too large, and the setting that lets git read them."""
    names = tuple(described)
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    most = f"git.add_bytes is {_bound[0]} ({describe_size(_bound[0])})"
    return f"Too large for git to read: {shown}; {most}."


def describe(file: File) -> str:
    """Return the name of a file with its size, as it is shown and stored."""
    path, size = file
    return f"{os.fsencode(path).decode('utf-8', 'replace')} ({describe_size(size)})"


def describe_size(size: float) -> str:
    """Return a size in a unit that suits it."""
    units = ["TiB", "GiB", "MiB", "KiB", "bytes"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop()
    return f"{size:.4g} {units[-1]}"


def check_heavy(place: GitPlace) -> None:
    """Raise WorkspaceError if git reads a file that is too large to see whether it has changed.

    It does so where it knows no size, and knows sizes only up to a multiple of 4 GiB.
    """
    found = []
    for entry in read_index(str(place.git_dir)):
        try:
            now = (place.root / entry.name).lstat()
        except OSError:
            continue
        if stat.S_ISREG(now.st_mode) and divmod(now.st_mtime_ns, 10**9) != entry.mtime:
            found.append((entry.name, now.st_size))
    if heavy := find_heavy(found):
        raise refuse_heavy(heavy)


async def take_snapshot(repo: Repository) -> Snapshot:
    """Return a snapshot of a work tree, without fetching anything."""
    done = await repo.try_git(*STATUS, extra=_FROM_HERE, timeout=LOOK_TIMEOUT)
    if done.exit_code != 0:
        raise WorkspaceError(f"git cannot say what has changed in {repo.root}: {done.said}")
    return parse_status(repo.root, done.out)


def parse_status(root: Path, raw: bytes) -> Snapshot:
    """Return the snapshot of a work tree that git described."""
    return read_status(root, raw)[0]


def read_status(root: Path, raw: bytes) -> tuple[Snapshot, tuple[File, ...]]:
    """Return the snapshot of a work tree that git described, and what is too large to be added."""
    head = branch = ""
    entries: list[bytes] = []
    paths: list[bytes] = []
    links: list[bytes] = []
    unmerged: list[bytes] = []
    fields = iter(raw.split(b"\0"))
    for entry in fields:
        if entry.startswith(b"# branch.oid "):
            head = entry[13:].decode().replace("(initial)", "")
        elif entry.startswith(b"# branch.head "):
            branch = entry[14:].decode("utf-8", "replace").replace("(detached)", "")
        elif entry[:2] in (b"1 ", b"2 ", b"u ", b"? "):
            if entry[:2] == b"2 ":
                paths.append(next(fields))
            paths.append(_path_of(entry))
            entries.append(entry)
            if entry[:2] == b"u ":
                unmerged.append(paths[-1])
            elif _is_new_link(entry, paths[-1]):
                links.append(paths[-1])
    dirty, heavy = _mark_files(root, entries, paths)
    files, folders, unfinished = (tuple(map(shown, found)) for found in (paths, links, unmerged))
    described = tuple(map(describe, heavy))
    return Snapshot(head, branch, dirty, files, folders, unfinished, described), heavy


def _is_new_link(entry: bytes, path: bytes) -> bool:
    """Return whether an entry is a repository inside this one that its head does not know."""
    if entry[:2] == b"? ":
        return path.endswith(b"/")
    modes = entry.split(b" ", 6)[3:6]
    return modes[0] != b"160000" and b"160000" in modes


def _path_of(entry: bytes) -> bytes:
    """Return the last field: after 8 others for ordinary, 9 for renamed, 10 for unmerged entries."""
    count = {b"1": 8, b"2": 9, b"u": 10, b"?": 1}[entry[:1]]
    return entry.split(b" ", count)[count]


def shown(path: bytes) -> str:
    """Return a path as it is shown and stored."""
    return path.decode("utf-8", "replace")


def _mark_files(root: Path, entries: list[bytes], paths: list[bytes]) -> tuple[str, tuple[File, ...]]:
    """Return a fingerprint of changed files, and which of them are too large."""
    if not entries:
        return "", ()
    digest, files = hashlib.sha256(b"\0".join(entries)), []
    for path in paths:
        try:
            found = os.lstat(os.path.join(os.fsencode(root), path))
            digest.update(b"%d %d %d\0" % (found.st_mtime_ns, found.st_size, found.st_mode))
        except OSError:
            digest.update(b"gone\0")
            continue
        if stat.S_ISREG(found.st_mode):
            files.append((os.fsdecode(path), found.st_size))
    return digest.hexdigest()[:32], find_heavy(files)


def has_markers(path: Path) -> bool:
    """Return whether a file has lines that begin as conflict markers do."""
    data = b"" if path.is_symlink() else read_start(path, _LARGEST_TEXT)
    return b"<<<<<<<" in data and _MARKERS.search(data) is not None
