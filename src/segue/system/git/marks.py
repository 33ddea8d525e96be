"""What a repository is recognised by wherever it is: an id in its git folder, its history, its remotes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from segue.domain.run import RepositoryMark
from segue.system import identity
from segue.system.files import read_start, write_atomic
from segue.system.git.folders import GitPlace
from segue.system.git.outside import ask_git

_NAME = "segue.id"
_ORIGIN = "remote.origin.url"
_ID = re.compile(r"[0-9a-f]{32}")
_SCP = re.compile(r"(?:[^@/\s]+@)?([^:/\s]+):(?!//)(.+)")


class _IdFile(msgspec.Struct):
    """The file in the git folder of a work tree, with the roots: a long history is slow to walk."""

    id: str
    roots: str = ""


def read_id(place: GitPlace) -> str:
    """Return the id of a work tree; empty if no run has begun there."""
    return _read(place).id


def mark(place: GitPlace, *, fresh: bool = False) -> RepositoryMark:
    """Return what a work tree is recognised by; it gets an id if it has none, or is to have a `fresh` one."""
    kept = _read(place)
    found = _IdFile(uuid.uuid4().hex if fresh or not kept.id else kept.id, kept.roots or find_roots(place))
    if found != kept:
        with contextlib.suppress(OSError):  # without it nothing is recognised, and all else works
            write_atomic(place.git_dir / _NAME, msgspec.json.encode(found), durable=False)
    host = identity.host()
    if place.git_dir != place.common:
        return RepositoryMark(found.id, host)  # another work tree has the same history, and is not this one
    return RepositoryMark(found.id, host, found.roots, tuple(sorted(find_remotes(place))))


def find_roots(place: GitPlace) -> str:
    """Return a digest of the first commits; empty if there are none, or if the history is not all here."""
    if (place.common / "shallow").exists():
        return ""
    roots = sorted(ask_git(place, "rev-list", "--max-parents=0", "HEAD").split())
    return _digest(b" ".join(roots)) if roots else ""


def find_remotes(place: GitPlace) -> set[str]:
    """Return a digest of the address of `origin`, or of each remote if there is none of that name.

    It is the same for every way to write the address. A fork may name its original as another remote.
    """
    said = ask_git(place, "config", "--null", "--get-regexp", r"^remote\..*\.url$")
    named = dict(entry.split("\n", 1) for entry in os.fsdecode(said).split("\0") if "\n" in entry)
    urls = [named[_ORIGIN]] if _ORIGIN in named else list(named.values())
    return {_digest(os.fsencode(_plain(url, place.root))) for url in urls}


def find_address(root: Path) -> str:
    """Return a digest of the address that a clone of a folder on this machine has as its remote."""
    return _digest(os.fsencode(_plain(str(root), root)))


def _plain(url: str, root: Path) -> str:
    """Return host and path of an address, without scheme, user and password."""
    found = _SCP.fullmatch(url)
    if "://" in url:
        parts = urlsplit(url)
        host, path = parts.hostname or "", parts.path
    elif found:
        host, path = found[1], found[2]
    else:
        host, path = "", os.path.realpath(root / url)
    return f"{host.lower()}/{path.strip('/').removesuffix('.git').rstrip('/')}"


def _read(place: GitPlace) -> _IdFile:
    with contextlib.suppress(msgspec.MsgspecError):
        found = msgspec.json.decode(read_start(place.git_dir / _NAME), type=_IdFile)
        if _ID.fullmatch(found.id):
            return found
    return _IdFile("")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:20]
