"""HEAD, refs and new commits, read from git's own files: that costs no process and runs nothing."""

# Every launch reads all refs twice, and pathlib would cost more than reading.
# ruff: noqa: PTH118
from __future__ import annotations

import hashlib
import os
import re
import zlib
from functools import lru_cache
from pathlib import Path

from segue.system.files import read_start

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
