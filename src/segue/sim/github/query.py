"""A small parser for GraphQL documents: operations, fragments, arguments, values. There is no schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

_TOKEN = re.compile(
    r"""[\s,\ufeff]+|\#[^\n]*
    |(?P<block>\"\"\"(?:\\\"\"\"|(?!\"\"\").)*\"\"\")
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<mark>\.\.\.|[!$&()\[\]{}:=@|])""",
    re.VERBOSE | re.DOTALL,
)
_DEEPEST = 60


class BadQuery(Exception):
    """A text that is no GraphQL document."""


class Variable(Struct, frozen=True):
    """A value that comes with the request."""

    name: str


class FieldNode(Struct):
    """A field, or a fragment on a type."""

    name: str
    alias: str
    arguments: dict[str, Any] = field(default_factory=dict)
    selections: list[FieldNode | Spread] = field(default_factory=list)
    directives: dict[str, dict[str, Any]] = field(default_factory=dict)


class Spread(Struct):
    """A fragment in its place: a named one, or one with its own fields."""

    fragment: str = ""
    on: str = ""
    selections: list[FieldNode | Spread] = field(default_factory=list)
    directives: dict[str, dict[str, Any]] = field(default_factory=dict)


class Operation(Struct):
    """A query or a mutation."""

    kind: str
    name: str
    defaults: dict[str, Any]
    selections: list[FieldNode | Spread]


class Document(Struct):
    """Operations, and the fragments they use."""

    operations: list[Operation] = field(default_factory=list)
    fragments: dict[str, Spread] = field(default_factory=dict)

    def pick(self, name: str | None) -> Operation:
        """Return the operation with this name, or the only one."""
        found = [known for known in self.operations if name in (None, known.name)]
        if not found:
            raise BadQuery("there is no such operation")
        return found[0]


def parse_query(text: str) -> Document:
    """Parse a document; raises BadQuery."""
    return _Parser(_split(text)).document()


def fill_value(value: Any, variables: Mapping[str, Any]) -> Any:
    """Return a value with its variables replaced."""
    if isinstance(value, Variable):
        return variables.get(value.name)
    if isinstance(value, list):
        return [fill_value(item, variables) for item in value]
    if isinstance(value, dict):
        return {name: fill_value(item, variables) for name, item in value.items()}
    return value


def _split(text: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise BadQuery(f"unexpected {text[at]!r} at {at}")
        if found.lastgroup:
            tokens.append((found.lastgroup, found[0]))
        at = found.end()
    return tokens


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0
        self._deep = 0

    def document(self) -> Document:
        document = Document()
        while self._at < len(self._tokens):
            if self._peek() == "fragment":
                self._next()
                name = self._name()
                self._expect("on")
                on = self._name()
                directives = self._directives()
                document.fragments[name] = Spread(name, on, self._selections(), directives)
            else:
                document.operations.append(self._operation())
        return document

    def _operation(self) -> Operation:
        if self._peek() == "{":
            return Operation("query", "", {}, self._selections())
        kind = self._name()
        if kind not in ("query", "mutation"):
            raise BadQuery(f"unexpected {kind!r}")
        name = "" if self._peek() in ("(", "{", "@") else self._name()
        defaults = self._variables() if self._peek() == "(" else {}
        self._directives()
        return Operation(kind, name, defaults, self._selections())

    def _variables(self) -> dict[str, Any]:
        self._expect("(")
        defaults = {}
        while self._peek() != ")":
            self._expect("$")
            name = self._name()
            self._expect(":")
            self._type()
            if self._peek() == "=":
                self._next()
                defaults[name] = self._value()
            self._directives()
        self._next()
        return defaults

    def _type(self) -> None:
        if self._peek() == "[":
            self._next()
            self._type()
            self._expect("]")
        else:
            self._name()
        if self._peek() == "!":
            self._next()

    def _selections(self) -> list[FieldNode | Spread]:
        self._enter()
        self._expect("{")
        found: list[FieldNode | Spread] = []
        while self._peek() != "}":
            found.append(self._spread() if self._peek() == "..." else self._field())
        self._next()
        self._deep -= 1
        return found

    def _enter(self) -> None:
        self._deep += 1
        if self._deep > _DEEPEST:
            raise BadQuery("the query is nested too deeply")

    def _spread(self) -> Spread:
        self._expect("...")
        if self._peek() == "on":
            self._next()
            on = self._name()
        elif self._peek() in ("{", "@"):
            on = ""
        else:
            return Spread(self._name(), directives=self._directives())
        directives = self._directives()
        return Spread("", on, self._selections(), directives)

    def _field(self) -> FieldNode:
        alias = name = self._name()
        if self._peek() == ":":
            self._next()
            name = self._name()
        arguments = self._arguments() if self._peek() == "(" else {}
        directives = self._directives()
        selections = self._selections() if self._peek() == "{" else []
        return FieldNode(name, alias, arguments, selections, directives)

    def _arguments(self) -> dict[str, Any]:
        self._expect("(")
        found = {}
        while self._peek() != ")":
            name = self._name()
            self._expect(":")
            found[name] = self._value()
        self._next()
        return found

    def _directives(self) -> dict[str, dict[str, Any]]:
        found = {}
        while self._peek() == "@":
            self._next()
            name = self._name()
            found[name] = self._arguments() if self._peek() == "(" else {}
        return found

    def _value(self) -> Any:
        self._enter()
        kind, text = self._next()
        self._deep -= 1
        match kind, text:
            case ("string", _):
                return _unquote(text)
            case ("block", _):
                return text[3:-3].replace('\\"""', '"""').strip("\n")
            case ("number", _):
                return float(text) if set(text) & set(".eE") else int(text)
            case ("name", _):
                return {"true": True, "false": False, "null": None}.get(text, text)
            case (_, "$"):
                return Variable(self._name())
            case (_, "["):
                return self._items()
            case (_, "{"):
                return self._table()
        raise BadQuery(f"unexpected {text!r}")

    def _items(self) -> list[Any]:
        self._enter()
        found = []
        while self._peek() != "]":
            found.append(self._value())
        self._next()
        self._deep -= 1
        return found

    def _table(self) -> dict[str, Any]:
        self._enter()
        found = {}
        while self._peek() != "}":
            name = self._name()
            self._expect(":")
            found[name] = self._value()
        self._next()
        self._deep -= 1
        return found

    def _peek(self) -> str:
        if self._at >= len(self._tokens):
            return ""
        kind, text = self._tokens[self._at]
        return text if kind in ("mark", "name") else f"{kind} {text}"

    def _next(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            raise BadQuery("the query ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _name(self) -> str:
        kind, text = self._next()
        if kind != "name":
            raise BadQuery(f"expected a name, found {text!r}")
        return text

    def _expect(self, wanted: str) -> None:
        _, text = self._next()
        if text != wanted:
            raise BadQuery(f"expected {wanted!r}, found {text!r}")


def _unquote(text: str) -> str:
    try:
        value = json.loads(text, strict=False)
    except ValueError:
        raise BadQuery(f"{text} is not a text") from None
    return str(value)
