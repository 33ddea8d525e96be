"""Every shape and every known secret, in every encoding, after whatever stands before it, is gone."""

from __future__ import annotations

import json

import pytest

from segue.system.redact import MARK, Redactor
from tests.system.shapes import BEFORE, CHANGED, ENCODINGS, KNOWN, SHAPES, honest

REDACTOR = Redactor(KNOWN.values())
PIECE = 12
"""So many characters of a secret in a row give it away, and so many bytes of an encoded one."""


def leaks(secret: str, encoded: str, out: str) -> bool:
    """Return whether a good part of the secret, as it was written, is still there."""
    words = [word for word in (*encoded.split("\n"), *secret.split("\n")) if "-----" not in word]
    pieces = [word[at : at + PIECE] for word in words for at in range(0, max(1, len(word) - PIECE + 1), 4)]
    return any(piece in out for piece in pieces if len(piece) == PIECE)


def check(secret: str, encoded: str, before: str, name: str) -> None:
    text = f"It says:\n{before}{encoded}\nand more"
    out = REDACTOR.text(text)
    assert MARK in out, f"not found: {name}"
    assert not leaks(secret, encoded, out), (name, out)
    assert out.startswith("It says:\n")
    assert out.endswith("and more")
    assert REDACTOR.doubts(json.dumps({"text": text}, ensure_ascii=False)), f"passes as JSON: {name}"


@pytest.mark.parametrize("name", [*SHAPES, *KNOWN])
def test_no_encoding_hides_a_secret(name: str) -> None:
    secret = {**SHAPES, **KNOWN}[name]
    for encoding, encode in ENCODINGS.items():
        check(secret, encode(secret), '"', encoding)


@pytest.mark.parametrize("name", [*SHAPES, *KNOWN])
def test_nothing_before_a_secret_hides_it(name: str) -> None:
    secret = {**SHAPES, **KNOWN}[name]
    for place, before in BEFORE.items():
        for encoding in ("plain", "base64", "JSON"):
            check(secret, ENCODINGS[encoding](secret), before, f"{encoding} behind {place}")


@pytest.mark.parametrize("change", CHANGED)
@pytest.mark.parametrize("name", KNOWN)
def test_a_known_secret_is_found_in_another_case(name: str, change: str) -> None:
    check(KNOWN[name], CHANGED[change](KNOWN[name]), "+", change)


@pytest.mark.parametrize("name", honest())
def test_honest_text_stays(name: str) -> None:
    text = honest()[name]
    for one in (text, "\n".join(f"+{line}" for line in text.splitlines()), json.dumps(text)):
        assert REDACTOR.text(one) == one
