"""What every reader of review tools' output needs: JSON that may be anything, and findings made of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import PurePath, PurePosixPath
from typing import Any

from segue.domain.finding import Finding, Severity

_LINE_MAX = 2**31 - 1
_SEVERITIES = {
    Severity.ERROR: ("error", "critical", "high", "fatal", "blocker", "major"),
    Severity.WARNING: ("warning", "warn", "medium", "moderate"),
    Severity.INFO: ("info", "information", "note", "notice", "low", "minor"),
    Severity.NITPICK: ("nitpick", "style", "hint", "none", "trivial", "refactor", "convention"),
}
_SEVERITY = {word: severity for severity, words in _SEVERITIES.items() for word in words}


class MalformedOutput(Exception):
    """What the tool printed is not what its format promises: the review has failed, nothing was "found"."""


def load(text: str) -> Any:
    """The JSON document in the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedOutput(f"no JSON: {error} in {excerpt(text)}") from None


def load_lines(text: str) -> list[dict[str, Any]]:
    """One JSON object per line; blank lines are passed over."""
    # Not splitlines(): a line separator such as U+2028 may stand inside a JSON string.
    return [as_object(load(line), "a line") for line in text.split("\n") if line.strip()]


def as_object(value: Any, what: str) -> dict[str, Any]:
    """The value, which must be a JSON object."""
    if not isinstance(value, dict):
        raise MalformedOutput(f"{what} is not a JSON object: {excerpt(repr(value))}")
    return value


def objects(holder: dict[str, Any], name: str, required: bool = False) -> list[dict[str, Any]]:
    """The list of objects under a name; absent or null counts as empty unless it is required."""
    value = holder.get(name)
    if value is None and not required:
        return []
    if not isinstance(value, list):
        raise MalformedOutput(f"{name} is not a list: {excerpt(repr(value))}")
    return [as_object(item, f"an element of {name}") for item in value]


def inside(holder: dict[str, Any], *names: str) -> dict[str, Any]:
    """The object at the end of a path of names; an empty one when something on the way is missing."""
    for name in names:
        value = holder.get(name)
        holder = value if isinstance(value, dict) else {}
    return holder


def severity(word: Any, otherwise: Severity = Severity.WARNING) -> Severity:
    """The tool's word in ours; an unknown one is a warning, so that nothing is lost."""
    return _SEVERITY.get(word.strip().lower(), otherwise) if isinstance(word, str) else otherwise


def text(value: Any) -> str:
    """A string that can be stored and sent anywhere: no null characters, no halves of characters."""
    if not isinstance(value, str):
        return ""
    return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def relative(path: str, root: PurePath) -> str:
    """The path as seen from the repository's root, with slashes; one outside of it stays as it is."""
    try:
        return PurePath(path).relative_to(root).as_posix() if path else ""
    except ValueError:
        return PurePosixPath(path).as_posix()


def finding(
    file: str, line: Any, grade: Severity, rule: str, message: str, suggestion: str = "", own_id: str = ""
) -> Finding:
    """A finding, with an id made of place, rule and message when the tool gives none."""
    number = line if isinstance(line, int) and not isinstance(line, bool) and 0 < line <= _LINE_MAX else None
    if not message.strip():
        raise MalformedOutput(f"a finding without a message (file {file!r}, rule {rule!r})")
    made = "\0".join((file, str(number), rule, " ".join(message.split())))
    identity = own_id or hashlib.sha256(made.encode("utf-8", "replace")).hexdigest()[:16]
    return Finding(identity, file, number, grade, rule, message, suggestion)


def unique(findings: list[Finding]) -> tuple[Finding, ...]:
    """The findings in order, each id once: tools repeat themselves."""
    first: dict[str, Finding] = {}
    for found in findings:
        first.setdefault(found.id, found)
    return tuple(first.values())


def excerpt(said: str) -> str:
    """The beginning of a text, for messages."""
    return text(said if len(said) <= 120 else said[:120] + "…")
