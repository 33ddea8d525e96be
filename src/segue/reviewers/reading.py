"""Helps to read the output of review tools: JSON of any shape, and the findings in it."""

from __future__ import annotations

import hashlib
import json
from pathlib import PurePath, PurePosixPath
from typing import Any

from segue.domain.verdict import Finding, Severity

_LINE_MAX = 2**31 - 1
_SEVERITIES = {
    Severity.ERROR: ("error", "critical", "high", "fatal", "blocker", "major"),
    Severity.WARNING: ("warning", "warn", "medium", "moderate"),
    Severity.INFO: ("info", "information", "note", "notice", "low", "minor"),
    Severity.NITPICK: ("nitpick", "style", "hint", "none", "trivial", "refactor", "convention"),
}
_SEVERITY = {word: severity for severity, words in _SEVERITIES.items() for word in words}


class MalformedOutput(Exception):
    """The output is not in the promised format: the review has failed."""


def load(text: str) -> Any:
    """Parse a JSON document."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedOutput(f"no JSON: {error} in {excerpt(text)}") from None


def load_lines(text: str) -> list[dict[str, Any]]:
    """Parse one JSON object per line; blank lines are skipped."""
    # Not splitlines(): a line separator such as U+2028 may be inside a JSON string.
    return [as_object(load(line), "a line") for line in text.split("\n") if line.strip()]


def as_object(value: Any, what: str) -> dict[str, Any]:
    """Return the value; raises MalformedOutput if it is not a JSON object."""
    if not isinstance(value, dict):
        raise MalformedOutput(f"{what} is not a JSON object: {excerpt(repr(value))}")
    return value


def objects(holder: dict[str, Any], name: str, required: bool = False) -> list[dict[str, Any]]:
    """Return the list of objects under a name; absent or null counts as empty unless it is required."""
    value = holder.get(name)
    if value is None and not required:
        return []
    if not isinstance(value, list):
        raise MalformedOutput(f"{name} is not a list: {excerpt(repr(value))}")
    return [as_object(item, f"an element of {name}") for item in value]


def inside(holder: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the object at the end of a path of names; an empty one if part of the path is missing."""
    for name in names:
        value = holder.get(name)
        holder = value if isinstance(value, dict) else {}
    return holder


def severity(word: Any, otherwise: Severity = Severity.WARNING) -> Severity:
    """Map the tool's word for a severity to ours; an unknown one is a warning, so nothing is lost."""
    return _SEVERITY.get(word.strip().lower(), otherwise) if isinstance(word, str) else otherwise


def text(value: Any) -> str:
    """Return a string that can be stored and sent anywhere: no null characters, no half characters."""
    if not isinstance(value, str):
        return ""
    return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def relative(path: str, root: PurePath) -> str:
    """Return the path relative to the repository's root, with slashes; one outside stays as it is."""
    try:
        return PurePath(path).relative_to(root).as_posix() if path else ""
    except ValueError:
        return PurePosixPath(path).as_posix()


def finding(
    file: str, line: Any, grade: Severity, rule: str, message: str, suggestion: str = "", own_id: str = ""
) -> Finding:
    """Build a finding; its id is made of place, rule and message if the tool gives none."""
    number = line if isinstance(line, int) and not isinstance(line, bool) and 0 < line <= _LINE_MAX else None
    if not message.strip():
        raise MalformedOutput(f"a finding without a message (file {file!r}, rule {rule!r})")
    made = "\0".join((file, str(number), rule, " ".join(message.split())))
    identity = own_id or hashlib.sha256(made.encode("utf-8", "replace")).hexdigest()[:16]
    return Finding(identity, file, number, grade, rule, message, suggestion)


def unique(findings: list[Finding]) -> tuple[Finding, ...]:
    """Return the findings in order, each id once: tools repeat themselves."""
    first: dict[str, Finding] = {}
    for found in findings:
        first.setdefault(found.id, found)
    return tuple(first.values())


def excerpt(said: str) -> str:
    """Return the beginning of a text, for messages."""
    return text(said if len(said) <= 120 else said[:120] + "…")
