"""The relay's token: shown once, stored as a hash, and read again for every call."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from pathlib import Path
from typing import Any

from segue.system.files import private_folder, write_atomic

_PREFIX = "segue-relay-"


class TokenFile:
    """The file with the token's hash."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "token.json"

    def created(self) -> float | None:
        """Return when the token was created; None if there is none."""
        return self._read().get("made")

    def rotate(self) -> str:
        """Create a new token; the old one is refused from now on."""
        token = _PREFIX + secrets.token_urlsafe(32)
        private_folder(self.path.parent)
        facts = {"sha256": _digest(token), "made": round(time.time(), 3)}
        write_atomic(self.path, json.dumps(facts).encode())
        return token

    def accepts(self, token: str) -> bool:
        """Return whether this is the token, in constant time."""
        known = self._read().get("sha256")
        return isinstance(known, str) and hmac.compare_digest(known.encode(), _digest(token).encode())

    def _read(self) -> dict[str, Any]:
        # Not cached: a running relay must notice at once that the token was rotated.
        try:
            found = json.loads(self.path.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
