"""Delete inside one folder and nowhere else: paths are resolved first, links are never followed."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from segue.domain.errors import SegueError


class NotOurs(SegueError):
    """What should be deleted is not in the expected folder."""


def belongs(root: Path, path: Path) -> bool:
    """Return whether the path really is inside the folder: not a link, nor reached by one that leads out."""
    if path.name in ("", ".", "..") or path.is_symlink() or os.path.ismount(path):
        return False
    real, parent = os.path.realpath(root), os.path.realpath(path.parent)
    return os.path.commonpath([real, parent]) == real


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; links count as themselves."""
    total, waiting = 0, [path]
    while waiting:
        here = waiting.pop()
        try:
            found = here.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode):
            waiting += _inside(here)
        else:
            total += found.st_size
    return total


def newest(path: Path) -> float:
    """Return when a folder or one of its entries last changed, in seconds since the epoch."""
    return max(_changed(entry) for entry in (path, *_inside(path)))


def delete(root: Path, path: Path) -> None:
    """Delete a file, or a folder with everything in it; raises NotOurs for paths outside."""
    if not belongs(root, path):
        raise NotOurs(f"{path} is not in {root}.", kept="It was not deleted.")
    try:
        _delete(path)
    except FileNotFoundError:
        return
    except (OSError, RecursionError) as error:
        raise SegueError(
            f"{path} could not be deleted: {getattr(error, 'strerror', None) or error}.",
            hint="Check who owns it, then try again.",
        ) from error


def _delete(path: Path) -> None:
    if not path.is_dir():
        path.unlink()
        return
    try:
        shutil.rmtree(path)
    except PermissionError:
        # Some tools make their caches read-only.
        for place, folders, _ in os.walk(path):
            for folder in [place, *(os.path.join(place, name) for name in folders)]:  # noqa: PTH118
                if not os.path.islink(folder):  # noqa: PTH114
                    os.chmod(folder, stat.S_IRWXU)  # noqa: PTH101
        shutil.rmtree(path)


def _inside(path: Path) -> list[Path]:
    try:
        return list(path.iterdir()) if path.is_dir() and not path.is_symlink() else []
    except OSError:
        return []


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0
