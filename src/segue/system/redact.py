"""The boundary that every text passes on its way into the journal: without control sequences and secrets.

It works on decoded, joined text. Agents and flow pass on what they read as it is. The journal, and whoever
keeps text elsewhere, calls a `Redactor` on whole messages, lines and values, so that no secret hides in the
edge of a chunk, behind an escape sequence or in an encoding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from segue.domain.pattern import pattern
from segue.domain.plain import strip_control
from segue.system.spellings import (
    View,
    decode,
    has_hidden,
    spell,
    view_decoded,
    view_unwrapped,
)

T = TypeVar("T")

MARK = "[redacted]"
SHORTEST = 8
"""Shorter values are words such as `true` and `root`; replacing those would garble everything."""

_CUT = "…"
"""Marks where a long text was cut: a secret may have been cut with it."""

_INDENT = 200
"""How many characters of indent are expected where a secret goes over several lines."""

_WORD = "[A-Za-z0-9_-]"
_MARKED = {
    "sk-": rf"(?:(?:ant|proj|svcacct|admin|or-v1|lf)-{_WORD}{{20,}}|[A-Za-z0-9]{{32,}})",
    "[sr]k_": r"(?:live|test)_[A-Za-z0-9]{16,}",
    "gh[pousr]_": r"[A-Za-z0-9]{36,}",
    "github_pat_": r"[A-Za-z0-9_]{36,}",
    "glpat-": rf"{_WORD}{{20,}}",
    "npm_": r"[A-Za-z0-9]{36}",
    "pypi-": rf"AgEI{_WORD}{{50,}}",
    "hf_": r"[A-Za-z0-9]{34,}",
    "xox[abeoprs]-": r"[0-9]{6,}-[A-Za-z0-9-]{16,}",
}
_OTHERS = {
    r"hooks\.slack\.com/services/": r"T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/[A-Za-z0-9]{16,}",
    "A(?:KIA|SIA)": r"[A-Z2-7]{16}(?![A-Za-z0-9+/=_-])",
    "AIza": rf"{_WORD}{{35}}(?!{_WORD})",
    "eyJ": rf"{_WORD}{{10,}}\.eyJ{_WORD}{{10,}}\.{_WORD}{{16,}}",
    "-----BEGIN ": r"(?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:\s|\\{1,8}[nr]){1,9}"
    r"[A-Za-z0-9+/=]{40}(?:[A-Za-z0-9+/=\s]|\\{1,8}[nr])*",
}
"""Tokens that are recognised by their form, whoever they belong to: how they begin, and what follows."""

_SHAPE = pattern(
    "|".join(
        # Within a hash or an encoded image it is a coincidence; the letter of an escaped line end is none.
        rf"{head}(?:(?<![A-Za-z0-9+]{head})|(?<=\\[nrt]{head})){rest}"
        for head, rest in {**_MARKED, **_OTHERS}.items()
    )
)
_SHAPE_HINT = pattern(
    "|".join(
        [
            *(
                f"{mark}{_WORD}{{16}}(?:"
                + "|".join(f"(?<={head}.{{16}})" for head in _MARKED if head[-1] == mark)
                + ")"
                for mark in "_-"
            ),
            r"/services/T|AKIA[A-Z2-7]|ASIA[A-Z2-7]|AIza",
            rf"J{_WORD}{{10}}(?<=eyJ.{{10}})|PRIVATE KEY",
        ]
    )
)
"""Something that every one of them has, from a character on that is rare: quick to look for."""

_JSON_DOUBT = pattern(rf"\\(?:[\\ubf]|r(?!\\n))|%[0-9A-Fa-f]{{2}}|&[#A-Za-z]|{_SHAPE_HINT.pattern}")
"""Escapes beside those that JSON itself needs for quotes, line ends and tabs, and hints of tokens."""

_RARE = (
    "~^!?@$#*+=|<>`{}[]&%;:'\\"
    + "0123456789ZQXJKVYWUBGHPDFMLNOCRISATE"
    + "/-_"
    + "zqjxkvbywgpfmucdlhrsniotae"
)
"""Characters by how rare they are in code and prose, the rarest first; all others are rarer still."""


class Redactor:
    """Replaces every known secret in whatever spelling, and what is shaped like a well-known token."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = {one for secret in secrets if len(one := secret.strip()) >= SHORTEST}

    @cached_property
    def _probes(self) -> dict[str, list[tuple[str, int]]]:
        """Three pieces of every spelling, each `SHORTEST` long, with their places in it.

        One of them is seen wherever a secret is, even where a line end or a cut goes through it. They begin
        with a rare character, so that a text is searched quickly.
        """
        probes: dict[str, list[tuple[str, int]]] = {}
        for form in {form for secret in self._secrets for form in spell(secret) if len(form) >= SHORTEST}:
            last = len(form) - SHORTEST
            room = min(SHORTEST - 1, last // 2)
            for start in {0, (last - room) // 2, last - room}:
                place = min(range(start, start + room + 1), key=lambda index: _RARE.find(form[index]))
                probes.setdefault(form[place : place + SHORTEST], []).append((form, place))
        return probes

    @cached_property
    def _probe(self) -> re.Pattern[str] | None:
        return re.compile(_alternatives(self._probes)) if self._probes else None

    @cached_property
    def _json_probe(self) -> re.Pattern[str] | None:
        """The same as they are spelt in JSON."""
        return (
            re.compile(_alternatives(json.dumps(one, ensure_ascii=False)[1:-1] for one in self._probes))
            if self._probes
            else None
        )

    def doubts(self, encoded: str) -> bool:
        """Return whether values, of which this is the JSON, must be redacted: a quick look at all of them."""
        known = self._json_probe is not None and self._json_probe.search(encoded) is not None
        return known or _JSON_DOUBT.search(encoded) is not None or has_hidden(encoded) or "\x7f" in encoded

    def text(self, text: str) -> str:
        """Return the text without control sequences and secrets."""
        text = strip_control(text)
        text = _SHAPE.sub(MARK, text) if _SHAPE_HINT.search(text) else text
        spans = self._find(text, self._probe) if self._probe else []
        if not spans:
            return text
        pieces, place = [], 0
        for start, end in _merge(spans):
            pieces += [text[place:start], MARK]
            place = end
        return "".join([*pieces, text[place:]])

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
        return msgspec.convert(self.data(msgspec.to_builtins(value)), type(value))

    def _find(self, text: str, probe: re.Pattern[str]) -> list[tuple[int, int]]:
        """Return where secrets are, in the text as it is and with its escapes undone."""
        spans = self._scan(text, probe)
        for rounds, shown in enumerate(decode(text)):
            found = self._scan(shown, probe) if shown != text else []
            views = view_decoded(text, rounds) if found else []
            spans += [_trace(views, span) for span in found]
        return spans

    def _scan(self, text: str, probe: re.Pattern[str]) -> list[tuple[int, int]]:
        """Return where spellings are, whole or cut."""
        spans = []
        found = probe.search(text)
        while found:
            at = found.start()
            for form, place in self._probes[found[0]]:
                span = _match(text, form, at, place)
                if span is not None:
                    spans.append(span)
            found = probe.search(text, at + 1)
        return spans


def _match(text: str, form: str, at: int, place: int) -> tuple[int, int] | None:
    """Return where the text agrees with a spelling around a piece of it: whole, or up to a cut."""
    start, end = at - place, at - place + len(form)
    if start >= 0 and text.startswith(form, start):
        return start, end
    if "\n" in text[max(0, start - _INDENT) : end + _INDENT] and (
        wrapped := _match_wrapped(text, form, at, place)
    ):
        return wrapped
    before = _agree(text[max(0, start) : at][::-1], form[:place][::-1])
    after = _agree(text[at:end], form[place:])
    first, last = at - before, at + after
    begins = before == place or first == 0 or text[first - 1] == _CUT
    ends = last == end or last == len(text) or text[last] == _CUT
    return (first, last) if begins and ends else None


def _match_wrapped(text: str, form: str, at: int, place: int) -> tuple[int, int] | None:
    """Return where a spelling is that goes over several lines."""
    far = 2 * len(form) + _INDENT
    begin = max(0, at - far)
    left, right = view_unwrapped(text[begin:at]), view_unwrapped(text[at : at + far])
    if not left.text.endswith(form[:place]) or not right.text.startswith(form[place:]):
        return None
    first = begin + left.span(len(left.text) - place, len(left.text))[0] if place else at
    return first, at + right.span(0, len(form) - place)[1]


def _agree(text: str, form: str) -> int:
    """Return how many characters both begin with."""
    return next(
        (count for count, pair in enumerate(zip(text, form, strict=False)) if pair[0] != pair[1]), len(text)
    )


def _trace(views: list[View], span: tuple[int, int]) -> tuple[int, int]:
    for view in reversed(views):
        span = view.span(*span)
    return span


def _merge(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans in order, those that touch as one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _alternatives(words: Iterable[str]) -> str:
    """Return a pattern for some words that tries only those that begin alike."""
    groups: dict[str, list[str]] = {}
    for word in sorted(words):
        groups.setdefault(word[0], []).append(word[1:])
    return "|".join(
        re.escape(first) + (f"(?:{_alternatives(rest)})" if rest[0] else "") for first, rest in groups.items()
    )
