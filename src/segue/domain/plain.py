"""Text of agents and strangers on one line, fit for headers, titles, terminals and logs."""

from __future__ import annotations

import unicodedata

from segue.domain.pattern import pattern

_UNSEEN = pattern(
    "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u200b\\u2060-\\u2064\\u202a-\\u202e\\u2066-\\u206f"
    "\\ufeff\\U000e0000-\\U000e007f]"
)
"""Controls, marks without width that join nothing, and what turns the direction of the text around it.

Joiners and marks that scripts and emoji need are no part of it.
"""

_ESCAPES = pattern(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]"
)
"""Sequences for terminals: colours, cursor, and strings such as a title, also unfinished."""

_SEEN = b"\t\n\r" + bytes(range(0x20, 0x7F))
_SHOWN = pattern("[\\r\\ud800-\\udfff]")
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
    """Text of an agent or a file, made safe for a terminal or a page; its lines are kept."""
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
