"""Tell what programs run from what they do not: comments, docstrings and layout."""

from __future__ import annotations

import ast
import re

_QUOTED = r'"(?:\\.|[^"\\\n])*"' + r"|'(?:\\.|[^'\\\n])*'"
_BEGINS = r"(?<![^\s;{},)])"
"""Before a comment; elsewhere the same letters may be part of an address or of a regular expression."""
_C = rf"(?P<comment>{_BEGINS}(?://[^\n]*|/\*.*?\*/))|\"{3}.*?\"{3}|{_QUOTED}|`[^`]*`|\burl\([^)\n]*\)"
_HASH = rf"(?P<comment>(?:(?<=\s)|^)#[^\n]*)|{_QUOTED}"
_CSS = rf"(?P<comment>/\*.*?\*/)|{_QUOTED}"
_DASH = rf"(?P<comment>--[^\n]*|/\*.*?\*/)|{_QUOTED}"
_MARKUP = r"(?P<comment><!--.*?-->)"
_PYTHON = rf"(?P<comment>(?:(?<=\s)|^)#[^\n]*|^[ \t]*(?P<marks>\"{3}|'{3}).*?(?:(?P=marks)|\Z))|{_QUOTED}"
_FLAGS = re.DOTALL | re.MULTILINE
_GRAMMARS = {
    _C: "js jsx cjs mjs ts tsx mts cts go rs java kt kts scala c h cc cpp hpp cs swift dart php groovy proto "
    "zig jsonc less scss",
    _HASH: "sh bash zsh fish rb pl r jl ex exs yaml yml toml mk tf cfg ini conf properties",
    _CSS: "css",
    _DASH: "sql lua hs elm",
    _MARKUP: "html htm xml svg vue svelte",
}
"""How comments begin and end, and what only looks like one."""
_UNCLEAR = {
    _C: re.compile(r"[\"`]|<<<"),
    _HASH: re.compile(r"[\"'`]|<<[-~]?\w|[:-][ \t]+[|>][-+\d]*[ \t]*$", re.MULTILINE),
    _CSS: re.compile(r"[\"']"),
    _DASH: re.compile(r"[\"']|\$\w*\$|\[=*\["),
}
"""What is left beside comments and strings where a text of several lines may look like a comment."""
_BY_SUFFIX = {suffix: grammar for grammar, suffixes in _GRAMMARS.items() for suffix in suffixes.split()}
_BY_NAME = dict.fromkeys(("Makefile", "makefile", "GNUmakefile", "Dockerfile", "justfile"), _HASH)
_FOR_COMPILERS = r"^\W*(?:go:|\+build|cgo\b|@\w|syntax=|frozen_string_literal|-\*-)|^#!"
_RUN = re.compile(_FOR_COMPILERS)
"""Comments that compilers and shells obey."""
_OBEYED = re.compile(
    rf"{_FOR_COMPILERS}|^\W*(?:type:|noqa|nosec|pragma|fmt:|isort:"
    r"|(?:eslint|tslint|prettier|nolint|pylint|ruff|mypy|pyright|biome|istanbul|v8|c8)\b)"
)
"""Those and what linters and other tools obey, which run nothing."""
_EXAMPLE = re.compile(r">>>|```|\bassert")
"""What marks examples in comments and prose that test runners run."""


def differ_in_comments(
    path: str, before: str, after: str, *, for_tools: bool = False, examples: bool = True
) -> bool:
    """Return whether two versions of a program differ in nothing that runs.

    False where the language is not known, or where comments are obeyed or run as tests. `for_tools`: what
    linters and other tools obey runs nothing. `examples`: whether those in docstrings may be run.
    """
    kept = _RUN if for_tools else _OBEYED
    if path.endswith((".py", ".pyi")):
        return _differ_in_python_comments(before, after, kept, examples)
    grammar = _find_grammar(path, after)
    if grammar is None:
        return False
    keeps_indent = grammar is _HASH
    if _is_unclear(before, grammar) or _is_unclear(after, grammar):
        return False
    return _strip(before, grammar, keeps_indent, kept) == _strip(after, grammar, keeps_indent, kept)


def strip_comments(path: str, text: str) -> str:
    """Return a program, or a piece of one, without comments and docstrings; the same text if it is none."""
    grammar = _PYTHON if path.endswith((".py", ".pyi")) else _find_grammar(path, text)
    if grammar is None:
        return text
    return re.sub(grammar, lambda found: " " if found["comment"] else found[0], text, flags=_FLAGS)


def _find_grammar(path: str, text: str) -> str | None:
    name = path.rpartition("/")[2]
    suffix = name.rpartition(".")[2].lower() if "." in name[1:] else ""
    return _BY_SUFFIX.get(suffix) or _BY_NAME.get(name) or (_HASH if text.startswith("#!") else None)


def has_examples(text: str) -> bool:
    """Return whether a text has examples that a test runner may run."""
    return _EXAMPLE.search(text) is not None


def _is_unclear(text: str, grammar: str) -> bool:
    unclear = _UNCLEAR.get(grammar)
    return unclear is not None and unclear.search(re.sub(grammar, " ", text, flags=_FLAGS)) is not None


def _strip(text: str, grammar: str, keeps_indent: bool, kept: re.Pattern[str]) -> list[str]:
    """Return the lines without comments, but with those that somebody obeys."""
    example = False

    def keep(found: re.Match[str]) -> str:
        nonlocal example
        comment = found["comment"]
        if comment is None:
            return found[0]
        fences = comment.count("```")
        runs = example or has_examples(comment)
        example ^= bool(fences % 2)
        line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        is_doubtful = grammar is _C and ("/" in line or "</" in comment)  # as in expressions and markup
        return comment if runs or is_doubtful or kept.match(comment) else " "

    bare = re.sub(grammar, keep, text, flags=_FLAGS)
    lines = (line.rstrip() if keeps_indent else line.strip() for line in bare.splitlines())
    return [line for line in lines if line.strip()]


def _differ_in_python_comments(before: str, after: str, kept: re.Pattern[str], examples: bool) -> bool:
    if _obeyed(before, kept) != _obeyed(after, kept):
        return False
    try:
        return _bare_tree(before, examples) == _bare_tree(after, examples)
    except (SyntaxError, ValueError, RecursionError):
        return False


def _obeyed(text: str, kept: re.Pattern[str]) -> list[str]:
    found = re.findall(r"(?:^|(?<=\s))#[^\n]*", text)
    return [comment for comment in found if kept.match(comment)]


def _bare_tree(text: str, examples: bool) -> str:
    """Return a program without docstrings; those that are run or printed stay."""
    tree = ast.parse(text)
    prints = "__doc__" in text
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        said = ast.get_docstring(node, clean=False)
        if said is not None and not prints and not (examples and ">>>" in said):
            node.body = node.body[1:]
    return ast.dump(tree)
