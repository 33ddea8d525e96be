"""Fill in what LFS keeps beside git's objects, as data: no program is started and nothing is downloaded."""

from __future__ import annotations

import hashlib
import re
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from segue.system.files import read_start

_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-.*\n)*oid sha256:([0-9a-f]{64})\nsize (\d+)\n"
)
_LONGEST = 1024
"""LFS reads no longer file as a pointer."""


def find_pointers(common: Path, folder: Path, paths: Iterable[str]) -> dict[str, Path]:
    """Return the files of a tree that are pointers, with what was fetched for them."""
    kept = common / "lfs" / "objects"
    if not kept.is_dir():
        return {}
    found = {}
    for path in paths:
        facts = (folder / path).lstat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LONGEST:
            continue
        if pointer := _POINTER.fullmatch(read_start(folder / path, _LONGEST)):
            name = pointer[1].decode()
            content = kept / name[:2] / name[2:4] / name
            if _is_content(content, name, int(pointer[2])):
                found[path] = content
    return found


def fill_pointer(place: Path, content: Path) -> None:
    """Write the content in the place of its pointer; the mode stays."""
    with content.open("rb") as source, place.open("wb") as target:
        shutil.copyfileobj(source, target)


def _is_content(place: Path, name: str, size: int) -> bool:
    """Return whether a file is what its name says: an agent may have written it."""
    try:
        facts = place.lstat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size != size:
            return False
        with place.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == name
    except OSError:
        return False
