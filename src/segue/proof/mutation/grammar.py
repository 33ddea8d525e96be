"""Languages that can be mutated: a table of what differs, and tree-sitter's grammars, loaded when needed."""

from __future__ import annotations

import importlib
import re
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
    leave: str
    give: str
    empty: str
    negated: str
    neutral: tuple[tuple[str, str], ...]
    wrong: tuple[tuple[str, str], ...]
    idle: str = ""
    misfit: str = ""
    prints: str = ""
    shebang: str = ""
    unbuilt: str = ""
    until: str = ""
    script: bool = False

    @property
    def has_implicit_results(self) -> bool:
        """Whether the last expression of a function is its result."""
        return self.grammar[0] in ("tree_sitter_rust", "tree_sitter_ruby")


@cache
def _languages() -> list[Language]:
    known = tomllib.loads(_TABLE.read_text("utf-8"))
    rows = [{**known.get(row.get("like", ""), {}), **row} for row in known.values()]
    return msgspec.convert(rows, list[Language])


def find_language(path: str, text: str) -> Language | None:
    """Return the language of a file, by its ending or its first line; None: there is no grammar for it."""
    if path.endswith(".d.ts"):
        return None
    first = text.partition("\n")[0]
    for language in _languages():
        if path.endswith(language.endings):
            return language
        if language.shebang and first.startswith("#!") and re.search(language.shebang, first):
            return language
    return None


@cache
def _parser(language: Language) -> Parser | None:
    try:
        from tree_sitter import Language as Grammar
        from tree_sitter import Parser

        module = importlib.import_module(language.grammar[0])
        return Parser(Grammar(getattr(module, language.grammar[1])()))
    except (ImportError, AttributeError, ValueError):  # not installed, or of another version
        return None


def parse(language: Language, text: bytes) -> Node | None:
    """Return the root of the syntax tree; None: the grammar is not installed."""
    parser = _parser(language)
    return parser.parse(text).root_node if parser is not None else None
