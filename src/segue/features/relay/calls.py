"""Stores every call durably: the same Idempotency-Key never runs an action twice."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from segue.system.files import private_folder, write_atomic


class CallRecord(msgspec.Struct, frozen=True):
    """One call. Its token names the supervisor's job, so that a restarted relay can adopt it."""

    name: str
    token: str
    action: str
    request: str
    """A hash of action and parameters: a key belongs to one request."""
    state: Literal["started", "ended"]
    at: float
    status: int = 0
    body: dict[str, Any] | None = None

    def end(self, status: int, body: dict[str, Any]) -> CallRecord:
        """Return the record with the reply."""
        return msgspec.structs.replace(self, state="ended", status=status, body=body)


def record_name(key: str | None, token: str) -> str:
    """Return the name of a call's file: a hash of its key, or its token if it has no key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest() if key else token


def hash_request(action: str, values: Mapping[str, str]) -> str:
    """Return a hash that tells one request from another."""
    text = json.dumps([action, sorted(values.items())])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def unknown_outcome() -> tuple[int, dict[str, Any]]:
    """Return the reply for a call that was interrupted: it may or may not have done its work."""
    error = "this call was interrupted and its outcome is unknown; it is not run again"
    return 409, {"error": error, "code": "unknown_outcome"}


class Calls:
    """One small file per call."""

    def __init__(self, folder: Path, keep_days: float) -> None:
        self._folder = private_folder(folder)
        self._keep = keep_days * 86_400
        self._pruned = 0.0

    def find(self, name: str) -> CallRecord | None:
        """Return the call, if it is known."""
        return _load(self._path(name))

    def write(self, record: CallRecord) -> None:
        """Store a call so that a crash does not lose it."""
        self._prune()
        write_atomic(self._path(record.name), msgspec.json.encode(record))

    def forget(self, name: str) -> None:
        """Delete a call that was never run."""
        self._path(name).unlink(missing_ok=True)

    def unfinished(self) -> Iterator[CallRecord]:
        """Yield the calls that an earlier relay did not finish."""
        for path in sorted(self._folder.glob("*.json")):
            record = _load(path)
            if record is not None and record.state != "ended":
                yield record

    def _prune(self) -> None:
        """Delete old results, at most once an hour."""
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


def _load(path: Path) -> CallRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=CallRecord)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError:
        # A damaged file may stand for a call that ran, so it must not run again.
        return CallRecord(path.stem, "", "", "", "ended", time.time(), *unknown_outcome())
