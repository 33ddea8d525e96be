"""What changed in a work tree, as `git status` tells it."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from segue.domain.workspace import Snapshot
from segue.system.files import read_start

STATUS = (
    *("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all"),
    "--ignore-submodules=dirty",  # their commits are compared, and git is not started in them
)
LARGEST = 100 * 1024**2
"""Bytes of a changed file beyond which it is not committed."""
_LARGEST_TEXT = 8 * 1024**2
_MARKERS = re.compile(rb"^(<{7}|>{7})( |$)", re.MULTILINE)
_FIELDS = {b"1": 8, b"2": 9, b"u": 10, b"?": 1}
"""How many fields are before the path: ordinary, renamed, unmerged and untracked entries."""


def parse_status(root: Path, raw: bytes, inside: Iterable[str] = ()) -> Snapshot:
    """Return the snapshot of a work tree that git described; `inside` are submodules with work in them."""
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
        elif entry[:1] in _FIELDS and entry[1:2] == b" ":
            if entry[:1] == b"2":
                paths.append(next(fields))
            path = entry.split(b" ", _FIELDS[entry[:1]])[-1]
            paths.append(path)
            entries.append(entry)
            if entry[:1] == b"u":
                unmerged.append(path)
            elif _is_new_link(entry, path):
                links.append(path)
    dirty, heavy = _mark_files(root, [*entries, *map(os.fsencode, inside)], paths)
    files, folders, unfinished = (tuple(map(shown, found)) for found in (paths, links, unmerged))
    return Snapshot(head, branch, dirty, files, folders, unfinished, heavy, inside=tuple(inside))


def _is_new_link(entry: bytes, path: bytes) -> bool:
    """Return whether an entry is a repository inside this one that its head does not know."""
    if entry[:1] == b"?":
        return path.endswith(b"/")
    modes = entry.split(b" ", 6)[3:6]
    return modes[0] != b"160000" and b"160000" in modes


def _mark_files(root: Path, entries: list[bytes], paths: list[bytes]) -> tuple[str, tuple[str, ...]]:
    """Return a fingerprint of what has changed, and the names of files that are too large."""
    if not entries:
        return "", ()
    digest, heavy = hashlib.sha256(b"\0".join(entries)), []
    for path in paths:
        try:
            found = os.lstat(os.path.join(os.fsencode(root), path))  # noqa: PTH118 - there may be many
        except OSError:
            digest.update(b"gone\0")
            continue
        digest.update(b"%d %d %d\0" % (found.st_mtime_ns, found.st_size, found.st_mode))
        if stat.S_ISREG(found.st_mode) and found.st_size > LARGEST:
            heavy.append(shown(path))
    return digest.hexdigest(), tuple(heavy)


def has_markers(path: Path) -> bool:
    """Return whether a file has lines that begin as conflict markers do."""
    data = b"" if path.is_symlink() else read_start(path, _LARGEST_TEXT)
    return b"<<<<<<<" in data and _MARKERS.search(data) is not None


def shown(path: bytes) -> str:
    """Return a path as it is shown and stored."""
    return path.decode("utf-8", "replace")
