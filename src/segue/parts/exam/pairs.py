"""Which functions of two versions of a Python project are to behave the same, and which tests call them."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from msgspec import Struct


class FunctionPair(Struct, frozen=True):
    """A function before and after, by file and name."""

    old: tuple[str, str]
    new: tuple[str, str]

    @property
    def label(self) -> str:
        """How people call it."""
        return self.old[1] if self.old[1] == self.new[1] else f"{self.old[1]} (now {self.new[1]})"


class Comparables(Struct, frozen=True):
    """Two versions of files, as far as they can be compared."""

    pairs: tuple[FunctionPair, ...]
    left_out: tuple[str, ...]
    """What cannot be compared, each with the reason."""


_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Defined = dict[tuple[str, str], ast.stmt]


def find_pairs(files: Mapping[str, tuple[str, str]], words: str) -> Comparables:
    """Return the public functions that changed, or whose helpers did; `files` are both versions by path."""
    old, new = (_define({path: texts[side] for path, texts in files.items()}) for side in (0, 1))
    pairs, left_out = list[FunctionPair](), list[str]()
    for place, before in old.items():
        path, name = place
        if name.startswith("_"):
            continue
        found = place if place in new else _find_moved(place, old, new, words)
        after = new.get(found) if found is not None else None
        if found is None or after is None:
            left_out.append(f"{name} ({path}): it is gone")
        elif found == place and not _is_touched(path, name, old, new):
            continue
        elif not isinstance(before, ast.FunctionDef) or not isinstance(after, ast.FunctionDef):
            is_class = isinstance(before, ast.ClassDef)
            left_out.append(f"{name}: {'a class' if is_class else 'not a plain function'} is not compared")
        else:
            pairs.append(FunctionPair(place, found))
    return Comparables(tuple(pairs), tuple(left_out))


def _define(files: Mapping[str, str]) -> _Defined:
    found: _Defined = {}
    for path, text in files.items():
        with suppress(SyntaxError, ValueError):
            for node in ast.parse(text).body:
                if isinstance(node, _Function | ast.ClassDef):
                    found[path, node.name] = node
    return found


def _find_moved(place: tuple[str, str], old: _Defined, new: _Defined, words: str) -> tuple[str, str] | None:
    """Return where a function is now that is gone from its file: elsewhere, or under another name."""
    path, name = place
    moved = [one for one in new if one[1] == name and one not in old]
    if len(moved) == 1:
        return moved[0]
    named = [one for one in new if one not in old and one[0] == path and _says(words, one[1])]
    return named[0] if len(named) == 1 and _says(words, name) else None


def _says(words: str, name: str) -> bool:
    return re.search(rf"(?<!\w){name}(?!\w)", words) is not None


def _is_touched(path: str, name: str, old: _Defined, new: _Defined) -> bool:
    """Return whether a function changed, or something in its file that it leads to."""
    changed = {
        other
        for where, other in {*old, *new}
        if where == path and _dump(old.get((path, other))) != _dump(new.get((path, other)))
    }
    seen, left = set[str](), {name}
    while left:
        one = left.pop()
        if one in changed:
            return True
        seen.add(one)
        node = new.get((path, one))
        names = {leaf.id for leaf in ast.walk(node) if isinstance(leaf, ast.Name)} if node else set()
        left |= {other for other in names if (path, other) in new} - seen
    return False


def _dump(node: ast.stmt | None) -> str:
    return ast.dump(node) if node is not None else ""


def find_calls(tests: Iterable[str], names: Collection[str]) -> dict[str, list[str]]:
    """Return the plain argument lists with which tests call functions, as text, by name."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for text in tests:
        with suppress(SyntaxError, ValueError):
            for node in ast.walk(ast.parse(text)):
                if not isinstance(node, ast.Call) or node.keywords:
                    continue
                name = (
                    node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                )
                if name in found:
                    with suppress(ValueError, TypeError, SyntaxError):
                        found[name].append(repr(tuple(ast.literal_eval(one) for one in node.args)))
    return {name: list(dict.fromkeys(texts)) for name, texts in found.items()}
