"""Verify what a judge quotes: a line that the work added or kept, or the output of a check."""

from __future__ import annotations

import re

from msgspec import Struct

from segue.domain.comments import strip_comments
from segue.domain.workspace import split_diff

_SHORTEST = 8
"""A shorter piece of a line, such as `ret`, occurs everywhere and shows nothing."""
_SIGNS = re.compile(r"^[ \t+-]+", re.MULTILINE)
_FENCE = re.compile(r"^```\w*$", re.MULTILINE)
_MARKS = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "\\": None})

MADE_UP = "it occurs neither in the diff nor in the checks"
REMOVED = "the work removed it"
COMMENT = "it is only a comment"


class _Passage(Struct, frozen=True):
    """A text that may be quoted: a file as the diff shows it, or the output of the checks."""

    path: str
    kept: str
    removed: str
    code: str
    """What was kept, without comments; with them where nothing else changed: then they are the work."""

    def has_code(self, quote: str) -> bool:
        """Return whether a quote is, beside comments, part of the code."""
        bare = _plain(strip_comments(self.path, quote))
        return _plain(quote) in self.code or (any(map(str.isalnum, bare)) and bare in self.code)


class Quotable:
    """What a judge was shown and may quote."""

    def __init__(self, diff: str, checks: str) -> None:
        output = _plain(checks)
        self._passages = [*(_read(part.path, part.text) for part in split_diff(diff))]
        self._passages.append(_Passage("", output, "", output))

    def refuse(self, quote: str, *, about_changes: bool = False) -> str:
        """Return why a quote does not count; empty: it does.

        `about_changes`: the question is what was changed, so what was removed counts too.
        """
        quote = _FENCE.sub("", quote).strip().strip("`\"'")
        text = _plain(quote)
        if len(text) < _SHORTEST:
            return MADE_UP
        kept = [one for one in self._passages if text in one.kept]
        if not kept and any(text in one.removed for one in self._passages):
            return "" if about_changes else REMOVED
        if not kept:
            return MADE_UP
        return "" if any(one.has_code(quote) for one in kept) else COMMENT


def _read(path: str, text: str) -> _Passage:
    lines = [line for line in text.partition("\n@@")[2].split("\n")[1:] if not line.startswith("@@")]
    kept = "\n".join(line[1:] for line in lines if not line.startswith("-"))
    removed = "\n".join(line[1:] for line in lines if line.startswith("-"))
    changed = "\n".join(line[1:] for line in lines if line.startswith(("+", "-")))
    has_code = bool(strip_comments(path, changed).strip())
    return _Passage(
        path, _plain(kept), _plain(removed), _plain(strip_comments(path, kept) if has_code else kept)
    )


def _plain(text: str) -> str:
    """Remove the signs of a diff, escapes and typographic marks, and collapse white space."""
    return " ".join(_SIGNS.sub("", text.replace("\\n", "\n").translate(_MARKS)).split())
