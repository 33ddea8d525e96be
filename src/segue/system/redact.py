"""The boundary that every text passes on its way into the journal: without control sequences and secrets.

It works on decoded, joined text. Agents and flow pass on what they read as it is. The journal, and whoever
keeps text elsewhere, calls a `Redactor` on whole messages, lines and values, so that no secret hides in the
edge of a chunk, behind an escape sequence or in an encoding.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from segue.domain.text import strip_control
from segue.system.shapes import find_shapes, hints_at_shape, unfinished
from segue.system.spellings import (
    Span,
    decode,
    has_hidden,
    lower,
    spell,
    unpack,
    view_decoded,
    view_folded,
    view_joined,
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

_JSON_DOUBT = re.compile(r"\\(?:[\\ubf]|r(?!\\n))|%[0-9A-Fa-f]{2}|&[#A-Za-z]")
"""Escapes beside those that JSON itself needs for quotes, line ends and tabs."""

_DEPTH = 3
"""How many encodings inside of each other are undone."""

_RARE = "~^!?@$#*+=|<>`{}[]&%;:'\\" + "0123456789/-_" + "zqjxkvbywgpfmucdlhrsniotae"
"""Characters by how rare they are in code and prose, the rarest first; all others are rarer still."""


class Redactor:
    """Replaces every known secret in whatever spelling, and what is shaped like a well-known token."""

    def __init__(self, secrets: Iterable[str] = (), later: Callable[[], Iterable[str]] = tuple) -> None:
        """`later` finds more secrets when the first text is looked at; what shows none need not wait."""
        self._given = tuple(secrets)
        self._later = later

    @cached_property
    def _known(self) -> set[str]:
        return {one for secret in (*self._given, *self._later()) if len(one := secret.strip()) >= SHORTEST}

    @cached_property
    def _probes(self) -> dict[str, list[tuple[str, int]]]:
        """Three pieces of every spelling, each `SHORTEST` long, with their places in it.

        One of them is seen wherever a secret is, even where a line end or a cut goes through it. They begin
        with a rare character, so that a text is searched quickly.
        """
        probes: dict[str, list[tuple[str, int]]] = {}
        forms = {lower(form) for secret in self._known for form in spell(secret)}
        for form in forms:
            if len(form) < SHORTEST:
                continue
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
        if self._json_probe is not None and self._json_probe.search(lower(encoded)):
            return True
        if _JSON_DOUBT.search(encoded) or has_hidden(encoded) or "\x7f" in encoded:
            return True
        lines = encoded.replace("\\n", "\n")
        return hints_at_shape(lines) or any(self._find(one.text, 1) for one in unpack(lines))

    def text(self, text: str) -> str:
        """Return the text without control sequences and secrets."""
        text = strip_control(text)
        spans = self._find(text)
        if not spans:
            return text
        pieces, place = [], 0
        for start, end in _merge(spans):
            pieces += [text[place:start], MARK]
            place = end
        return "".join([*pieces, text[place:]])

    def unfinished(self, text: str) -> int:
        """Return from where on a text may have the beginning of a secret: what follows belongs to it."""
        end = unfinished(text)
        for secret in self._known:
            if " " in secret:
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
        return msgspec.convert(self.data(msgspec.to_builtins(value)), type(value))

    def _find(self, text: str, depth: int = 0) -> list[Span]:
        """Return where secrets are: in the text, with its escapes undone, in what is encoded in it."""
        spans = self._scan(text)
        rounds, shown = 0, text
        for rounds, shown in enumerate(decode(text)):
            found = self._scan(shown) if shown is not text else []
            spans += _trace(text, rounds, found)
        found = find_shapes(shown)
        if depth < _DEPTH:
            found += [one.locate(*span) for one in unpack(shown) for span in self._find(one.text, depth + 1)]
        return spans + (_trace(text, rounds, found) if shown is not text else found)

    def _scan(self, text: str) -> list[Span]:
        """Return where spellings are, whole or cut, in whatever case."""
        if self._probe is None:
            return []
        text = lower(text)
        spans = []
        found = self._probe.search(text)
        while found:
            at = found.start()
            for form, place in self._probes[found[0]]:
                span = _match(text, form, at, place)
                if span is not None:
                    spans.append(span)
            found = self._probe.search(text, at + 1)
        return spans


def _match(text: str, form: str, at: int, place: int) -> Span | None:
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
    begins = before == place or not text[max(0, first - 2) : first].strip() or text[first - 1] == _CUT
    ends = last == end or not text[last : last + 2].strip() or text[last] == _CUT
    return (first, last) if begins and ends else None


def _match_wrapped(text: str, form: str, at: int, place: int) -> Span | None:
    """Return where a spelling is that goes over several lines."""
    far = 2 * len(form) + _INDENT
    begin = max(0, at - far)
    for unwrap in (view_unwrapped, view_folded, view_joined):
        left, right = unwrap(text[begin:at]), unwrap(text[at : at + far])
        if left.text.endswith(form[:place]) and right.text.startswith(form[place:]):
            first = begin + left.span(len(left.text) - place, len(left.text))[0] if place else at
            return first, at + right.span(0, len(form) - place)[1]
    return None


def _agree(text: str, form: str) -> int:
    """Return how many characters both begin with."""
    return next(
        (count for count, pair in enumerate(zip(text, form, strict=False)) if pair[0] != pair[1]), len(text)
    )


def _trace(text: str, rounds: int, spans: list[Span]) -> list[Span]:
    """Return where the spans of a text with its escapes undone are in the text itself."""
    if not spans:
        return []
    for view in reversed(view_decoded(text, rounds)):
        spans = [view.span(*span) for span in spans]
    return spans


def _merge(spans: list[Span]) -> list[Span]:
    """Return the spans in order, those that touch as one."""
    merged: list[Span] = []
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
