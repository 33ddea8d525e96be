"""Whether independent tests ask for more than the examples that the worker sees, and what can make inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from segue.proof.mutation.grammar import find_language, parse
from segue.proof.mutation.source import FUNCTION, is_skipped, text_of
from segue.system.programs import find_inside

if TYPE_CHECKING:
    from tree_sitter import Node

_LARGEST = 256 * 1024
_NUMBER = re.compile(r"integer|float|number|.*(?:int|integer|float|number|real|floating_point)_literal")
_TEXT = re.compile(r"string|\w*string_literal|encapsed_string|template_string")
_ARGUMENTS = re.compile(r"arguments|argument_list")
_MESSAGE = re.compile(r"(?:\w+\W+){3}\w")
"""Four words are a message, not a value."""
_MAKES = re.compile(
    r"\b(?:hypothesis|fast-check|proptest|quickcheck|jqwik|rapid|testing/quick|itertools|random|range|repeat)\b"
    r"|Array\.from|\bfor\b[^\n;]*;[^\n;]*;|\.\.="
)
_NAME = re.compile(r"\b([A-Za-z_]\w+)\(|`([A-Za-z_]\w+)`")
_LIBRARIES = {
    "Hypothesis": "lib/python3*/*-packages/hypothesis/__init__.py",
    "fast-check": "node_modules/fast-check/package.json",
}


def only_repeats(tests: Mapping[str, str], seen: str) -> bool:
    """Return whether tests, by path, make no values and use none but those that a text has.

    False where no grammar reads them, or they have no values at all.
    """
    values = {value for path, text in tests.items() for value in list_values(path, text)}
    makes = any(_MAKES.search(text) for text in tests.values())
    return bool(values) and not makes and all(_is_in(value, seen) for value in values)


def list_values(path: str, text: str) -> set[str]:
    """Return the numbers and strings in a test, without imports, titles, messages and names of parameters."""
    language = find_language(path, text) if len(text) <= _LARGEST else None
    root = parse(language, text.encode()) if language is not None else None
    if root is None:
        return set()
    names = {text_of(node) for node in _leaves(root) if node.type == "identifier"}
    return {value for value in _values(root) if not value or set(re.findall(r"[^\s,]+", value)) - names}


def find_names(words: str) -> set[str]:
    """Return the names of code that a text gives."""
    return {name for pair in _NAME.findall(words) for name in pair if name}


def find_libraries(root: Path, commands: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return which libraries for properties are installed where these commands find theirs."""
    programs = (find_inside(str(root / argv[0]) if "/" in argv[0] else argv[0]) for argv in commands)
    places = [root, *(Path(program).parent.parent for program in programs if program)]
    return tuple(name for name, file in _LIBRARIES.items() if any(any(one.glob(file)) for one in places))


def _values(node: Node) -> Iterator[str]:
    if is_skipped(node) or text_of(node).startswith("require("):
        return
    if _NUMBER.fullmatch(node.type):
        yield text_of(node)
    elif _TEXT.fullmatch(node.type):
        value = text_of(node).strip("\"'`")
        if not _MESSAGE.search(value) and not (node.parent is not None and _is_of_test(node.parent)):
            yield value
    else:
        for child in node.children:
            yield from _values(child)


def _is_of_test(arguments: Node) -> bool:
    """Return whether a string among these arguments is the title of the test beside it."""
    is_call = _ARGUMENTS.fullmatch(arguments.type) is not None
    return is_call and any(FUNCTION.fullmatch(child.type) for child in arguments.children)


def _leaves(node: Node) -> Iterator[Node]:
    if not node.child_count:
        yield node
    for child in node.children:
        yield from _leaves(child)


def _is_in(value: str, text: str) -> bool:
    if not value:
        return '""' in text or "''" in text
    return re.search(rf"(?<![\w.]){re.escape(value)}(?!\w)", text) is not None
