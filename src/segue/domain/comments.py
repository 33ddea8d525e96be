"""Take comments out of programs, and tell whether two versions differ in anything else."""

from __future__ import annotations

import ast
import re

_QUOTED = r'"(?:\\.|[^"\\\n])*"' + r"|'(?:\\.|[^'\\\n])*'"
_BEGINS = r"(?<![^\s;{},)])"
"""Before a comment; elsewhere the same letters may be part of an address or of a regular expression."""
_C = rf"(?P<comment>{_BEGINS}(?://[^\n]*|/\*.*?\*/))|\"{3}.*?\"{3}|{_QUOTED}|`[^`]*`|\burl\([^)\n]*\)"
_HASH = rf"(?P<comment>(?:(?<=\s)|^)#[^\n]*)|{_QUOTED}"
_DASH = rf"(?P<comment>--[^\n]*|/\*.*?\*/)|{_QUOTED}"
_MARKUP = r"(?P<comment><!--.*?-->)"
_PYTHON = rf"(?P<comment>(?:(?<=\s)|^)#[^\n]*|^[ \t]*(?P<marks>\"{3}|'{3}).*?(?:(?P=marks)|\Z))|{_QUOTED}"
_FLAGS = re.DOTALL | re.MULTILINE
_GRAMMARS = {
    _C: "js jsx cjs mjs ts tsx mts cts go rs java kt kts scala c h cc cpp hpp cs swift dart php groovy proto "
    "zig jsonc less scss css",
    _HASH: "sh bash zsh fish rb pl r jl ex exs yaml yml toml mk tf cfg ini conf properties",
    _DASH: "sql lua hs elm",
    _MARKUP: "html htm xml svg vue svelte",
    _PYTHON: "py pyi",
}
"""How comments begin and end, and what only looks like one."""
_BY_SUFFIX = {suffix: grammar for grammar, suffixes in _GRAMMARS.items() for suffix in suffixes.split()}
_BY_NAME = dict.fromkeys(("Makefile", "makefile", "GNUmakefile", "Dockerfile", "justfile"), _HASH)
_UNCLEAR = {
    _C: re.compile(r"[\"`]|<<<"),
    _HASH: re.compile(r"[\"'`]|<<[-~]?\w|[:-][ \t]+[|>][-+\d]*[ \t]*$", re.MULTILINE),
    _DASH: re.compile(r"[\"']|\$\w*\$|\[=*\["),
    _MARKUP: re.compile(r"(?!)"),
}
"""What is left beside comments and strings where a text of several lines may look like a comment."""
_OBEYED = re.compile(
    r"^\W*(?:go:|\+build|cgo\b|@\w|syntax=|frozen_string_literal|-\*-)|^#!|>>>|```|\bassert"
    r"|^\W*(?:type:|noqa|nosec|pragma|fmt:|isort:"
    r"|(?:eslint|tslint|prettier|nolint|pylint|ruff|mypy|pyright|biome|istanbul|v8|c8)\b)"
)
"""Comments that compilers, shells, linters and runners of examples obey."""


def strip_comments(path: str, text: str, *, obeyed: bool = True) -> str:
    """Return a program, or a piece of one, without comments and docstrings; the same text if it is none.

    `obeyed`: also without those that tools obey.
    """
    grammar = _find_grammar(path, text)
    if grammar is None:
        return text

    def replace(found: re.Match[str]) -> str:
        comment = found["comment"]
        if comment is None or obeyed:
            return " " if comment else found[0]
        line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        is_doubtful = grammar is _C and ("/" in line or "</" in comment)  # as in expressions and markup
        return comment if is_doubtful or _OBEYED.search(comment) else " "

    return re.sub(grammar, replace, text, flags=_FLAGS)


def differ_in_comments(path: str, before: str, after: str) -> bool:
    """Return whether two versions of a program differ in nothing that runs or that tools obey.

    False where the language is not known, or where it is not clear what a comment is.
    """
    grammar = _find_grammar(path, after)
    if grammar is None:
        return False
    if grammar is _PYTHON:
        return _differ_in_python(before, after)
    bare = [strip_comments(path, text, obeyed=False) for text in (before, after)]
    unclear = _UNCLEAR[grammar]
    if any(unclear.search(re.sub(grammar, " ", text, flags=_FLAGS)) for text in (before, after)):
        return False
    lines = [
        [line.rstrip() if grammar is _HASH else line.strip() for line in text.splitlines()] for text in bare
    ]
    old, new = [[line for line in one if line.strip()] for one in lines]
    return old == new


def _find_grammar(path: str, text: str) -> str | None:
    name = path.rpartition("/")[2]
    suffix = name.rpartition(".")[2].lower() if "." in name[1:] else ""
    return _BY_SUFFIX.get(suffix) or _BY_NAME.get(name) or (_HASH if text.startswith("#!") else None)


def _differ_in_python(before: str, after: str) -> bool:
    obeyed = [
        [comment for comment in re.findall(r"(?:^|(?<=\s))#[^\n]*", text) if _OBEYED.search(comment)]
        for text in (before, after)
    ]
    try:
        return obeyed[0] == obeyed[1] and _dump(before) == _dump(after)
    except (SyntaxError, ValueError, RecursionError):
        return False


def _dump(text: str) -> str:
    """Return a program without docstrings; those that may be run or printed stay."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            words = ast.get_docstring(node, clean=False)
            if words is not None and "__doc__" not in text and ">>>" not in words:
                node.body = node.body[1:]
    return ast.dump(tree)
