"""Where git's own folders are, and the id by which Segue recognises a repository whose folder was moved."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from pathlib import Path

from msgspec import Struct

from segue.system.files import read_start, write_atomic

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_ID = re.compile(r"[0-9a-f]{32}")


class GitPlace(Struct, frozen=True):
    """A work tree and its git folders."""

    root: Path
    git_dir: Path
    common: Path
    """The git folder that all work trees of the repository share."""

    @classmethod
    def of(cls, root: Path, git_dir: Path) -> GitPlace:
        """Return the place of a work tree whose git folder is known."""
        return cls(root, git_dir, common_dir(git_dir))


def find_place(path: Path) -> GitPlace | None:
    """Return the work tree around a path, found in files alone; None if there is none."""
    real = Path(os.path.realpath(path))
    for folder in (real, *real.parents):
        git = folder / ".git"
        with contextlib.suppress(OSError):
            if git.is_file():
                git = folder / os.fsdecode(read_start(git)).removeprefix("gitdir:").strip()
            if git.is_dir():
                return GitPlace.of(folder, Path(os.path.realpath(git)))
    return None


def git_dirs(path: Path) -> tuple[Path, Path] | None:
    """Return the git folder of the work tree around the path, and the one that all its work trees share."""
    found = find_place(path)
    return (found.git_dir, found.common) if found else None


def common_dir(git_dir: Path) -> Path:
    """Return the git folder that all work trees of a repository share."""
    # Git never writes `commondir` into the shared folder itself.
    named = "" if (git_dir / "objects").is_dir() else os.fsdecode(read_start(git_dir / "commondir")).strip()
    return Path(os.path.realpath(git_dir / named)) if named else git_dir


def read_head(place: GitPlace) -> tuple[str, str]:
    """Return branch and commit of HEAD as plain files have them; an empty commit: git has to be asked."""
    head = _read(place.git_dir / "HEAD")
    if not head.startswith("ref: "):
        return "", head if COMMIT.fullmatch(head) else ""
    ref = head.removeprefix("ref: ")
    commit = _read(place.common / ref) if ".." not in ref else ""
    return ref.removeprefix("refs/heads/"), commit if COMMIT.fullmatch(commit) else ""


def _read(path: Path) -> str:
    return read_start(path).decode("utf-8", "replace").strip()


def read_id(git_dir: Path) -> str:
    """Return the id of a work tree; empty if no run has begun there."""
    found = _read(git_dir / "segue.id")
    return found if _ID.fullmatch(found) else ""


def make_id(git_dir: Path, *, fresh: bool = False) -> str:
    """Return the id of a work tree, which gets one if it has none, or is to have a `fresh` one."""
    own = "" if fresh else read_id(git_dir)
    if not own:
        own = uuid.uuid4().hex
        with contextlib.suppress(OSError):  # without it nothing is recognised, and all else works
            write_atomic(git_dir / "segue.id", own.encode(), durable=False)
    return own
