"""Compares what an agent asks its model now with what it asked when it was recorded.

What legitimately varies is put out of the way first: ids, dates, times, durations, the agent's own places,
marks for the vendor's cache. What is left must be the same.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from msgspec import Struct

from segue.system.recording.exchanges import change_data

_LEFT_OUT = frozenset(
    {"metadata", "client_metadata", "prompt_cache_key", "safety_identifier", "cache_control"}
)
"""Parts of a request that say who asks, or what to cache: nothing of the work."""
_DAYS = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_MONTHS = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_UUID = re.compile(
    r"(?<![0-9a-z])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![0-9a-z])", re.IGNORECASE
)
_PLAN = re.compile(r"\bplans/[a-z]+(?:-[a-z]+)+\.md\b")
_VARYING = (
    (re.compile(r"x-anthropic-billing-header:[^\n]*"), "<billing>"),
    (re.compile(r"\bChunk ID: [0-9a-f]+"), "Chunk ID: <id>"),
    (re.compile(r"\bsession ID \d+"), "session ID <id>"),
    (
        re.compile(
            r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?)?(?: ?Z\b| ?[+-]\d{2}:?\d{2}\b)?"
        ),
        "<date>",
    ),
    (re.compile(rf"\b(?:{_DAYS},? )?{_MONTHS} {{1,2}}\d{{1,2}}(?:,? \d{{4}}\b)?"), "<date>"),
    (re.compile(rf"\b(?:{_DAYS},? )?\d{{1,2}} {_MONTHS} \d{{4}}\b"), "<date>"),
    (
        re.compile(r"\b\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AP]M\b)?(?: (?:UTC|GMT|[A-Z]{3,4}T)\b)?"),
        "<time>",
    ),
    (re.compile(r"(?<=<date>)(?: (?:<time>|\d{4}\b))+"), ""),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|µs|s|sec|secs|seconds?|minutes?)\b"), "<duration>"),
)
"""What differs from one launch to the next, and what takes its place."""
_WIDTH = 160
_MOST_LINES = 80


class LaunchPlaces(Struct, frozen=True):
    """Folders of a launch by their names: `repo` for its work tree, `run` for what Segue keeps."""

    folders: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, **folders: str | Sequence[str]) -> LaunchPlaces:
        """Return the places; one name may stand for several folders."""
        pairs = [
            (folder, name)
            for name, given in folders.items()
            for folder in ([given] if isinstance(given, str) else given)
            if len(PurePath(folder).parts) > 1
        ]
        # The longest first: one may be inside of another.
        return cls(tuple(sorted(dict.fromkeys(pairs), key=lambda pair: -len(pair[0]))))

    def hide(self, text: str) -> str:
        """Replace the folders by their names, also where an agent makes a file name of them."""
        for folder, name in self.folders:
            text = re.sub(rf"{re.escape(folder)}(?![\w-])", f"<{name}>", text)
            text = re.sub(rf"{re.escape(slug(folder))}(?![A-Za-z0-9])", f"<{name}>", text)
        return text


def slug(folder: str) -> str:
    """Return a folder as Claude Code writes it in a file name."""
    return re.sub(r"[^A-Za-z0-9]", "-", folder)


class NormalRequest(Struct, frozen=True):
    """A request without what varies, and the ids that were in it, in their order."""

    value: Any
    ids: tuple[str, ...] = ()


def normalise(request: Any, places: LaunchPlaces) -> NormalRequest:
    """Return a request without what varies."""
    ids: list[str] = []

    def note(found: re.Match[str]) -> str:
        ids.append(found[0])
        return "<id>" if found.re is _UUID else "plans/<plan>.md"

    def change(text: str) -> str:
        text = _PLAN.sub(note, _UUID.sub(note, places.hide(text)))
        for pattern, instead in _VARYING:
            text = pattern.sub(instead, text)
        return text

    return NormalRequest(change_data(_reduce(request), change), tuple(ids))


def _reduce(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _reduce(item) for key, item in value.items() if key not in _LEFT_OUT}
    if isinstance(value, list):
        return [_reduce(item) for item in value]
    return value


class RequestDifference(Struct, frozen=True):
    """The first part of a request that differs, and how."""

    place: str
    """Such as `messages[2]` or `tools: Bash`."""
    diff: tuple[str, ...]


def find_difference(recorded: Any, now: Any) -> RequestDifference | None:
    """Return the first difference between two requests that were normalised; None: they are the same."""
    if recorded == now:
        return None
    place, old, new = _narrow("", recorded, now)
    return RequestDifference(place or "request", tuple(_diff(old, new)))


def _narrow(place: str, old: Any, new: Any) -> tuple[str, Any, Any]:
    """Return the smallest part that still makes sense to a reader: a message, a tool, a setting."""
    if isinstance(old, dict) and isinstance(new, dict) and not place:
        for key in dict.fromkeys((*old, *new)):
            if key not in old or key not in new:
                return key, old.get(key), new.get(key)
            if old[key] != new[key]:
                return _narrow(key, old[key], new[key])
    if isinstance(old, list) and isinstance(new, list) and "[" not in place:
        for number in range(max(len(old), len(new))):
            one, other = (many[number] if number < len(many) else None for many in (old, new))
            if one != other:
                return _name(place, number, one, other), one, other
    return place, old, new


def _name(place: str, number: int, *items: Any) -> str:
    for item in items:
        if place == "tools" and isinstance(item, dict) and isinstance(item.get("name"), str):
            return f"{place}[{number}] ({item['name']})"
    return f"{place}[{number}]"


def _diff(old: Any, new: Any) -> Iterator[str]:
    lines = list(
        difflib.unified_diff(list(_lines(old)), list(_lines(new)), "recorded", "now", lineterm="", n=2)
    )
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"[{len(lines) - _MOST_LINES} more lines differ]"


def _lines(value: Any, name: str = "") -> Iterator[str]:
    """Yield data as lines that people can read: texts as they are, long ones in pieces."""
    head = f"{name}: " if name else ""
    match value:
        case None:
            return
        case dict():
            for key, item in value.items():
                yield from _lines(item, f"{name}.{key}" if name else str(key))
        case list():
            for number, item in enumerate(value):
                yield from _lines(item, f"{name}[{number}]")
        case str() if "\n" in value or len(value) > _WIDTH:
            yield head.rstrip()
            for line in value.splitlines():
                yield from (f"  {line[at : at + _WIDTH]}" for at in range(0, len(line) or 1, _WIDTH))
        case str():
            yield f"{head}{value}"
        case _:
            yield f"{head}{json.dumps(value)}"
