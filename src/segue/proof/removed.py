"""Find definitions that a change removed from a program, where it did no more than that."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from segue.proof.mutation.grammar import find_language, parse
from segue.proof.mutation.source import CALL, FUNCTION, is_skipped, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_DEFINES = re.compile(rf"{FUNCTION.pattern}|class_(?:definition|declaration)|export_statement")
_ASSIGNS = re.compile(r"expression_statement|(?:lexical|variable)_declaration")
_INHERITS = re.compile(r"argument_list|class_heritage")
_UNNAMED = ("main", "init")
"""What runs although nothing names it."""


def list_removed(path: str, before: str, after: str) -> set[str]:
    """Return the names of the functions, classes and values that a program lacks now.

    Empty if anything else differs, or if what is gone may have done something without being named: decorated
    functions, subclasses, values that calls made.
    """
    old, new = _pieces(path, before), _pieces(path, after) if after.strip() else []
    gone, rest = set[str](), iter(new)
    expected = next(rest, None)
    for name, text in old:
        if expected is not None and text == expected[1]:
            expected = next(rest, None)
        elif not name:
            return set()
        else:
            gone.add(name)
    return gone if expected is None else set()


def _pieces(path: str, text: str) -> list[tuple[str, str]]:
    """Return the name of each definition, empty for what is none, and its text; without imports."""
    language = find_language(path, text)
    root = parse(language, text.encode()) if language is not None else None
    if root is None or root.has_error:
        return [("", text)]
    return [(_name(one), text_of(one)) for one in root.children if not is_skipped(one)]


def _name(node: Node) -> str:
    if _DEFINES.fullmatch(node.type):
        node = node.child_by_field_name("declaration") or node
        found = node.child_by_field_name("name")
        inherits = any(_INHERITS.fullmatch(one.type) for one in node.children)
        name = text_of(found) if found is not None and not inherits else ""
    else:
        name = _name_of_value(node) if _ASSIGNS.fullmatch(node.type) else ""
    return "" if name.startswith("__") or name in _UNNAMED else name


def _name_of_value(node: Node) -> str:
    inner = node.named_children[0] if node.named_child_count == 1 else None
    if inner is None:
        return ""
    name = inner.child_by_field_name("left") or inner.child_by_field_name("name")
    value = inner.child_by_field_name("right") or inner.child_by_field_name("value")
    if name is None or value is None or (not FUNCTION.fullmatch(value.type) and _calls(value)):
        return ""
    return text_of(name) if name.type == "identifier" else ""


def _calls(node: Node) -> bool:
    return bool(CALL.fullmatch(node.type)) or any(_calls(one) for one in node.children)
