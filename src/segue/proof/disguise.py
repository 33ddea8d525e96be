"""How a run looks to the program that is checked: watched, or as if the user had started it.

A watched run reports every test, has canaries, and keeps the tests read-only by mounts: a program can find
all of that out. An ordinary run has none of it; it tells its exit code and what the command prints. A program
that behaves well only where it is watched fails there.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from segue.proof.inputs import CACHES
from segue.system.files import private_folder

_MOST_BESIDE = 60
"""Each of the files and folders beside the work tree costs a mount."""
_FIRST_PID, _PIDS = 5_000, 20_000
_SHELL = ("/bin/sh", "-c", '"$@"; exit $?', "sh")
_LATE_SHELL = ("/bin/sh", "-c", 'i=300; while [ $i -gt 0 ]; do (:); i=$((i-1)); done; "$@"; exit $?', "sh")


class Disguise(StrEnum):
    """What a program finds when it looks who runs it."""

    WATCHED = "watched"
    ORDINARY = "ordinary"


class TreeCover(Struct, frozen=True):
    """The folders around a tree that is no mount itself."""

    cover: Path
    """The folder that is shown instead of the user's."""
    source: Path
    """What is shown there; the tree is inside of it."""
    tree: Path
    beside: tuple[Path, ...] = ()
    """What else of the user's folder is shown."""


def surround(work: Path, tree: Path, root: Path, hidden: Iterable[Path]) -> TreeCover | None:
    """Move the tree to where it is seen at `root` without a mount of its own; None: that cannot be had."""
    covers = [place for place in hidden if root.is_relative_to(place) and place != root]
    top = Path("/", *root.parts[1:2])
    cover = covers[-1] if covers else top
    if cover == root:
        return None
    beside = [] if covers else list(_beside(cover, root))
    if len(beside) > _MOST_BESIDE:
        return None
    source = private_folder(work / "around")
    place = source / root.relative_to(cover)
    place.parent.mkdir(parents=True, exist_ok=True)
    tree.rename(place)
    return TreeCover(cover, source, place, tuple(beside))


def link_packages(source: Path, target: Path, seen_at: Path) -> None:
    """Make a folder of Node's packages of links to where they are seen: tools write their caches there."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in os.scandir(source):
        place = target / entry.name
        if entry.name in CACHES:
            continue
        if entry.is_symlink():
            place.symlink_to(os.readlink(entry.path))  # noqa: PTH115 - the text as it is
        elif entry.name.startswith("@"):
            link_packages(Path(entry.path), place, seen_at / entry.name)
        else:
            place.symlink_to(seen_at / entry.name)


def _beside(cover: Path, root: Path) -> Iterable[Path]:
    """Yield what is beside the work tree, and beside the folders above it."""
    place = root
    while place != cover:
        yield from (one for one in place.parent.iterdir() if one != place)
        place = place.parent


def shell(*, numbered: bool) -> tuple[str, ...]:
    """Return the words before a command that give it a shell as its parent, and a number that others have.

    `numbered`: the sandbox itself takes care of the number.
    """
    return _SHELL if numbered else _LATE_SHELL


def last_pid() -> int:
    """Return a number after which processes are numbered."""
    return _FIRST_PID + secrets.randbelow(_PIDS)


def note_files(tree: Path, paths: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return facts about files that no program can forge, to see later whether somebody wrote them."""
    return {path: _facts(tree / path) for path in paths}


def _facts(place: Path) -> tuple[int, int]:
    try:
        found = os.lstat(place)
    except OSError:
        return 0, 0
    return found.st_ino, found.st_ctime_ns


def differing(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[str, ...]:
    """Return the files that are not what they were."""
    return tuple(path for path in before if before[path] != after[path])
