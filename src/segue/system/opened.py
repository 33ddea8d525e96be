"""Notice which files of a folder are opened, by whatever program, through the kernel's inotify."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import TracebackType

_OPENED = 0x20
_OVERFLOW = 0x4000
_IS_FOLDER = 0x40000000
_MASK = _OPENED | 0x01000000 | 0x02000000 | 0x04000000
"""Only folders, no links, and nothing about what was removed meanwhile."""
_NONBLOCK, _CLOEXEC = getattr(os, "O_NONBLOCK", 0), getattr(os, "O_CLOEXEC", 0)
_EVENT = struct.Struct("iIII")
_BUFFER = 256 * 1024


class OpenedFiles:
    """Watches files of a folder while it is entered, and knows afterwards which of them were opened.

    What is opened under another path, such as one where the folder is mounted, counts; of a link, the file
    that it leads to counts.
    """

    def __init__(self, root: Path, paths: Iterable[str]) -> None:
        self._root, self._paths = root, frozenset(paths)
        self._folders: dict[int, str] = {}
        self._opened: set[str] = set()
        self._descriptor = -1
        self._complete = False

    @property
    def found(self) -> tuple[str, ...] | None:
        """What was opened; None: not known, because this system cannot tell."""
        return tuple(sorted(self._opened)) if self._complete else None

    def __enter__(self) -> OpenedFiles:
        libc = _libc()
        self._descriptor = libc.inotify_init1(_NONBLOCK | _CLOEXEC) if libc is not None else -1
        if libc is None or self._descriptor < 0:
            return self
        self._complete = True
        for folder in {path.rpartition("/")[0] for path in self._paths}:
            name = os.fsencode(self._root / folder)
            number = libc.inotify_add_watch(self._descriptor, name, _MASK)
            self._complete = self._complete and number >= 0
            self._folders[number] = f"{folder}/" if folder else ""
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor >= 0:
            self._read()
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._descriptor, _BUFFER)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                folder, mask, _, size = _EVENT.unpack_from(data, at)
                at += _EVENT.size + size
                if mask & _OVERFLOW:
                    self._complete = False
                elif not mask & _IS_FOLDER and folder in self._folders:
                    name = os.fsdecode(data[at - size : at].rstrip(b"\0"))
                    self._opened.update(self._paths & {f"{self._folders[folder]}{name}"})


@cache
def _libc() -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.inotify_init1.argtypes = (ctypes.c_int,)
        libc.inotify_add_watch.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
    except (OSError, AttributeError, TypeError):  # another system
        return None
    return libc
