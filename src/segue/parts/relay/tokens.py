"""The relay's token: shown once, stored as a hash, and read again for every call."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from pathlib import Path

import msgspec

from segue.system.secrets import read_secret, write_secret

_PREFIX = "segue-relay-"


class StoredToken(msgspec.Struct, frozen=True):
    """What is stored of a token."""

    sha256: str
    made: float


class TokenFile:
    """The file with the token's hash."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "token.json"

    def created(self) -> float | None:
        """Return when the token was created; None if there is none."""
        known = self._read()
        return known.made if known else None

    def rotate(self) -> str:
        """Create a new token; the old one is refused from now on."""
        token = _PREFIX + secrets.token_urlsafe(32)
        write_secret(self.path, msgspec.json.encode(StoredToken(_digest(token), round(time.time(), 3))))
        return token

    def accepts(self, token: str) -> bool:
        """Return whether this is the token, in constant time."""
        known = self._read()
        return known is not None and hmac.compare_digest(known.sha256.encode(), _digest(token).encode())

    def _read(self) -> StoredToken | None:
        # Not cached: a running relay must notice at once that the token was rotated.
        try:
            return msgspec.json.decode(read_secret(self.path) or b"", type=StoredToken)
        except msgspec.DecodeError:
            return None


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
