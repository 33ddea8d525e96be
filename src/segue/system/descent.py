"""Open folders through no link, by one call of the kernel or folder by folder."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from functools import cache

from segue.system.process.notes import BINARY

CLOSED: int = getattr(os, "O_CLOEXEC", 0) | BINARY
STILL: int = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
FOLDER_FLAGS: int = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | CLOSED
_NO_LINKS = 0x02 | 0x04 | 0x08
"""Flags of openat2: no links of /proc, no links at all, nothing that is not below the folder."""
_OPENAT2 = 437
_NOT_SO = (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG, errno.EAGAIN, errno.EINTR)
"""An old kernel, a filter of system calls, or a moment that does not suit: another way is taken."""


def split_path(path: str) -> list[str]:
    """Return the parts of a relative path; raises OSError for one that goes up."""
    parts = [part for part in path.replace(os.sep, "/").split("/") if part not in ("", ".")]
    if ".." in parts or os.path.isabs(path):  # noqa: PTH117
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    return parts


def open_folder(start: int, path: str) -> int:
    """Open a folder below one that is open, through no link; raises OSError, ELOOP if there is one."""
    ask = _kernel_call()
    if ask is not None:
        handle = ask(start, path)
        if handle is not None:
            return handle
    return walk_folder(start, path)


def walk_folder(start: int, path: str) -> int:
    """Do the same folder by folder, where the kernel cannot do it at once."""
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


@cache
def _kernel_call() -> Callable[[int, str], int | None] | None:
    """Return openat2, which follows a whole path at once; None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    how = (ctypes.c_uint64 * 3)(FOLDER_FLAGS, 0, _NO_LINKS)
    number, size = ctypes.c_long(_OPENAT2), ctypes.c_long(ctypes.sizeof(how))

    def ask(start: int, path: str) -> int | None:
        handle: int = library.syscall(number, ctypes.c_long(start), os.fsencode(path), how, size)
        if handle >= 0:
            return handle
        code = ctypes.get_errno()
        if code in _NOT_SO:
            return None
        raise OSError(code, os.strerror(code), path)

    return ask
