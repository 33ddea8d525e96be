"""Decides whether a quote is real: compares it with what the judge was shown, as tolerant as a reader."""

from __future__ import annotations

import re

_SHORTEST = 3
"""A quote such as `}` occurs everywhere and shows nothing."""

_SHORTEST_INSIDE = 8
"""A short word in quotation marks inside a sentence is usually a name, not a quote."""

_SIGNS = re.compile(r"^[ \t+-]+", re.MULTILINE)
_ESCAPED = re.compile(r"\\[nrt]")
_ELISION = re.compile(r"…|\.\.\.|\[…\]")
_INSIDE = re.compile(r"`([^`]+)`|\"([^\"]+)\"")
_TYPOGRAPHY = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "\\": None})


class Quotable:
    """A text that may be quoted."""

    def __init__(self, text: str) -> None:
        self._text = _plain(text)

    def contains(self, quote: str) -> bool:
        """Return whether the quote occurs, or every longer quote inside it if other words surround them."""
        whole = quote.strip().strip("`\"'")
        if self._occurs(whole):
            return True
        inside = [first or second for first, second in _INSIDE.findall(quote)]
        long = [piece for piece in inside if len(_plain(piece)) >= _SHORTEST_INSIDE]
        return bool(long) and all(self._occurs(piece) for piece in long)

    def _occurs(self, quote: str) -> bool:
        """Return whether the pieces between elisions occur one after the other."""
        pieces = [_plain(piece) for piece in _ELISION.split(quote)]
        if max(map(len, pieces)) < _SHORTEST:
            return False
        place = 0
        for piece in pieces:
            found = self._text.find(piece, place)
            if found < 0:
                return False
            place = found + len(piece)
        return True


def _plain(text: str) -> str:
    """Remove the signs of a diff, escapes and typographic marks, and collapse white space."""
    unsigned = _SIGNS.sub("", _ESCAPED.sub("\n", text).translate(_TYPOGRAPHY))
    return " ".join(unsigned.split())
