"""Open folders through no link, folder by folder."""

from __future__ import annotations

import errno
import os
import stat

from segue.system.process.notes import BINARY

CLOSED: int = getattr(os, "O_CLOEXEC", 0) | BINARY
STILL: int = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
FOLDER_FLAGS: int = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | CLOSED


def split_path(path: str) -> list[str]:
    """Return the parts of a relative path; raises OSError for one that goes up."""
    parts = [part for part in path.replace(os.sep, "/").split("/") if part not in ("", ".")]
    if ".." in parts or os.path.isabs(path):  # noqa: PTH117
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    return parts


def open_folder(start: int, path: str) -> int:
    """Open a folder below one that is open, through no link; raises OSError, ELOOP if there is one."""
    here = os.dup(start)
    try:
        for part in split_path(path):
            below = _step(here, part)
            os.close(here)
            here = below
    except BaseException:
        os.close(here)
        raise
    return here


def _step(folder: int, name: str) -> int:
    try:
        return os.open(name, FOLDER_FLAGS | STILL, dir_fd=folder)
    except NotADirectoryError:  # what Linux says of a link
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
        raise
