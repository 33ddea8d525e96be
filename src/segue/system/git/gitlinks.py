"""Submodules as data: which commits the index names, which are checked out, and whether files changed.

Git is never started in a submodule: its configuration may be an agent's, and git would run what it names.
"""

# A launch looks twice, and pathlib would cost more than looking.
# ruff: noqa: PTH118
from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from segue.system.files import read_start, signature
from segue.system.git.folders import find_place
from segue.system.git.refs import read_head

_MODE = (0o160000).to_bytes(4)
_LARGEST = 1024**3
_HEADER, _FIXED, _FLAG_EXTENDED, _NAME_LENGTH = 12, 40, 0x4000, 0xFFF
_MOST_FILES = 20_000
_SIZES = (20, 32)


def find_gitlinks(git_dir: Path) -> dict[str, str]:
    """Return the submodules that the index names, each with its commit."""
    stamp = signature(git_dir / "index")
    return dict(_read_gitlinks(str(git_dir), stamp)) if stamp else {}


@lru_cache(maxsize=64)
def _read_gitlinks(git_dir: str, _stamp: object) -> tuple[tuple[str, str], ...]:
    data = read_start(os.path.join(git_dir, "index"), _LARGEST)
    found = dict(_parse(data))
    for size in _SIZES:  # an index may be split: most of it is in another file then
        at = data.rfind(b"link", 0, len(data) - size)
        base = data[at + 8 : at + 8 + size].hex()
        if at > 0 and os.path.isfile(shared := os.path.join(git_dir, f"sharedindex.{base}")):  # noqa: PTH113
            found = {**dict(_parse(read_start(shared, _LARGEST))), **found}
    return tuple(found.items())


def _parse(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the submodules in an index; most have none, and one look tells."""
    if not data.startswith(b"DIRC") or _MODE not in data:
        return
    version, count = int.from_bytes(data[4:8]), int.from_bytes(data[8:12])
    for size in _SIZES:
        try:
            yield from list(_entries(data, version, count, size))
            return
        except (IndexError, ValueError):
            continue


def _entries(data: bytes, version: int, count: int, size: int) -> Iterator[tuple[str, str]]:
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
        if mode == _MODE:
            yield os.fsdecode(name), data[start + _FIXED : start + _FIXED + size].hex()


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


def mark_modules(root: Path, git_dir: Path) -> dict[str, str]:
    """Return a digest of each submodule's files, as their times and sizes tell, to see what has changed."""
    return {path: _mark(os.path.join(root, path)) for path in find_gitlinks(git_dir)}


def _mark(top: str) -> str:
    digest, seen = hashlib.sha256(), 0
    for folder, names, files in os.walk(top):
        names.sort()
        if folder == top:
            names[:] = [name for name in names if name != ".git"]
        for name in sorted(files):
            if (seen := seen + 1) > _MOST_FILES:
                return digest.hexdigest()
            try:
                found = os.lstat(path := os.path.join(folder, name))
            except OSError:
                continue
            facts = (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            digest.update(f"{os.path.relpath(path, top)}\0{facts}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
