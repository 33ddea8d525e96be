"""A file that is read again only once it has changed."""

from __future__ import annotations

import time
from pathlib import Path

from segue.system.files import signature
from segue.system.reading import read_file

_SETTLED_NS = 2 * 10**9
"""A file that was changed longer ago cannot be changed again without a new time."""


class WatchedFile:
    """A file of a source; `read` returns the same object as long as nobody has changed it."""

    def __init__(self, path: Path, inside: Path | None = None) -> None:
        """`inside` is the folder around it: links out of that are not followed."""
        self.path, self._inside = path, inside
        self._seen: object = None
        self._data = b""

    def read(self) -> bytes:
        """Return the contents; raises OSError or UnsafeFile."""
        found = signature(self.path)
        if found is None or found != self._seen:
            data = read_file(self.path, self._inside)
            is_settled = found is not None and max(found[2:]) < time.time_ns() - _SETTLED_NS
            self._seen = found if is_settled else None
            self._data = self._data if data == self._data else data
        return self._data
