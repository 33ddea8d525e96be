"""Remove secrets from everything that is stored or shown, also when they arrive in pieces."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

MARK = "[redacted]"
SHORTEST = 8
"""Shorter values are words such as `true` and `root`; replacing those would garble everything."""

_SECRET_NAME = re.compile(
    r"SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|(?:KEY|TOKEN)S?(?![A-Z])|(?:^|_)PAT(?![A-Z])"
)
_HARMLESS_NAME = re.compile(r"_(?:PATH|FILE|DIR|SOCK)$")


def secrets_of(environ: Mapping[str, str]) -> list[str]:
    """Return the secret values: of variables named like secrets, and passwords in URLs."""
    found: dict[str, None] = {}
    for name, value in environ.items():
        upper = name.upper()
        if _SECRET_NAME.search(upper) and not _HARMLESS_NAME.search(upper):
            found[value] = None
        if "://" in value:
            found.update(dict.fromkeys(_passwords(value)))
    return [value for value in found if len(value.strip()) >= SHORTEST]


def _passwords(url: str) -> list[str]:
    try:
        password = urlsplit(url).password or ""
    except ValueError:
        return []
    return [password, unquote(password)]


class Redactor:
    """Replaces every known secret, plain, escaped for JSON or quoted for a URL."""

    def __init__(self, secrets: Iterable[str]) -> None:
        stripped = {secret.strip() for secret in secrets}
        forms = {form for secret in stripped if len(secret) >= SHORTEST for form in _forms(secret)}
        # Longest first: of two secrets with a common beginning, the longer one must be removed whole.
        texts = sorted(forms, key=len, reverse=True)
        self._text = re.compile("|".join(map(re.escape, texts))) if texts else None
        self._bytes = sorted({_encoded(form) for form in forms}, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        return self._text.sub(MARK, text) if self._text else text

    def data(self, value: Any) -> Any:
        """Return JSON-like data without secrets, also in keys."""
        if self._text is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.data(key): self.data(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(item) for item in value]
        return value

    def stream(self) -> StreamRedactor:
        """Return a redactor for bytes that come in pieces."""
        return StreamRedactor(self._bytes)


class StreamRedactor:
    """Redacts a stream of bytes; what may be the beginning of a secret is kept back until that is clear."""

    def __init__(self, secrets: list[bytes]) -> None:
        self._secrets = secrets
        self._whole = re.compile(b"|".join(map(re.escape, secrets)))
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Take the next piece and return what is safe to show."""
        return self._redact(data, final=False) if self._secrets else data

    def close(self) -> bytes:
        """Return what was kept back."""
        return self._redact(b"", final=True) if self._held else b""

    def _redact(self, data: bytes, final: bool) -> bytes:
        data = self._held + data
        pieces: list[bytes] = []
        place = 0
        safe = len(data) if final else self._safe_until(data, 0)
        # A match that starts before `safe` cannot grow: a longer candidate would have lowered `safe`.
        while (match := self._whole.search(data, place)) and match.start() < safe:
            pieces += [data[place : match.start()], MARK.encode()]
            place = match.end()
            if place > safe:
                safe = self._safe_until(data, place)
        pieces.append(data[place:safe])
        self._held = data[safe:]
        return b"".join(pieces)

    def _safe_until(self, data: bytes, place: int) -> int:
        """Return where the first suffix starts that may be the beginning of a secret."""
        return min(_beginning(data, secret, place) for secret in self._secrets)


def _beginning(data: bytes, secret: bytes, place: int) -> int:
    """Return where the data ends in an incomplete secret; the data's length if it does not."""
    probe = secret[:4]
    place = max(place, len(data) - len(secret) + 1)
    found = data.find(probe, place)
    while found >= 0:
        if secret.startswith(data[found:]):
            return found
        found = data.find(probe, found + 1)
    for length in (3, 2, 1):
        if len(data) - length >= place and data.endswith(probe[:length]):
            return len(data) - length
    return len(data)


def _forms(secret: str) -> set[str]:
    """Return the secret in every form that programs give it."""
    raw = _encoded(secret)
    forms = {secret, quote(raw, safe=""), quote(raw), quote(raw, safe="!*'()"), quote_plus(raw)}
    for ascii_only in (True, False):
        once = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        # An agent's JSON lines contain tools' output that is JSON itself: escaped twice.
        for spelt in (once, once.replace("/", "\\/")):
            forms |= {spelt, json.dumps(spelt, ensure_ascii=ascii_only)[1:-1]}
    return forms


def _encoded(text: str) -> bytes:
    """Return the text as a process prints it, with the undecodable bytes of the environment restored."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
