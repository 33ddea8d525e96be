"""A changed file as a syntax tree: which of its lines changed, and the functions that these belong to."""

from __future__ import annotations

import re
from bisect import bisect_left
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from msgspec import Struct

from segue.proof.mutants.grammar import Language, find_language, parse

if TYPE_CHECKING:
    from tree_sitter import Node

FUNCTION = re.compile(
    r"function_(?:definition|declaration|expression|item)|generator_function(?:_declaration)?|arrow_function"
    r"|(?:method|constructor)_(?:definition|declaration)|func_literal"
)
CALL = re.compile(r"call|call_expression|method_invocation|macro_invocation")
_SKIPPED = re.compile(
    r".*comment|import.*|future_import.*|use_declaration|package_.*|attribute_item"
    r"|type|type_annotation|type_arguments|type_parameters|string_start|string_end"
)
_LOG = re.compile(r"(?:[\w.>:$-]*[.>:])?_?(?:log|logger|logging|slog|tracing)(?:[.:!(]|->)", re.I)
_EMPTY = re.compile(r"pass_statement|ellipsis|\{|\}|;|.*comment")


class Function(Struct, frozen=True):
    """A function with changed lines."""

    label: str
    """Its name and line."""
    node: Node
    body: Node
    is_new: bool
    """Whether most of its own lines changed, so that the task answers for its whole result."""


class ChangedFile:
    """A changed file of a language with a grammar."""

    def __init__(self, path: str, language: Language, before: str, after: str) -> None:
        self.path, self.language, self.text = path, language, after.encode()
        self.root = parse(language, self.text)
        end = self.text.find(language.until.encode()) if language.until else -1
        self._end = end if end >= 0 else len(self.text)
        nodes: list[Node] = []
        owners: dict[int, int] = {}
        self._walk(self.root, nodes, owners, -1)
        self._replaced, removed = changed_lines(before, after)
        self.lines = sorted(self._replaced.keys() & owners.keys())
        self.functions = list(self._find_changed(nodes, owners, removed))

    def _walk(self, node: Node, functions: list[Node], owners: dict[int, int], owner: int) -> None:
        """Note the functions below a node, and for each line of code the function that it belongs to."""
        if is_skipped(node) or node.start_byte >= self._end:
            return
        if FUNCTION.fullmatch(node.type) and node.child_by_field_name("body") is not None:
            functions.append(node)
            owner = len(functions) - 1
            if owners.get(node.start_point[0], -1) == -1:
                owners[node.start_point[0]] = owner
        if not node.child_count:
            for line in range(node.start_point[0], node.end_point[0] + 1):
                owners.setdefault(line, owner)
        for child in node.children:
            self._walk(child, functions, owners, owner)

    def _find_changed(self, nodes: list[Node], owners: dict[int, int], removed: set[int]) -> list[Function]:
        """Return the functions with changed lines of their own, and those that lost lines."""
        result = []
        for number, node in enumerate(nodes):
            body = node.child_by_field_name("body")
            own = [line for line, owner in owners.items() if owner == number]
            changed = sum(self.is_changed(line) for line in own)
            is_shorter = any(node.start_point[0] < line <= node.end_point[0] for line in removed)
            if body is None or not (changed or is_shorter) or _is_empty(body):
                continue
            name = node.child_by_field_name("name")
            label = f"{text_of(name) if name is not None else ''}@{node.start_point[0] + 1}"
            result.append(Function(label, node, body, changed * 2 > len(own)))
        return result

    def find_owner(self, node: Node) -> Function | None:
        """Return the innermost changed function that a node is part of."""
        around = [
            one
            for one in self.functions
            if one.node.start_byte <= node.start_byte and node.end_byte <= one.node.end_byte
        ]
        return min(around, key=lambda one: one.node.end_byte - one.node.start_byte, default=None)

    def touches(self, node: Node) -> bool:
        """Return whether a changed line is among those of a node."""
        at = bisect_left(self.lines, node.start_point[0])
        return at < len(self.lines) and self.lines[at] <= node.end_point[0]

    def is_changed(self, line: int) -> bool:
        """Return whether a line of code changed."""
        at = bisect_left(self.lines, line)
        return at < len(self.lines) and self.lines[at] == line

    def is_old_value(self, node: Node) -> bool:
        """Return whether a value is also in the lines that its line replaces, so it is not new."""
        value = re.escape(text_of(node).strip("\"'`"))
        return (
            re.search(rf"(?<![\w.]){value}(?![\w.])", self._replaced.get(node.start_point[0], "")) is not None
        )


def open_changed(path: str, before: str, after: str) -> ChangedFile | None:
    """Return a changed file; None if there is no grammar for it."""
    language = find_language(path)
    return ChangedFile(path, language, before, after) if language is not None else None


def changed_lines(before: str, after: str) -> tuple[dict[int, str], set[int]]:
    """Return the changed lines, from 0, each with what it replaces, and those after removed ones."""
    old, new = before.split("\n"), after.split("\n")
    changed: dict[int, str] = {}
    removed: set[int] = set()
    for tag, first, last, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "delete":
            removed.add(start)
        elif tag != "equal":
            changed.update(dict.fromkeys(range(start, end), "\n".join(old[first:last])))
    return changed, removed


def is_skipped(node: Node) -> bool:
    """Return whether no test could notice a change: of comments, imports, types, docstrings, logging."""
    if not node.is_named:
        return False
    if _SKIPPED.fullmatch(node.type):
        return True
    inner = node
    if node.type == "expression_statement" and node.named_child_count == 1:
        inner = node.named_children[0]
        if inner.type in ("string", "concatenated_string") or is_skipped(inner):
            return True
    return bool(CALL.fullmatch(inner.type) and _LOG.match(text_of(inner)))


def _is_empty(body: Node) -> bool:
    """Return whether a body does nothing that could be noticed."""
    return bool(body.child_count) and all(
        is_skipped(one)
        or _EMPTY.fullmatch(one.type)
        or (one.type in ("expression_statement", "statement_list") and _is_empty(one))
        for one in body.children
    )


def text_of(node: Node) -> str:
    """Return the text of a node."""
    return (node.text or b"").decode("utf-8", "replace")
