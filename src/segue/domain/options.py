"""Options: typed tables that people write in TOML and that variants declare, and the commands in them."""

from __future__ import annotations

import shlex
import string
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct

_SHELL_OPERATORS = frozenset("();<>|&")


def fill_placeholders(argument: str, values: Mapping[str, str]) -> str:
    """Replace the placeholders of an argument; `{{` and `}}` stand for braces. It stays one argument."""
    parts = []
    for literal, name, spec, conversion in string.Formatter().parse(argument):
        parts.append(literal)
        if name is None:
            continue
        if name not in values or spec or conversion:
            known = ", ".join("{" + known + "}" for known in values)
            raise ValueError(
                f"unknown placeholder {{{name}}} in {argument!r}; known: {known}; a brace is {{{{"
            )
        parts.append(values[name])
    return "".join(parts)


def split_command(command: str) -> list[str]:
    """Split a command into words; raises ValueError for what only a shell understands."""
    try:
        raw, words = _raw_words(command), shlex.split(command)
    except ValueError:
        raise ValueError(f"a quotation mark in {command!r} is not closed") from None
    if any(map(_needs_shell, raw)) or "\n" in command.strip():
        raise ValueError(
            f"{command!r} needs a shell, and Segue never uses one: write a list of commands "
            'such as ["npm ci", "npm test"], or put it into a script'
        )
    if not words:
        raise ValueError("a command cannot be empty")
    return words


def _raw_words(command: str) -> list[str]:
    """Return the words with their quotes, so that a quoted `|` is not mistaken for an operator."""
    lexer = shlex.shlex(command, posix=False, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer)


def _needs_shell(word: str) -> bool:
    return bool(word) and (set(word) <= _SHELL_OPERATORS or (word[0] not in "'\"" and "`" in word))


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every table of options: the string below a field says what it means.

    Constraints belong to the type: `Count`, `Seconds | None`, `Annotated[str, Meta(pattern=…)]`. A type of
    your own has a class method `read_option(value)` that raises ValueError, and `option_schema()`.
    """


Count = Annotated[int, Meta(ge=1)]
NonNegative = Annotated[int, Meta(ge=0)]
NonNegativeFloat = Annotated[float, Meta(ge=0)]
Bytes = Annotated[int, Meta(ge=1024)]
Amount = Annotated[float, Meta(gt=0)]
Seconds = Annotated[float, Meta(gt=0)]
Port = Annotated[int, Meta(ge=0, le=65535)]
Text = Annotated[str, Meta(min_length=1)]
WebAddress = Annotated[
    str,
    Meta(
        pattern=r"^https?://[^\s/]\S*$", extra={"expected": "an address that begins with https:// or http://"}
    ),
]


class Secret:
    """A value that is never printed: only `reveal` shows it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    @classmethod
    def read_option(cls, value: Any) -> Secret:
        """Wrap text; the value is not quoted when it is something else."""
        if not isinstance(value, str):
            raise TypeError("expected text")
        return cls(value)

    @staticmethod
    def option_schema() -> dict[str, Any]:
        """Return the JSON Schema of a secret."""
        return {"type": "string", "writeOnly": True}

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


class Argv(tuple[str, ...]):
    """A program and its arguments: a list of words, or text that is split as a shell would, without one."""

    __slots__ = ()

    @classmethod
    def read_option(cls, value: Any) -> Self:
        """Read a list or text; raises ValueError when there is no program."""
        words = split_command(value) if isinstance(value, str) else value
        if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
            raise ValueError('expected a command: ["pytest", "-q"] or "pytest -q"')
        if not words or not words[0]:
            raise ValueError("the first word names the program and cannot be empty")
        if any("\0" in word for word in words):
            raise ValueError("an argument cannot contain a null character")
        return cls(words)

    @staticmethod
    def option_schema() -> dict[str, Any]:
        """Return the JSON Schema of a command."""
        words = {"type": "array", "items": {"type": "string"}, "minItems": 1}
        return {"anyOf": [{"type": "string"}, words]}


class Commands(tuple[Argv, ...]):
    """Commands that run one after the other: a list of them, or the text of a single one."""

    __slots__ = ()

    @classmethod
    def read_option(cls, value: Any) -> Self:
        """Read a list of commands, or one command written as text."""
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list | tuple):
            raise TypeError('expected a list of commands such as ["pytest -q", "ruff check ."]')
        return cls(map(Argv.read_option, listed))

    @staticmethod
    def option_schema() -> dict[str, Any]:
        """Return the JSON Schema of commands."""
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": Argv.option_schema()}]}


