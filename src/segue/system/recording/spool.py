"""The files of a recording while it is made: stored before anything is passed on, so no kill loses it."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from segue.system.recording.exchanges import ModelExchange

MOST_BYTES = 256 * 1024 * 1024
"""Of all requests and responses of a launch; what comes after is forwarded and not recorded."""
MOST_EXCHANGES = 5000
_KEPT = frozenset({"content-type", "content-encoding", "retry-after", "x-should-retry"})
_KEPT_BEGINNINGS = ("anthropic-ratelimit-", "x-ratelimit-", "x-codex-")
_BOTH = 47
"""For zlib: gzip or deflate, whichever it is."""


def kept_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers of a response that an agent acts on; no key and no cookie is among them."""
    named = {name.lower(): value for name, value in headers}
    return {
        name: value for name, value in named.items() if name in _KEPT or name.startswith(_KEPT_BEGINNINGS)
    }


class RecordingSpool:
    """Writes the exchanges of one launch into a folder: a few files each, by their number."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count, self._room = folder, 0, MOST_BYTES

    def begin(self, method: str, path: str, encoding: str, body: bytes) -> ExchangeSpool | None:
        """Store a request; None: there is no room for it."""
        self._count += 1
        if self._count > MOST_EXCHANGES or not self.take(len(body)):
            with (self._folder / "left-out").open("ab") as file:
                file.write(b".")
            return None
        place = self._folder / f"{self._count:05}"
        place.with_suffix(".sent").write_bytes(body)
        _write(place.with_suffix(".request"), {"method": method, "path": path, "encoding": encoding})
        return ExchangeSpool(self, place)

    def take(self, size: int) -> bool:
        """Take some room; return whether there was enough."""
        self._room -= size
        return self._room >= 0


class ExchangeSpool:
    """Writes the response of one exchange, piece by piece."""

    def __init__(self, spool: RecordingSpool, place: Path) -> None:
        self._spool, self._place, self._full = spool, place, False

    def head(self, status: int, headers: dict[str, str]) -> None:
        """Store how the response begins."""
        _write(self._place.with_suffix(".response"), {"status": status, "headers": headers})

    def piece(self, data: bytes) -> None:
        """Store a piece of the response, before the agent sees it."""
        self._full = self._full or not self._spool.take(len(data))
        if not self._full:
            with self._place.with_suffix(".got").open("ab") as file:
                file.write(data)

    def end(self) -> None:
        """Note that the response is complete."""
        if not self._full:
            self._place.with_suffix(".whole").touch()


def read_spool(folder: Path) -> tuple[list[ModelExchange], int]:
    """Return the exchanges that were stored, and how many were left out."""
    try:
        left = (folder / "left-out").stat().st_size
    except OSError:
        left = 0
    return [_read(path.with_suffix("")) for path in sorted(folder.glob("*.request"))], left


def _read(place: Path) -> ModelExchange:
    asked, head = _load(place.with_suffix(".request")), _load(place.with_suffix(".response"))
    headers = head.get("headers", {})
    sent = _decode(place.with_suffix(".sent"), asked.get("encoding", ""))
    got = _decode(place.with_suffix(".got"), headers.pop("content-encoding", ""))
    return ModelExchange(
        asked.get("method", ""),
        asked.get("path", ""),
        _json(sent),
        head.get("status", 0),
        headers,
        got,
        place.with_suffix(".whole").exists(),
    )


def _decode(path: Path, encoding: str) -> str:
    try:
        data = path.read_bytes()
    except OSError:
        return ""
    if encoding in ("gzip", "deflate"):
        data = b"".join(_inflate(data))
    elif encoding not in ("", "identity"):
        return f"[{len(data)} bytes in the encoding {encoding}, which is not read]"
    return data.decode("utf-8", "replace")


def _inflate(data: bytes) -> Iterator[bytes]:
    """Yield what was compressed, as far as it goes and is not endless."""
    try:
        yield zlib.decompressobj(_BOTH).decompress(data, MOST_BYTES)
    except zlib.error:
        return


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text or None


def _write(path: Path, value: dict[str, Any]) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(value))
    os.replace(draft, path)  # noqa: PTH105 - what was killed in between is not read


def _load(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
