"""Text of agents and strangers on one line, fit for headers, titles, terminals and logs."""

from __future__ import annotations

import re
import unicodedata

_CONTROL = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")
"""What neither a terminal nor a page may get, and what turns the direction of the text around it."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories that end lines, hide text, turn its direction round, or cannot be encoded."""


def clean(text: str) -> str:
    """Text of an agent or a file, made safe for a terminal or a page; its lines are kept."""
    return _CONTROL.sub("", _ESCAPES.sub("", text))


def plain(text: str, limit: int) -> str:
    """Return the text as one line of at most `limit` characters, without anything that cannot be seen."""
    # Cut first: a text of megabytes must not be walked through for a title.
    visible = "".join(" " if _hidden(char) else char for char in text[: 8 * limit])
    flat = " ".join(visible.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def plain_lines(text: str, limit: int) -> str:
    """Return the text with its lines kept, each of them plain, of at most `limit` characters in all."""
    lines = [plain(line, limit) for line in text[: 8 * limit].splitlines()]
    whole = "\n".join(lines).strip("\n")
    return whole if len(whole) <= limit else whole[: limit - 1] + "…"


def _hidden(char: str) -> bool:
    return unicodedata.category(char) in _HIDDEN