class OptionError(ValueError):
    """One option is wrong: `path` is its dotted name within the table, `message` says what is wrong."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


T = TypeVar("T")


def read_options(kind: type[T], values: Mapping[str, Any]) -> T:
    """Check a table against its type; raises OptionError for the first mistake.

    Text is converted to the type of its option, because environment variables are text. A `__post_init__`
    that raises OptionError names the option itself; other ValueErrors are about the whole table.
    """
    try:
        read: T = convert(kind, dict(values))
    except msgspec.ValidationError:
        from segue.domain.mistakes import find_mistake  # only when there is one: start-up counts

        raise find_mistake(kind, values) from None
    return read


def convert(kind: Any, value: Any) -> Any:
    """Convert plain data to a type; raises msgspec.ValidationError."""
    return msgspec.convert(value, kind, strict=False, dec_hook=_decode)


def _decode(kind: type[Any], value: Any) -> Any:
    if hasattr(kind, "read_option"):
        return kind.read_option(value)
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    raise ValueError("expected text")


class OptionField(Struct, frozen=True):
    """One option of a table, as it is documented."""

    name: str
    type: Any
    default: Any
    required: bool
    description: str

    @property
    def is_table(self) -> bool:
        """True if the option is a table of options of its own."""
        return isinstance(self.type, type) and issubclass(self.type, msgspec.Struct)


def option_fields(kind: type[Any]) -> list[OptionField]:
    """Return the options of a table in the order of their declaration."""
    return [_describe(field, kind) for field in msgspec.structs.fields(kind)]


def _describe(field: msgspec.structs.FieldInfo, kind: type[Any]) -> OptionField:
    default = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    return OptionField(
        field.encode_name,
        field.type,
        None if default is msgspec.NODEFAULT else default,
        field.required,
        next(filter(None, (_read_descriptions(*of).get(field.name) for of in _find_classes(kind))), "")
        or next(
            (meta.description for meta in getattr(field.type, "__metadata__", ()) if meta.description), ""
        ),
    )


def _find_classes(kind: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield module and name of a class and of those whose options it inherits, the nearest first."""
    return ((one.__module__, one.__qualname__) for one in kind.__mro__ if issubclass(one, msgspec.Struct))


@cache
def _read_descriptions(module: str, class_name: str) -> Mapping[str, str]:
    """Return the strings below the fields of a class, read from its source; none if there is no source."""
    import ast

    spec: Any = getattr(sys.modules.get(module), "__spec__", None)
    source = spec.loader.get_source(spec.name) if hasattr(getattr(spec, "loader", None), "get_source") else ""
    body: list[ast.stmt] = ast.parse(source or "").body
    for name in class_name.split("."):
        found = (node for node in body if isinstance(node, ast.ClassDef) and node.name == name)
        body = getattr(next(found, None), "body", [])
    return {
        field.target.id: " ".join(text.split())
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(text := below.value.value, str)
    }


def option_values(options: msgspec.Struct) -> dict[str, Any]:
    """Return the options as nested dicts; all other values stay as they are."""
    found = {name: getattr(options, name) for name in options.__struct_fields__}
    return {
        name: option_values(value) if isinstance(value, msgspec.Struct) else value
        for name, value in found.items()
    }


def options_schema(kind: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of a table; its own properties are at the top."""
    schema = msgspec.json.schema(kind, schema_hook=_schema)
    name = schema.pop("$ref").rpartition("/")[2]
    inner = schema["$defs"]
    for table in _find_tables(kind):
        for field in option_fields(table):
            if field.description:
                inner[table.__name__]["properties"][field.name]["description"] = field.description
    return {**inner.pop(name), **({"$defs": inner} if inner else {})}


def _find_tables(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield the tables that a type consists of, itself first."""
    parts = get_args(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
        parts = tuple(field.type for field in msgspec.structs.fields(kind))
    for part in parts:
        yield from _find_tables(part)


def _schema(kind: type[Any]) -> dict[str, Any]:
    if hasattr(kind, "option_schema"):
        schema: dict[str, Any] = kind.option_schema()
        return schema
    if kind is Path:
        return {"type": "string", "format": "path"}
    raise NotImplementedError(kind)


SHARED_FILE = "pyproject.toml"
"""The file that has settings of other tools beside Segue's, which are its table `tool.segue`."""
PROJECT_FILES = ("segue.toml", SHARED_FILE)
"""The names under which a project's settings are found; the first counts where a folder has both."""

LARGEST = 1024**2
"""Bytes that a file of settings may have."""


def parse_settings(name: str, data: bytes) -> dict[str, Any] | None:
    """Return the settings in a file of this name; None if it has no table for them.

    Raises ValueError where it is too large, or cannot be read as TOML.
    """
    if len(data) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST // 1024**2} MiB")
    import tomllib  # commands that read no settings start without it

    try:
        found = tomllib.loads(data.decode("utf-8"))
    except RecursionError as error:
        raise ValueError(str(error)) from error
    if name != SHARED_FILE:
        return found
    tool = found.get("tool")
    own = tool.get("segue") if isinstance(tool, dict) else None
    return own if isinstance(own, dict) else None


def has_settings(data: bytes) -> bool:
    """Return whether a pyproject.toml has a table for Segue; if it is not valid, whether it may have one."""
    if b"segue" not in data and b"\\" not in data:  # no other spelling is possible: parsing takes longer
        return False
    try:
        return parse_settings(SHARED_FILE, data) is not None
    except ValueError:
        import re

        return re.search(rb"\btool[\s.\"'\]]+segue\b", data) is not None
