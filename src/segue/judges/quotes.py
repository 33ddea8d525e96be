"""Verify what a judge quotes: it must stand in the work, and show what the work does, not how to judge it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

from segue.domain.comments import strip_comments
from segue.domain.workspace import split_diff

_SHORTEST = 8
"""A shorter piece of a line, such as `ret`, occurs everywhere and shows nothing; nor does a line like `}`."""
_SIGNS = re.compile(r"^[ \t+-]+", re.MULTILINE)
_ESCAPED = re.compile(r"\\[nrt]")
_ELISION = re.compile(r"…|\.\.\.|\[…\]")
_FENCE = re.compile(r"^\s*```\w*\s*$", re.MULTILINE)
_INSIDE = re.compile(r"`([^`]+)`|\"([^\"]+)\"")
_TYPOGRAPHY = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "\\": None})


class Worth(StrEnum):
    """What a quote is worth as evidence; all but the first are worth nothing."""

    REAL = "real"
    MADE_UP = "it occurs neither in the diff nor in the checks"
    REMOVED = "the work removed it"
    ADDRESSED = "it is a remark for readers, not what the program does"


class _Passage:
    """A text that may be quoted: a file as the diff shows it, or what the checks said."""

    def __init__(self, path: str, text: str) -> None:
        self._path, self._text = path, _plain(text)
        self._bare = _plain(strip_comments(path, text))
        self._lines = frozenset(map(_plain, text.split("\n")))

    def has(self, quote: str) -> bool:
        """Return whether the quote occurs, or every longer quote inside it if other words surround them."""
        return self._is_in(self._text, quote)

    def shows(self, quote: str) -> bool:
        """Return whether something of the quote is more than a comment."""
        return self._is_in(self._bare, strip_comments(self._path, quote))

    def _is_in(self, text: str, quote: str) -> bool:
        whole = quote.strip().strip("`\"'")
        if self._occurs(text, whole):
            return True
        inside = [first or second for first, second in _INSIDE.findall(quote)]
        long = [piece for piece in inside if len(_plain(piece)) >= _SHORTEST]
        return bool(long) and all(self._occurs(text, piece) for piece in long)

    def _occurs(self, text: str, quote: str) -> bool:
        """Return whether a quote occurs as it is, or the pieces between its elisions one after the other."""
        if self._says_something(whole := _plain(quote)) and whole in text:
            return True
        pieces = [piece for piece in map(_plain, _ELISION.split(quote)) if piece]
        telling = [self._says_something(piece) for piece in pieces]
        if not any(telling) or not all(telling[n] or one in self._lines for n, one in enumerate(pieces)):
            return False
        place = 0
        for piece in pieces:
            found = text.find(piece, place)
            if found < 0:
                return False
            place = found + len(piece)
        return True

    def _says_something(self, piece: str) -> bool:
        return len(piece) >= _SHORTEST or (piece in self._lines and any(map(str.isalnum, piece)))


class Quotable:
    """What a judge was shown and may quote: what the work added or left standing, and what checks said."""

    def __init__(self, diff: str, checks: str) -> None:
        sides = [_sides(part.path, part.text) for part in split_diff(diff)]
        self._standing = [standing for standing, _ in sides]
        self._removed = [removed for _, removed in sides]
        self._checks = _Passage("", checks)

    def weigh(self, quote: str, asked: str, task: str = "", *, about_changes: bool = False) -> Worth:
        """Return what a quote is worth for what is asked, as a part of the task.

        `about_changes`: it is asked what was changed, so what was removed counts too.
        """
        quote = _FENCE.sub("", quote)
        found = [one for one in (*self._standing, self._checks) if one.has(quote)]
        if not found and any(one.has(quote) for one in self._removed):
            return Worth.REAL if about_changes else Worth.REMOVED
        if not found:
            return Worth.MADE_UP
        shows = _ASKS_FOR_REMARKS.search(asked) or any(one.shows(quote) for one in found)
        return Worth.REAL if shows and not _is_claim(quote, f"{task} {asked}") else Worth.ADDRESSED


def _sides(path: str, text: str) -> tuple[_Passage, _Passage]:
    """Return the lines of a file after the change, and those removed; the heads are neither."""
    _, _, hunks = text.partition("\n@@")
    lines = [line for line in hunks.split("\n")[1:] if not line.startswith("@@")]
    standing = "\n".join(line[1:] for line in lines if not line.startswith("-"))
    removed = "\n".join(line[1:] for line in lines if line.startswith("-"))
    return _Passage(path, standing), _Passage(path, removed)


def _plain(text: str) -> str:
    """Remove the signs of a diff, escapes and typographic marks, and collapse white space."""
    unsigned = _SIGNS.sub("", _ESCAPED.sub("\n", text).translate(_TYPOGRAPHY))
    return " ".join(unsigned.split())


_ASKS_FOR_REMARKS = re.compile(
    r"comment|docstring|documentation|licen[cs]e|copyright|spdx|\b(?:documented|explained|described)\b"
    r"|^\W*(?:document|explain|describe)\b",
    re.IGNORECASE,
)
"""Words of a criterion that a comment can meet."""
_WORD = re.compile(r"[A-Z]?[a-zà-ÿ]+|[A-Z]+(?![a-z])")
_OF_JUDGING = ("criteri", "verdict", "judge", "grader", "reviewer", "evaluator", "assessor", "acceptance")
_HOLDS = (
    "met",
    "meet",
    "satisf",
    "fulfil",
    "pass",
    "approv",
    "accept",
    "complete",
    "done",
    "consider",
    "treat",
    "count",
)


def _is_claim(quote: str, asked: str) -> bool:
    """Return whether a text says how to judge, in words that the task itself does not use."""
    words, known = set(_words(quote)), " ".join(_words(asked))
    about = any(word.startswith(_OF_JUDGING) and word not in known for word in words)
    return about and any(word.startswith(_HOLDS) for word in words)


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text and of the names in it, in small letters."""
    return (found[0].lower() for found in _WORD.finditer(text))
