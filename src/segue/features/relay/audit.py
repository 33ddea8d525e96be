"""The audit log: one JSON line per event of a call, append-only, rotated by size."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from segue.system.redact import Redactor

_QUIET_SECONDS = 1.0


class Audit:
    """Writes the log; no action runs unless it was logged first."""

    def __init__(self, path: Path, redactor: Redactor, max_bytes: int = 10 * 1024**2, files: int = 5) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._files = files
        self._redactor = redactor
        self._refusals: dict[int, tuple[float, int]] = {}

    def write(self, event: str, **facts: Any) -> None:
        """Append a line; raise OSError if that fails."""
        record = {"at": round(time.time(), 3), "event": event, **self._redactor.data(facts)}
        line = json.dumps(record, default=str).encode() + b"\n"
        if self._size() + len(line) > self._max_bytes:
            self._rotate()
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)

    def write_refusal(self, status: int, **facts: Any) -> None:
        """Log a refused request, at most one a second: a flood must not push the rest out of the log."""
        now = time.monotonic()
        last, missed = self._refusals.get(status, (-_QUIET_SECONDS, 0))
        if now - last < _QUIET_SECONDS:
            self._refusals[status] = (last, missed + 1)
            return
        self._refusals[status] = (now, 0)
        with contextlib.suppress(OSError):  # it is refused either way
            self.write("refused", status=status, unlogged_before=missed, **facts)

    def _size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def _rotate(self) -> None:
        """Rename audit.jsonl to audit.jsonl.1 and so on; the oldest file is overwritten."""
        for number in range(self._files - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        if self.path.exists():
            self.path.replace(self._numbered(1))

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")
