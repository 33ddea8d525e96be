"""The fence: the only way text written by others enters a prompt.

A fenced text is between two marker lines with a code that nobody could know beforehand, so nothing inside
can pretend that the block has ended.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable

from segue.domain.pattern import pattern

_LABEL = pattern(r"[a-z]+(?: [a-z]+)*")
_NONCE = pattern(r"[0-9a-f]{16,}")


def fence(label: str, text: str, nonce: str) -> str:
    """Put a text between marker lines. Label and nonce are ours; the text may be anything."""
    if not _LABEL.fullmatch(label) or not _NONCE.fullmatch(nonce):
        raise ValueError(f"not a label and a nonce: {label!r}, {nonce!r}")
    if nonce in text.lower():
        raise ValueError("the nonce occurs in the text: take another one from choose_nonce()")
    return f"<<<{label} {nonce}>>>\n{text}\n<<<end of {label} {nonce}>>>"


def choose_nonce(texts: Iterable[str], seed: str | None = None) -> str:
    """Return a code that occurs in none of the texts: random, or always the same for a seed."""
    hay = [text.lower() for text in texts]
    nonce = secrets.token_hex(8) if seed is None else _digest(seed)
    while any(nonce in text for text in hay):
        nonce = secrets.token_hex(8) if seed is None else _digest(nonce)
    return nonce


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
