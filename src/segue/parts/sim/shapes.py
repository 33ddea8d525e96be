"""Fills the shapes of a vendor's objects: JSON beside the code, with `{name.attribute}` for what differs.

A text that is nothing but one field becomes its value as it is. `{name!t}` writes an instant, `{name!n}`
nothing for an empty text, and `{name!U}` a word in capitals; a vendor may have more conversions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from string import Formatter
from typing import Any

Json = dict[str, Any]
_FORMATTER = Formatter()


def show_time(seconds: float | None) -> str | None:
    """Write an instant as most APIs do."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


class Shapes:
    """The shapes of one vendor, from the file `shapes.json` of a package."""

    def __init__(self, package: str, **more: Callable[[Any], Any]) -> None:
        self._package = package
        self._conversions: Mapping[str, Callable[[Any], Any]] = {
            "t": show_time,
            "n": lambda text: text or None,
            "U": lambda word: word.upper() if word else None,
            **more,
        }

    def fill(self, name: str, /, **facts: Any) -> Json:
        """Return an object of this shape."""
        filled: Json = self._fill(_load(self._package)[name], facts)
        return filled

    def _fill(self, shape: Any, facts: Mapping[str, Any]) -> Any:
        if isinstance(shape, dict):
            return {name: self._fill(inner, facts) for name, inner in shape.items()}
        if not isinstance(shape, str):
            return shape
        parts = _parse(shape)
        values = [head if name is None else self._value(name, how, facts) for head, name, how in parts]
        if len(parts) == 1 and not parts[0][0]:
            return values[0]
        heads = ("" if name is None else head for head, name, _ in parts)
        return "".join(f"{head}{value}" for head, value in zip(heads, values, strict=True))

    def _value(self, name: str, how: str | None, facts: Mapping[str, Any]) -> Any:
        value = _FORMATTER.get_field(name, (), facts)[0]
        return self._conversions[how](value) if how else value


@cache
def _parse(text: str) -> list[tuple[str, str | None, str | None]]:
    """Return the pieces of a text: what comes before a field, the field, and its conversion."""
    return [(head, name, how) for head, name, _, how in _FORMATTER.parse(text)]


@cache
def _load(package: str) -> Mapping[str, Json]:
    shapes: Mapping[str, Json] = json.loads((files(package) / "shapes.json").read_text("utf-8"))
    return shapes
