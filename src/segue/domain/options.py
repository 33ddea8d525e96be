"""Options: typed tables that people write in TOML and that variants and plug-ins declare."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every table of options. Declare each field with `Annotated[type, Meta(description=…)]`."""


class Secret:
    """A value that is never printed: only `reveal` shows it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value itself."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "Secret('**********')"

    __str__ = __repr__


class OptionError(ValueError):
    """One option is wrong: `path` is its dotted name within the table, `message` says what is wrong."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


T = TypeVar("T")


def read_options(kind: type[T], values: Mapping[str, Any]) -> T:
    """Check a table against its type; raises OptionError for the first mistake."""
    try:
        return msgspec.convert(dict(values), kind, dec_hook=_decode)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        raise OptionError(place.rstrip("`").lstrip("."), message) from None


def _decode(kind: type[Any], value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise ValueError(f"Expected a string, got {type(value).__name__}")


def options_schema(kind: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of a table."""
    return msgspec.json.schema(kind, schema_hook=_schema)


def _schema(kind: type[Any]) -> dict[str, Any]:
    if kind is Path:
        return {"type": "string", "format": "path"}
    if kind is Secret:
        return {"type": "string", "writeOnly": True}
    raise NotImplementedError(kind)
