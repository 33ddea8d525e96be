"""The relay's token: shown once, kept as a hash, and looked up anew for every call."""

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
    """The file that knows the token's hash."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "token.json"

    def made(self) -> float | None:
        """When the token was made; None when there is none."""
        return self._read().get("made")

    def rotate(self) -> str:
        """Make a new token; the old one is refused from now on."""
        token = _PREFIX + secrets.token_urlsafe(32)
        private_folder(self.path.parent)
        facts = {"sha256": _digest(token), "made": round(time.time(), 3)}
        write_atomic(self.path, json.dumps(facts).encode())
        return token

    def accepts(self, token: str) -> bool:
        """Whether this is the token; takes as long for every wrong one."""
        known = self._read().get("sha256")
        return isinstance(known, str) and hmac.compare_digest(known.encode(), _digest(token).encode())

    def _read(self) -> dict[str, Any]:
        # Read anew each time: a running relay must notice at once that the token was rotated.
        try:
            found = json.loads(self.path.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
