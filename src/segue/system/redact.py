"""Remove secrets and control sequences from text before it is stored, shown or sent.

A known secret is found as it is, escaped as in JSON (also twice), quoted as in a URL, and inside of base64.
Tokens and private keys of well-known shapes are found without being known.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from segue.domain.text import strip_control

T = TypeVar("T")
Span = tuple[int, int]

MARK = "[redacted]"
SHORTEST = 8
"""Shorter values are words such as `true` and `root`; replacing those would garble everything."""

_WORD = "[A-Za-z0-9_-]"
_SHAPES = (
    rf"sk-(?:(?:ant|proj|svcacct|admin|or-v1|lf)-{_WORD}{{20,}}|[A-Za-z0-9]{{32,}})",
    r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}",
    r"gh[pousr]_[A-Za-z0-9]{36,}",
    r"github_pat_[A-Za-z0-9_]{36,}",
    rf"glpat-{_WORD}{{20,}}",
    r"npm_[A-Za-z0-9]{36}",
    rf"pypi-AgEI{_WORD}{{50,}}",
    r"hf_[A-Za-z0-9]{34,}",
    r"xox[abeoprs]-[0-9]{6,}-[A-Za-z0-9-]{16,}",
    r"hooks\.slack\.com/services/T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/[A-Za-z0-9]{16,}",
    r"A(?:KIA|SIA)[A-Z2-7]{16}(?![A-Z0-9])",
    rf"AIza{_WORD}{{35}}",
    rf"eyJ{_WORD}{{10,}}\.eyJ{_WORD}{{10,}}\.{_WORD}{{16,}}",
)
# Within a hash or an encoded image it is a coincidence; the letter of an escaped line end is none.
_TOKEN = re.compile(rf"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:{'|'.join(_SHAPES)})")
_FAKE = re.compile(r"(?i)example|placeholder|your[-_]?|x{8}|\*{4}|0{12}|1234567890abcdef")

_KEY = "PRIVATE KEY"
_EDGE = rf"(?:[A-Z0-9]+ ){{0,3}}{_KEY}(?: BLOCK)?-----"
_GAP = r"(?:[^A-Za-z0-9+/=\\]|\\+[nrt]?){1,40}+"
"""What may be between two lines of a key: a line end, also an escaped one, and the border of a diff."""
_BASE64 = "[A-Za-z0-9+/=]"
_KEYS = re.compile(
    rf"-----BEGIN {_EDGE}(?:(?:(?!-----)[\s\S]){{64,20000}}+-----END {_EDGE}|(?:{_GAP}{_BASE64}{{16,}}+)++)"
    rf"|(?<!{_BASE64})(?:{_BASE64}{{16,}}+{_GAP}){{1,200}}+(?:{_BASE64}{{1,15}}+{_GAP})?(?<=--)END {_EDGE}"
)
_OPENED = re.compile(rf"-----BEGIN {_EDGE}")
_LONGEST_KEY = 16 * 1024
_FIRST_LINES = 200
"""How many characters may follow the beginning of a key until they must look like one."""
_ESCAPED_CONTROL = re.compile(r"\\u00[01]|\\[bf]")


class Redactor:
    """Replaces the secrets that it knows, and what has the shape of a token or a private key."""

    def __init__(self, secrets: Iterable[str] = (), later: Callable[[], Iterable[str]] = tuple) -> None:
        """`later` finds more secrets, once there is a text to look at."""
        self._given = tuple(secrets)
        self._later = later

    @cached_property
    def _secrets(self) -> list[str]:
        stripped = (secret.strip() for secret in (*self._given, *self._later()))
        return [secret for secret in dict.fromkeys(stripped) if len(secret) >= SHORTEST]

    @cached_property
    def _known(self) -> re.Pattern[str] | None:
        forms = {form for secret in self._secrets for form in _spell(secret)}
        return re.compile(f"(?=({_match_any(forms)}))") if forms else None

    def text(self, text: str) -> str:
        """Return the text without control sequences and secrets."""
        text = strip_control(text)
        pieces, place = [], 0
        for start, end in _merge(self._find(text)):
            pieces += [text[place:start], MARK]
            place = end
        return "".join([*pieces, text[place:]])

    def doubts(self, encoded: str) -> bool:
        """Return whether values must be redacted of which this is the JSON: one quick look at all of them."""
        return (
            bool(self._find(encoded))
            or _ESCAPED_CONTROL.search(encoded) is not None
            or strip_control(encoded) != encoded
        )

    def unfinished(self, text: str) -> int:
        """Return from where on a text may have the beginning of a secret: hold back what follows."""
        end = unfinished(text)
        for secret in self._secrets:
            sizes = range(min(len(secret), len(text)), 0, -1)
            end = min(end, len(text) - next((size for size in sizes if text.endswith(secret[:size])), 0))
        return end

    def data(self, value: Any) -> Any:
        """Return JSON-like data without secrets, also in keys."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.data(key): self.data(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(item) for item in value]
        return value

    def struct(self, value: T) -> T:
        """Return a typed value without secrets."""
        import msgspec  # small programs read this module with the standard library alone

        return msgspec.convert(self.data(msgspec.to_builtins(value)), type(value))

    def _find(self, text: str) -> list[Span]:
        spans = [match.span(1) for match in self._known.finditer(text)] if self._known is not None else []
        spans += [match.span() for match in _TOKEN.finditer(text) if not _is_fake(match[0])]
        return spans + [match.span() for match in _KEYS.finditer(text)] if _KEY in text else spans


