"""Commits and their refs as the bytes of a git bundle, of a bounded size; and unpacked again."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from segue.domain.errors import WorkspaceError
from segue.system.git.outside import run_git
from segue.system.git.repository import Repository
from segue.system.process.capture import Captured

MOST_BYTES = 256 * 1024**2
BASE = "refs/segue/base"
"""Where a bundle names the commit that it builds on."""
PROTOCOLS = {"GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file"}
"""The only ways in which git may reach a remote: none of them runs a program that an address names."""
PATIENCE = 3600.0
"""Seconds for a git that has much to do, or that speaks with a remote."""
_PROMISED = r"^(extensions\.partialclone|remote\..*\.promisor)$"
_MOST_NAMED = 5
NO_PROGRAMS = ("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false")
QUIET_FETCH = (
    *("fetch", "--quiet", "--no-tags", "--no-auto-gc", "--no-write-fetch-head"),
    "--no-recurse-submodules",
)
PLAIN = {"LC_ALL": "C", "LANGUAGE": ""}
"""So that what git says can be understood."""


async def make_bundle(repo: Repository, refs: Mapping[str, str], base: str, most: int) -> bytes:
    """Return a bundle of these refs, without what the commit `base` contains."""
    if set(refs.values()) == {base}:
        return _head(refs, base) + _empty_pack(is_long=len(base) == 64)
    wanted = "".join(f"{commit}\n" for commit in dict.fromkeys(refs.values()))
    wanted += f"^{base}\n" if base else ""
    packing = ("pack-objects", "--revs", "--thin", "--stdout", "--quiet", "--delta-base-offset")
    exactly = {"GIT_NO_REPLACE_OBJECTS": "1"}
    done = await repo.try_git(
        *packing, stdin=wanted.encode(), extra=exactly, timeout=PATIENCE, limit=most + 1
    )
    if done.exit_code != 0:
        raise WorkspaceError(
            f"git cannot pack the work in {repo.root}: {done.said}", kept="Nothing was changed."
        )
    data = _head(refs, base) + done.out
    if len(data) > most:
        raise too_large(repo, most, await _largest_objects(repo, wanted))
    return data


async def run_in_mirror(folder: Path, *arguments: str) -> Captured:
    """Run a git that may take long in a bare git folder of Segue's, which no agent can write."""
    extra = {**PLAIN, **PROTOCOLS, "GIT_DIR": str(folder)}
    try:
        return await run_git(folder, *NO_PROGRAMS, *arguments, extra=extra, timeout=PATIENCE)
    except TimeoutError as error:
        raise WorkspaceError(
            f"git {arguments[0]} did not end: {error}.",
            kept="What is there is as git left it.",
            hint="Look what git waits for, then try again",
        ) from None


def _empty_pack(is_long: bool) -> bytes:
    """Return a pack without objects: its name, version 2, their number, and the hash of that."""
    said = b"PACK" + (2).to_bytes(4) + (0).to_bytes(4)
    return said + (hashlib.sha256(said) if is_long else hashlib.sha1(said, usedforsecurity=False)).digest()


def _head(refs: Mapping[str, str], base: str) -> bytes:
    """Return what a bundle has before its pack: what it needs, and its refs."""
    is_long = any(len(commit) == 64 for commit in refs.values())
    lines = ["# v3 git bundle", "@object-format=sha256"] if is_long else ["# v2 git bundle"]
    lines += [f"-{base} "] if base else []
    lines += [f"{commit} {name}" for name, commit in sorted(refs.items())]
    return ("\n".join(lines) + "\n\n").encode("utf-8", "surrogateescape")


def read_refs_of(data: bytes) -> dict[str, str]:
    """Return the refs of a bundle, with their commits."""
    lines = data[: data.find(b"\n\n")].decode("utf-8", "surrogateescape").splitlines()
    found = [line.partition(" ") for line in lines if line[:1] not in ("#", "@", "-")]
    return {name: commit for commit, _, name in found}


@contextmanager
def as_file(data: bytes) -> Iterator[str]:
    """Yield the path of a bundle, for git to fetch from."""
    with tempfile.TemporaryDirectory(prefix="segue-bundle-") as folder:
        path = Path(folder) / "work.bundle"
        path.write_bytes(data)
        yield str(path)


def too_large(repo: Repository, most: int, sizes: Mapping[str, int]) -> WorkspaceError:
    """Return the error for work that is too large to be sent, with its largest files."""
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:_MOST_NAMED]
    names = ", ".join(f"{path} ({_megabytes(size)})" for path, size in largest)
    return WorkspaceError(
        f"The work in {repo.root} is larger than {_megabytes(most)}, so it cannot be sent to other machines."
        + (f" Largest: {names}." if names else ""),
        kept="The work is where it was.",
        hint="Have git ignore files that can be made again, or keep large ones out of the repository",
    )


async def _largest_objects(repo: Repository, wanted: str) -> dict[str, int]:
    listed = await repo.git("rev-list", "--objects", "--stdin", stdin=wanted.encode())
    shape = "--batch-check=%(objecttype) %(objectsize) %(rest)"
    said = await repo.git("cat-file", shape, stdin=listed.encode("utf-8", "surrogateescape"))
    found = [line.split(" ", 2) for line in said.splitlines() if line.startswith("blob ")]
    return {path: int(size) for _, size, path in found}


def _megabytes(size: int) -> str:
    return f"{size / 1024**2:.0f} MB" if size >= 1024**2 else f"{size} bytes"
