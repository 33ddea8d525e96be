"""Text of agents and strangers: made harmless, cut to length, searched for JSON, compared with known names.

Standard library only: small programs that are started often import it.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

_UNSEEN = re.compile(
    "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u200b\\u2060-\\u2064\\u202a-\\u202e\\u2066-\\u206f"
    "\\ufeff\\U000e0000-\\U000e007f]"
)
"""Controls, marks without width that join nothing, and what turns the direction of the text around it.

Joiners and marks that scripts and emoji need are no part of it.
"""

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]"
)
"""Sequences for terminals: colours, cursor, and strings such as a title, also unfinished."""

_SEEN = b"\t\n\r" + bytes(range(0x20, 0x7F))
_SHOWN = re.compile("[\\r\\ud800-\\udfff]")
"""What is stored, but neither for a terminal nor a page."""

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories that end lines, hide text, turn its direction round, or cannot be encoded."""


def strip_control(text: str) -> str:
    """Return the text without control sequences and characters; line ends, tabs and returns stay.

    Every text loses them on its way into the journal, and again when it is shown.
    """
    if text.isascii() and not text.encode().translate(None, _SEEN):
        return text  # the same, far quicker
    return _UNSEEN.sub("", _ESCAPES.sub("", text)) if _UNSEEN.search(text) else text


def clean(text: str) -> str:
    """Return text of an agent or a file, safe for a terminal or a page; its lines are kept."""
    return _SHOWN.sub("", strip_control(text))


def plain(text: str, limit: int) -> str:
    """Return the text as one line of at most `limit` characters, without anything that cannot be seen."""
    # Cut first: a text of megabytes must not be walked through for a title.
    visible = "".join(" " if unicodedata.category(char) in _HIDDEN else char for char in text[: 8 * limit])
    flat = " ".join(visible.split())
    return cut_text(flat, limit)


def plain_lines(text: str, limit: int) -> str:
    """Return the text with its lines kept, each of them plain, of at most `limit` characters in all."""
    lines = [plain(line, limit) for line in text[: 8 * limit].splitlines()]
    return cut_text("\n".join(lines).strip("\n"), limit)


def cut_text(text: str, limit: int) -> str:
    """Return the text, or its beginning if it has more than `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cut_tail(text: str, limit: int) -> str:
    """Return the last lines of a text, at most `limit` characters: half a line may be half a secret."""
    if len(text) <= limit:
        return text
    tail = text[-limit:]
    whole = tail if text[-limit - 1] == "\n" else tail.partition("\n")[2]
    return whole or tail


LONGEST_ANSWER = 16 * 1024**2
"""Characters of an agent's final answer that are read; a longer one is refused, never cut."""


class AnswerText:
    """A text that comes in pieces; it grows just beyond the limit, which shows that it was longer."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __str__(self) -> str:
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def add(self, piece: str) -> None:
        """Add a piece."""
        kept = piece[: LONGEST_ANSWER + 1 - self._size]
        self._pieces.append(kept)
        self._size += len(kept)

    def take(self) -> str:
        """Return the text, and start over."""
        text = str(self)
        self._pieces, self._size = [], 0
        return text


def is_too_long(text: str) -> bool:
    """Return whether an answer is longer than what is read."""
    return len(text) > LONGEST_ANSWER


def keep_start(text: str, most: int) -> str:
    """Return the start of a text that is too long for its place, and say how much was left out."""
    rest = len(text) - most
    return text if rest <= 0 else f"{text[:most]}\n[{rest:,} characters were left out here]"


def keep_end(text: str, most: int) -> str:
    """Return the end of a text that is too long for its place, from a whole line on, and say what is gone."""
    if len(text) <= most:
        return text
    end = text[-most:]
    whole = end.partition("\n")[2] or end
    return f"[{len(text) - len(whole):,} characters were left out here]\n{whole}"


_START = re.compile(r'\{[ \t\r\n]*["}]')

_EFFORT, _PASSES = 10_000_000, 10
"""Characters that are read before the search is given up, and how often those of a long text may be:
braces in braces would take for ever."""

_WINDOW, _LONGEST_WORD = 2000, 30
"""Characters that are looked at first, and how long a number or an escape may be that the window cuts."""

_COUNTING = 50
"""How much faster than reading an error finds out on which line it is."""


def find_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield every JSON object in the text that is not inside another one."""
    decoder, found, effort = json.JSONDecoder(), _START.search(text), 0
    most = max(_EFFORT, _PASSES * len(text))
    while found and effort < most:
        place = found.start()
        end = place + 1
        if not _breaks_at_once(decoder, text[place : place + _WINDOW]):
            try:
                value, end = decoder.raw_decode(text, place)
                yield value
            except (ValueError, RecursionError) as error:
                reached = getattr(error, "pos", len(text))
                effort += reached - place + reached // _COUNTING
        found = _START.search(text, end)


def _breaks_at_once(decoder: json.JSONDecoder, start: str) -> bool:
    """Return whether it cannot be an object, whatever follows: as braces in code, of which there are many."""
    try:
        decoder.raw_decode(start)
    except json.JSONDecodeError as error:
        return error.pos < len(start) - _LONGEST_WORD and not error.msg.startswith("Unterminated")
    except RecursionError:
        return False
    return False


def find_object(text: str, field: str) -> dict[str, Any] | str:
    """Return the one object that has the field, or a sentence that tells the author what is wrong."""
    found = [value for value in find_objects(text) if field in value]
    if not found:
        return f'There is no JSON object with "{field}" in the answer.'
    if any(not _same(other, found[0]) for other in found[1:]):
        return "There is more than one JSON object in the answer, and they differ."
    return found[0]


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    try:
        return one == other
    except RecursionError:
        return False


_ALIKE = 0.6


def find_nearest(word: str, known: Iterable[str], alike: float = _ALIKE) -> str | None:
    """Return the known name that is most like a word; None if none is."""
    from difflib import get_close_matches  # only mistakes need it

    names = {name.casefold(): name for name in known}
    near = get_close_matches(word.casefold(), names, n=1, cutoff=alike)
    return names[near[0]] if near else None


def suggest(word: str, known: Iterable[str], form: str = "{!r}", alike: float = _ALIKE) -> str:
    """Return ` Did you mean …?`, to be added to a sentence; empty if no known name is like the word."""
    near = find_nearest(word, known, alike)
    return "" if near is None else f" Did you mean {form.format(str(near))}?"
