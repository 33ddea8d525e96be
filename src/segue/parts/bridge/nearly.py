"""Lines that were probably meant as commands: marked, misspelt, or in the middle of a sentence.

They are never executed. The agent is shown what is wrong with them, so that it can write them again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

_SHOWN = 500
_PARTS = {"SUBAGENT": ("SUB", "AGENT")}
_MARKS = r"[\W_]*+(?:\d{1,3}[.)]\s[\W_]*+)?"
_AFTER = re.compile(r"[*_`\"'\])]*\s*([:：=>])?[*_`\"'\])]*\s*(\S.*)", re.DOTALL)
_LOOSE = {"SUBAGENT": re.compile(r".*(?:repo|prompt)\s*=", re.IGNORECASE), "REMIND": re.compile(r"\S.*,")}
"""What must follow a word of everyday English for it to be a command."""
_STRICT = {
    "LOCAL_ACTION": re.compile(r"[\w.-]+[\s`*\"'\])>|}]*(?:,\s*\w+\s*=|$)"),
    "REMIND": re.compile(r"(?:in|at|on|tomorrow|today|tonight|next|\d)\b.*,\s*\S", re.IGNORECASE),
    "SUBAGENT": _LOOSE["SUBAGENT"],
    "WEBHOOK_RESULT": re.compile(r"agent_id\s*=", re.IGNORECASE),
}
"""What a command consists of, so that it cannot be prose about it."""
_OBJECT = re.compile(r"\{")


def make_finder(keywords: Collection[str]) -> Callable[[str], str]:
    """Return a function that names the command that a line was probably meant as; empty if it was none."""
    spelt = {word: _PARTS.get(word) or tuple(filter(None, word.split("_"))) for word in keywords}
    names = {word: r"[\s\\_-]{0,2}".join(map(re.escape, parts)) for word, parts in spelt.items()}
    start = re.compile(
        _MARKS
        + "(?:"
        + "|".join(f"(?P<{word}>{name}(?:er)?s?)" for word, name in names.items())
        + r")(?![^\W_])",
        re.IGNORECASE,
    )
    inside = re.compile(rf"[^`]*?(?<![\w`\"'])({'|'.join(map(re.escape, keywords))}):\s+(\S.*)", re.DOTALL)

    def find(line: str) -> str:
        line = line[:_SHOWN].rstrip()
        if found := start.match(line):
            word = str(found.lastgroup)
            return word if _is_meant(word, found[word], line[found.end() :]) else ""
        if (found := inside.match(line)) and _find_payload(found[1], _STRICT, found[2]):
            return found[1]
        return ""

    return find


def _is_meant(word: str, written: str, rest: str) -> bool:
    found = _AFTER.match(rest)
    if found is None:
        return False
    exact, shouted = written.upper() == word, written.isupper()
    if found[1] and (exact or shouted):
        return word not in _LOOSE or _find_payload(word, _LOOSE, found[2])
    return bool(found[1] or shouted) and _find_payload(word, _STRICT, found[2])


def _find_payload(word: str, needed: dict[str, re.Pattern[str]], payload: str) -> bool:
    return bool(needed.get(word, _OBJECT).match(payload))
