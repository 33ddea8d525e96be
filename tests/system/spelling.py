"""Secrets, and what programs make of them on their way into a log."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

from hypothesis import strategies as st

LETTERS = "abcXYZ0189-_.~!$&+=@:/?%#\\\"'<>é€😀 "
SECRETS = (
    st.text(LETTERS, min_size=8, max_size=60)
    .map(str.strip)
    # What looks escaped in a secret, such as `%00`, is undone itself: the rest must be long enough.
    .filter(lambda text: len(re.sub(r"%[0-9a-fA-F]{2}|\\.", "", text)) >= 8)
)
INVISIBLE = [
    "\x1b[31m",
    "\x1b[0m",
    "\x1b]0;title\x07",
    "\x00",
    "\x07",
    "\r",
    "\x9b1m",
    "\u200b",
    "\u200d",
    "\ufeff",
]
INVISIBLE += ["\u202e", "\u2066", "\ufe0f", "\x1b[K"]

_NAMES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;", "+": "&plus;", "/": "&sol;"}


def _units(char: str) -> list[int]:
    data = char.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[place : place + 2]) for place in range(0, len(data), 2)]


CHARACTERS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "URL": lambda char: "".join(f"%{byte:02X}" for byte in char.encode()),
    "URL, small": lambda char: "".join(f"%{byte:02x}" for byte in char.encode()),
    "HTML": lambda char: _NAMES.get(char, char),
    "HTML, decimal": lambda char: f"&#{ord(char)};",
    "HTML, hex": lambda char: f"&#x{ord(char):x};",
    "HTML, HEX": lambda char: f"&#X{ord(char):04X};",
    "JSON": lambda char: "".join(f"\\u{unit:04x}" for unit in _units(char)),
    "JSON, capitals": lambda char: "".join(f"\\u{unit:04X}" for unit in _units(char)),
    "shell": lambda char: char if char.isalnum() or char.isspace() or not char.isascii() else f"\\{char}",
}
"""How one character may be escaped."""

WHOLE: dict[str, Callable[[str], str]] = {
    "plain": str,
    "URL": lambda text: quote(text, safe=""),
    "URL with slashes": quote,
    "form": quote_plus,
    "URL, twice": lambda text: quote(quote(text, safe=""), safe=""),
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON, UTF-8": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON with slashes": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "JSON, twice": lambda text: json.dumps(json.dumps(text))[3:-3],
    "JSON, three times": lambda text: json.dumps(json.dumps(json.dumps(text)[1:-1])[1:-1])[1:-1],
    "HTML in JSON": lambda text: json.dumps("".join(CHARACTERS["HTML"](char) for char in text))[1:-1],
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
}
"""How a whole text may be escaped."""


@st.composite
def spelt(draw: st.DrawFn, secret: str) -> str:
    """A secret as it may come out of a program: escaped, in parts or whole, with things between."""
    kind = draw(st.sampled_from(["whole", "mixed", "split", "base64"]))
    if kind == "whole":
        return WHOLE[draw(st.sampled_from(sorted(WHOLE)))](secret)
    if kind == "base64":
        return encoded(secret, draw(st.binary(max_size=5)), draw(st.binary(max_size=5)), draw(st.booleans()))
    if kind == "split":
        text = WHOLE[draw(st.sampled_from(["plain", "URL", "JSON"]))](secret)
        places = draw(st.lists(st.integers(1, len(text) - 1), max_size=6))
        for place in sorted(places, reverse=True):
            text = text[:place] + draw(st.sampled_from(INVISIBLE)) + text[place:]
        return text
    ways = draw(st.lists(st.sampled_from(sorted(CHARACTERS)), min_size=len(secret), max_size=len(secret)))
    # What looks escaped must itself be escaped, or nobody could read it back.
    return "".join(
        CHARACTERS["HTML, decimal" if way in ("plain", "HTML") and char in "%&\\" else way](char)
        for way, char in zip(ways, secret, strict=True)
    )


def encoded(secret: str, before: bytes, after: bytes, in_urls: bool) -> str:
    """Base64 of something with the secret in it."""
    encode = base64.urlsafe_b64encode if in_urls else base64.b64encode
    return encode(before + secret.encode() + after).decode()