def unfinished(text: str) -> int:
    """Return where a private key begins without an end; the length of the text if there is none."""
    opened = list(_OPENED.finditer(text, max(0, len(text) - _LONGEST_KEY)))
    if not opened:
        return len(text)
    begin, body = opened[-1].start(), text[opened[-1].end() :]
    is_key = len(body) < _FIRST_LINES or _KEYS.match(text, begin) is not None
    return begin if is_key and "-----END" not in body else len(text)


def _is_fake(token: str) -> bool:
    """Return whether a token is one of a manual: it says so, repeats itself, or consists of words."""
    is_words = token.islower() and not any(char.isdigit() for char in token)
    return is_words or len(set(token[-16:])) < 5 or _FAKE.search(token, 0, 32) is not None


def _spell(secret: str) -> set[str]:
    """Return the forms of a secret that are looked for."""
    raw = secret.encode("utf-8", "surrogateescape")
    # Text of a program has the replacement character where the environment had a byte that is no UTF-8.
    plain = raw.decode("utf-8", "replace")
    forms = {strip_control(plain), quote_plus(raw)}
    for safe in ("", "/"):
        quoted = quote(raw, safe)
        forms |= {quoted, re.sub("%..", lambda match: match[0].lower(), quoted)}
    for is_ascii in (True, False):
        form = plain
        for _ in range(3):
            form = json.dumps(form, ensure_ascii=is_ascii)[1:-1]
            forms |= {form, form.replace("/", "\\/")}
    for before in range(3):
        # The characters that belong to the secret alone, wherever it begins in what was encoded.
        whole = base64.b64encode(bytes(before) + raw).decode()
        core = whole[-(-8 * before // 6) : 8 * (before + len(raw)) // 6]
        forms |= {core, core.replace("+", "-").replace("/", "_")}
    return {form for form in forms if len(form) >= SHORTEST}


def _match_any(words: set[str]) -> str:
    """Return a pattern for the longest of some words; it looks only at those that begin alike."""
    groups: dict[str, set[str]] = {}
    for word in words - {""}:
        groups.setdefault(word[0], set()).add(word)
    parts = []
    for group in groups.values():
        common = os.path.commonprefix([*group])  # noqa: RUF071 - of characters, not of parts of a path
        rest = {word[len(common) :] for word in group}
        more = f"(?:{_match_any(rest)})" if rest != {""} else ""
        parts.append(re.escape(common) + (f"{more}?" if more and "" in rest else more))
    return "|".join(parts)


def _merge(spans: list[Span]) -> list[Span]:
    """Return the spans in order, those that touch as one."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
