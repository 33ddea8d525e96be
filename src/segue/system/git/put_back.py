"""Puts files of a branch back in a commit of its own, without a work tree."""

from __future__ import annotations

from collections.abc import Mapping

from segue.system.git.repository import Repository
from segue.system.git.scratch import own_index


async def put_back(
    repo: Repository, head: str, base: str, files: Mapping[str, bytes | None], message: str
) -> str:
    """Return a commit after `head` in which files are as they are in `base`, or contain what is given."""
    known = await _entries(repo, base, [path for path, data in files.items() if data is None])
    lines, absent = [], f"0 {'0' * len(head)}"
    for path, data in files.items():
        if data is None:
            lines.append(f"{known.get(path, absent)}\t{path}")
        else:
            blob = (await repo.git("hash-object", "-w", "--stdin", stdin=data)).strip()
            lines.append(f"100644 {blob}\t{path}")
    with own_index() as extra:
        await repo.git("read-tree", head, extra=extra)
        listed = "".join(f"{line}\0" for line in lines).encode("utf-8", "surrogateescape")
        await repo.git("update-index", "--replace", "-z", "--index-info", stdin=listed, extra=extra)
        tree = (await repo.git("write-tree", extra=extra)).strip()
    identity = await repo.identity_options()
    made = await repo.git(*identity, "commit-tree", "-p", head, "-F", "-", tree, stdin=message.encode())
    return made.strip()


async def _entries(repo: Repository, commit: str, paths: list[str]) -> dict[str, str]:
    """Return mode and blob of the files that a commit has, by path."""
    if not paths:
        return {}
    said = await repo.git("ls-tree", "-z", "--full-tree", commit, "--", *paths)
    found = {}
    for line in filter(None, said.split("\0")):
        facts, _, path = line.partition("\t")
        mode, _, blob = facts.split()
        found[path] = f"{mode} {blob}"
    return found
