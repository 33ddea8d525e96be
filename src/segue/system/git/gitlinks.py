"""Submodules as data: which commits the index names, which are checked out, and whether files changed.

Git is never started in a submodule: its configuration may be an agent's, and git would run what it names.
"""

# A launch looks twice, and pathlib would cost more than looking.
# ruff: noqa: PTH118
from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from segue.domain.pattern import pattern
from segue.system.files import read_start, signature
from segue.system.git.folders import find_place
from segue.system.git.refs import read_head

_MODE = (0o160000).to_bytes(4)
_LARGEST = 1024**3
_HEADER, _FIXED, _FLAG_EXTENDED, _NAME_LENGTH = 12, 40, 0x4000, 0xFFF
_MOST_FILES = 20_000
_SIZES = (20, 32)
MADE_AGAIN = pattern(
    r"(^|/)(node_modules|__pycache__|\.?venv|env|target|dist|build|out|coverage|htmlcov|vendor|\.[\w.-]*cache"
    r"|\.(next|nuxt|tox|nox|gradle|eggs|coverage|parcel-cache|turbo|svelte-kit|idea|vscode|DS_Store)"
    r"|[\w.-]+\.egg-info)(/|$)|\.(pyc|pyo|o|so|class|log|tmp)$"
)
"""Files that a tool makes again."""


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
    place = find_place(root / path)
    is_own = place is not None and str(place.root) == os.path.realpath(root / path)
    return read_head(place.git_dir, place.common) if place and is_own else ""


def has_work(root: Path, path: str) -> bool:
    """Return whether a submodule has files that are not as git left them; those of tools do not count."""
    top = os.path.join(root, path)
    place = find_place(Path(top))
    is_own = place is not None and str(place.root) == os.path.realpath(top)
    known = {one.name: one for one in read_index(str(place.git_dir))} if place and is_own else {}
    for file, found in _files(top):
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
    for path, found in _files(top):
        facts = (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        digest.update(f"{path}\0{facts}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _files(top: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files below a folder, without its git folder, in the same order each time."""
    seen = 0
    for folder, names, files in os.walk(top):
        names[:] = sorted(name for name in names if name != ".git")
        for name in sorted(files):
            if name == ".git":
                continue
            if (seen := seen + 1) > _MOST_FILES:
                return
            with contextlib.suppress(OSError):
                yield (path := os.path.join(folder, name)), os.lstat(path)
