"""Languages that can be mutated: a table of what differs, and tree-sitter's grammars, loaded when needed."""

from __future__ import annotations

import importlib
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_TABLE = Path(__file__).with_name("languages.toml")


class Language(Struct, frozen=True):
    """What differs between languages; languages.toml says what each field is."""

    endings: tuple[str, ...]
    grammar: tuple[str, str]
    fail: str
    give: str
    empty: str
    negated: str
    neutral: tuple[tuple[str, str], ...]
    wrong: tuple[tuple[str, str], ...]
    unbuilt: str = ""
    until: str = ""


@cache
def _languages() -> list[Language]:
    table = tomllib.loads(_TABLE.read_text("utf-8"))
    rows = [{**table.get(row.pop("like", ""), {}), **row} for row in table.values()]
    return msgspec.convert(rows, list[Language])


def find_language(path: str) -> Language | None:
    """Return the language of a file by its ending; None if it cannot be mutated by its grammar."""
    if path.endswith(".d.ts"):
        return None
    return next((language for language in _languages() if path.endswith(language.endings)), None)


@cache
def _parser(language: Language) -> Parser:
    from tree_sitter import Language as Grammar
    from tree_sitter import Parser

    module = importlib.import_module(language.grammar[0])
    return Parser(Grammar(getattr(module, language.grammar[1])()))


def parse(language: Language, text: bytes) -> Node:
    """Return the root of the syntax tree."""
    return _parser(language).parse(text).root_node
