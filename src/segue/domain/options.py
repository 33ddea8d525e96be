"""Options: typed tables that people write in TOML and that variants and plug-ins declare."""

from __future__ import annotations

import re
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
_FIELD = re.compile(r"Object (?:(?P<missing>missing required)|contains unknown) field `(?P<name>.*)`")


def read_options(kind: type[T], values: Mapping[str, Any]) -> T:
    """Check a table against its type; raises OptionError for the first mistake.

    Text is converted to the type of its option, because environment variables are text. A `__post_init__`
    that raises OptionError names the option itself; other ValueErrors are about the whole table.
    """
    try:
        return msgspec.convert(dict(values), kind, strict=False, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise _locate(error) from None


def _locate(error: msgspec.ValidationError) -> OptionError:
    message, _, place = str(error).partition(" - at `$")
    table, name = place.rstrip("`").lstrip("."), ""
    if isinstance(error.__cause__, OptionError):
        name, message = error.__cause__.path, error.__cause__.message
    elif found := _FIELD.fullmatch(message):
        name, message = found["name"], "is required" if found["missing"] else "is not an option"
    return OptionError(".".join(filter(None, (table, name))), message)


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
