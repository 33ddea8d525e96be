"""What is known of each call, durably: the same Idempotency-Key never runs an action twice."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from segue.system.files import private_folder, write_atomic


@dataclass(frozen=True, slots=True)
class Record:
    """One call. Its token names the job of the supervisor, so that a restarted relay can adopt it."""

    name: str
    token: str
    action: str
    request: str
    """A hash of action and parameters: a key belongs to one request."""
    state: Literal["asking", "started", "ended"]
    at: float
    status: int = 0
    body: dict[str, Any] | None = None

    def ended(self, status: int, body: dict[str, Any]) -> Record:
        """The record with what was answered."""
        return replace(self, state="ended", status=status, body=body)


def record_name(key: str | None, token: str) -> str:
    """The name of a call's file: by its key if it has one."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest() if key else token


def request_hash(action: str, values: Mapping[str, str]) -> str:
    """What tells one request from another."""
    text = json.dumps([action, sorted(values.items())])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def unknown_outcome() -> tuple[int, dict[str, Any]]:
    """The honest answer when a call was cut off: it may or may not have done its work."""
    error = "this call was cut off while it ran, and what came of it is not known; it is not run again"
    return 409, {"error": error, "code": "unknown_outcome"}


class Calls:
    """One small file per call."""

    def __init__(self, folder: Path, keep_days: float) -> None:
        self._folder = private_folder(folder)
        self._keep = keep_days * 86_400
        self._pruned = 0.0

    def find(self, name: str) -> Record | None:
        """The call, if it is known."""
        return _load(self._path(name))

    def write(self, record: Record) -> None:
        """Write a call down; after this a crash does not forget it."""
        self._prune()
        write_atomic(self._path(record.name), json.dumps(asdict(record)).encode())

    def forget(self, name: str) -> None:
        """Drop a call that was never run."""
        self._path(name).unlink(missing_ok=True)

    def unfinished(self) -> Iterator[Record]:
        """The calls that a relay before this one did not finish."""
        for path in sorted(self._folder.glob("*.json")):
            record = _load(path)
            if record is not None and record.state != "ended":
                yield record

    def _prune(self) -> None:
        """Old results go, now and then."""
        now = time.time()
        if now - self._pruned < 3600:
            return
        self._pruned = now
        for path in self._folder.glob("*.json"):
            record = _load(path)
            if record is not None and record.state == "ended" and record.at < now - self._keep:
                path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def _load(path: Path) -> Record | None:
    try:
        return Record(**json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        # Damaged from outside: what it was is not known, so it must not be run again.
        return Record(path.stem, "", "", "", "ended", time.time(), *unknown_outcome())
