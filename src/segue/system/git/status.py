"""What `git status --porcelain=v2 -z` says, as a snapshot."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from segue.domain.workspace import Snapshot
from segue.system.git.heavy import File, describe, find_heavy


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
    dirty, heavy = _look(root, entries, paths)
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


def _look(root: Path, entries: list[bytes], paths: list[bytes]) -> tuple[str, tuple[File, ...]]:
    """Return a fingerprint of changed files, and which of them are too large."""
    if not entries:
        return "", ()
    digest, files = hashlib.sha256(b"\0".join(entries)), []
    for path in paths:
        try:
            found = os.lstat(os.path.join(os.fsencode(root), path))  # noqa: PTH118 - bytes paths
            digest.update(b"%d %d %d\0" % (found.st_mtime_ns, found.st_size, found.st_mode))
        except OSError:
            digest.update(b"gone\0")
            continue
        if stat.S_ISREG(found.st_mode):
            files.append((os.fsdecode(path), found.st_size))
    return digest.hexdigest()[:32], find_heavy(files)
