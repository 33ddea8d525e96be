"""Put refs back that an agent replaced by something else, or with which git would show another history."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from segue.domain.errors import WorkspaceError
from segue.system.beneath import Beneath
from segue.system.files import read_start
from segue.system.git.folders import read_refs, written_ref
from segue.system.git.nested import GitViolation
from segue.system.git.objects import Objects
from segue.system.git.repository import Repository

REPLACE = "refs/replace/"
_PACKED = "packed-refs"
_LARGEST = 64 * 1024**2
_GRAPHS = ("objects/info/commit-graph", "objects/info/commit-graphs/commit-graph-chain")
_MOST_NAMED = 5


def mark_graph(common: str) -> tuple[int, ...]:
    """Return what tells whether the list of commits that git keeps to be faster was written again."""
    found = []
    for name in _GRAPHS:
        try:
            one = os.lstat(f"{common}/{name}")
        except OSError:
            continue
        found += [one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns]
    return tuple(found)


def forget_graph(common: str) -> None:
    """Delete that list, which may name other parents than the commits do; `git gc` makes it again."""
    with Beneath(common) as folder:
        for name in _GRAPHS:
            folder.delete(name)


async def put_refs_back(
    common: Path, before: Mapping[str, str], blocked: Iterable[str], branch: str
) -> list[GitViolation]:
    """Write refs again that something else was in place of; a folder in place of the branch is moved."""
    own, now = f"refs/heads/{branch}", read_refs(common)
    gone = [os.path.relpath(path, common) for path in blocked]
    lost = [ref for ref in before if any(ref == one or ref.startswith(f"{one}/") for one in gone)]
    found = []
    if own in before and own not in (*now, *lost) and (common / own).is_dir():
        lost.append(own)
        text = f"The agent put a folder in place of {own}. It was put back."
        found.append(GitViolation("refs", text))
    with Beneath(common) as folder:
        for ref in lost:
            if now.get(ref) != before[ref]:
                folder.make_folders(os.path.dirname(ref))  # noqa: PTH120
                if (common / ref).is_dir():
                    folder.remove(ref)  # branches in it get another name
                folder.write(ref, f"{await _newest(common, ref, before[ref])}\n".encode(), 0o644)
    return found


async def _newest(common: Path, ref: str, before: str) -> str:
    """Return what a ref was before the launch, or what Segue itself has made of it since."""
    written = written_ref(common, ref)
    return written if written and await Objects(common).is_ancestor(before, written) else before


async def restore_replaced(repo: Repository, common: Path, before: Mapping[str, str]) -> list[GitViolation]:
    """Remove refs that make git show other commits, and put back those that were there."""
    now = read_refs(common)
    every = sorted(
        ref for ref in {*before, *now} if ref.startswith(REPLACE) and before.get(ref) != now.get(ref)
    )
    for ref in every:
        old = before.get(ref)
        try:
            await repo.git("update-ref", *((ref, old) if old else ("-d", ref)))
        except WorkspaceError:
            with Beneath(common) as folder:  # git does not take it for a ref
                folder.remove(ref)
    left = [ref for ref in every if ref not in before and ref in read_refs(common)]
    if left:
        _unpack(common, left)
    if not every:
        return []
    names = ", ".join(ref.removeprefix("refs/") for ref in every[:_MOST_NAMED])
    text = f"The agent changed {names}, with which git shows other commits than there are. It was put back."
    return [GitViolation("refs", text)]


def _unpack(common: Path, refs: list[str]) -> None:
    """Take lines out of the file of packed refs that git itself does not find there."""
    with Beneath(common) as folder:
        lines = read_start(common / _PACKED, _LARGEST).splitlines(keepends=True)
        names = {ref.encode("utf-8", "surrogateescape") for ref in refs}
        kept = [line for line in lines if line.strip().partition(b" ")[2] not in names]
        folder.write(_PACKED, b"".join(kept))
