"""Secrets that are known and tokens of well-known shapes, in the forms in which they are found."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from urllib.parse import quote, quote_plus

from hypothesis import strategies as st

_RANDOM = random.Random(33)
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def _make(length: int, letters: str = _LETTERS) -> str:
    return "".join(_RANDOM.choices(letters, k=length))


def armour(kind: str, data: bytes, width: int = 64) -> str:
    """Return data as PEM."""
    body = base64.b64encode(data).decode()
    lines = [body[place : place + width] for place in range(0, len(body), width)]
    return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"])


# Made while the tests run, so that nobody takes this file for a leak.
SHAPES = {
    "anthropic": "sk-" + "ant-api03-" + _make(80),
    "openai": "sk-" + "proj-" + _make(60),
    "github": "ghp" + "_" + _make(36),
    "github, fine": "github" + "_pat_" + _make(22) + "_" + _make(59),
    "gitlab": "glpat" + "-" + _make(20),
    "npm": "npm" + "_" + _make(36),
    "pypi": "pypi" + "-AgEI" + _make(120),
    "hugging face": "hf" + "_" + _make(34),
    "slack": "xoxb" + "-123456789012-1234567890123-" + _make(24),
    "slack hook": "hooks.slack.com" + "/services/T0A1B2C3D/B0A1B2C3D/" + _make(24),
    "stripe": "sk" + "_live_" + _make(24),
    "aws": "AKIA" + _make(15, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") + "Q",
    "google": "AIza" + "Sy" + _make(33),
    "jwt": "eyJ" + _make(34) + ".eyJ" + _make(60) + "." + _make(43),
    "rsa": armour("RSA " + "PRIVATE KEY", _RANDOM.randbytes(600)),
    "openssh": armour("OPENSSH " + "PRIVATE KEY", _RANDOM.randbytes(300), 70),
}
KNOWN = {
    "password": "kn0wn/s3cret&value+1",
    "short": "hunter-22",
    "words": "correct horse battery staple",
}


def _basic(text: str, before: bytes = b"user:") -> str:
    return base64.b64encode(before + text.encode()).decode()


SHAPE_FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON, twice": lambda text: json.dumps(json.dumps(text)[1:-1])[1:-1],
    "in a diff": lambda text: text.replace("\n", "\n+"),
    "in a comment": lambda text: text.replace("\n", "\n# "),
}
FORMS: dict[str, Callable[[str], str]] = {
    **{name: form for name, form in SHAPE_FORMS.items() if "in a" not in name},
    "JSON, UTF-8": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON with slashes": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "URL": lambda text: quote(text, safe=""),
    "URL with slashes": quote,
    "form": quote_plus,
    "base64": lambda text: _basic(text, b""),
    "base64, basic": _basic,
    "base64, in URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
}
"""Forms in which a known secret is found."""

SECRETS = (
    st.text("abcXYZ0189-_.~!$&+=@:/?%#\\\"'<>é€😀 ", min_size=9, max_size=60)
    .map(str.strip)
    .filter(lambda text: len(text) > 8)
)


def spelt(secret: str) -> st.SearchStrategy[str]:
    """Return a secret in one of its forms."""
    return st.sampled_from(sorted(FORMS)).map(lambda name: FORMS[name](secret))


def pieces(secret: str, encoded: str, size: int = 12) -> set[str]:
    """Return the pieces of a secret, as it was written, that would give it away."""
    words = [word for word in (*encoded.split("\n"), *secret.split("\n")) if "-----" not in word]
    found = {word[at : at + size] for word in words for at in range(0, max(1, len(word) - size + 1), 4)}
    return {piece for piece in found if len(piece) == size}
