"""The files of a feature: reading them, and the lock beside git's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from segue.domain.errors import SourceError
from segue.sources.plan.state import pair_key
from segue.sources.recognise import TASKS
from segue.system.reading import read_file

_LONGEST_LINK = 64 * 1024
_KEPT = "Nothing was changed."
_T = TypeVar("_T")


def read_parsed(path: Path, inside: Path, read: Callable[[bytes, str], _T], missing: _T) -> _T:
    """Return what is understood of a file, or something else if it is missing."""
    data = _read(path, inside)
    return missing if data is None else read(data, str(path))


def read_tasks(path: Path, inside: Path) -> bytes:
    """Return the contents of tasks.md; raises SourceError if there is none."""
    data = _read(path, inside) if path.is_file() else None
    if data is None:
        raise SourceError(
            f"There is no {TASKS} in {path.parent}.", kept=_KEPT, hint="Make it with /speckit.tasks."
        )
    return data


def _read(path: Path, inside: Path) -> bytes | None:
    try:
        return read_file(path, inside)
    except FileNotFoundError:
        return None
    except OSError as error:
        message = f"Cannot read {path}: {error.strerror or error}."
        raise SourceError(message, kept=_KEPT, hint="Check who may read it.") from error


def lock_path(folder: Path) -> Path:
    """Return a lock file where git does not see it: users' folders stay clean, and it is never committed."""
    for parent in (folder, *folder.parents):
        git = parent / ".git"
        if git.is_file():
            named = read_file(git, limit=_LONGEST_LINK).decode("utf-8", "replace")
            git = parent / named.removeprefix("gitdir:").strip()
        if git.is_dir():
            return git / f"segue-{pair_key(folder, folder)}.lock"
    return folder / ".state.json.lock"
