"""A changed file as a syntax tree: which of its lines changed, and the functions that these belong to."""

from __future__ import annotations

import re
from bisect import bisect_left
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from msgspec import Struct

from segue.proof.mutation.grammar import Language, find_language, parse

if TYPE_CHECKING:
    from tree_sitter import Node

FUNCTION = re.compile(
    r"function_(?:definition|declaration|expression|item)|generator_function(?:_declaration)?|arrow_function"
    r"|(?:method|constructor)_(?:definition|declaration)|func_literal|method|singleton_method"
    r"|local_function_statement"
)
_SKIPPED = re.compile(
    r".*comment|import.*|future_import.*|use_declaration|package_.*|preproc_include|using_directive"
    r"|attribute_item|namespace_use_.*|type|type_annotation|type_arguments|type_parameters|string_start|string_end"
)
CALL = re.compile(
    r"call|call_expression|invocation_expression|method_invocation|function_call_expression"
    r"|(?:member|scoped)_call_expression|macro_invocation|command"
)
_ACTS = re.compile(rf"{FUNCTION.pattern}|{CALL.pattern}|import.*|use_declaration|preproc_.*|using_directive")
"""What a file that only gives names to values does not have."""
_LOG = re.compile(r"(?:[\w.>:$-]*[.>:])?_?(?:log|logger|logging|slog|tracing)(?:[.:!(]|->)", re.I)
_HOLLOW = re.compile(r"pass_statement|ellipsis|\{|\}|;|.*comment")


class Function(Struct, frozen=True):
    """A function with changed lines."""

    name: str
    node: Node
    body: Node
    changed: int
    """How many of its lines of code changed; those of functions within it are not its own."""
    lines: int
    """How many lines of code it has."""

    @property
    def is_new(self) -> bool:
        """Whether most of it changed, so that the task answers for its whole result."""
        return self.changed * 2 > self.lines

    def contains(self, node: Node) -> bool:
        """Return whether a node is part of it."""
        return self.node.start_byte <= node.start_byte and node.end_byte <= self.node.end_byte


class MutatedFile:
    """A changed file."""

    def __init__(self, path: str, language: Language, root: Node, before: str, after: str) -> None:
        self.path, self.language, self.root, self.text = path, language, root, after.encode()
        end = self.text.find(language.until.encode()) if language.until else -1
        self._end = end if end >= 0 else len(self.text)
        self._rows = self.text.split(b"\n")
        nodes: list[Node] = []
        owners: dict[int, int] = {}
        self._walk(root, nodes, owners, -1)
        self._replaced, removed = changed_lines(before, after)
        self.lines = sorted(self._replaced.keys() & owners.keys())
        found = self._changed(nodes, owners, removed)
        self.functions = [one for one in found if not is_hollow(one.body)]
        self.hollow = [one for one in found if is_hollow(one.body)]
        """Changed functions that do nothing that could be noticed."""

    def _walk(self, node: Node, functions: list[Node], owners: dict[int, int], owner: int) -> None:
        """Note the functions below a node, and for each line of code the one that it begins in."""
        if is_skipped(node) or node.start_byte >= self._end:
            # Nobody notices what is logged, but a function that logs something else was changed.
            for line in range(node.start_point[0], node.end_point[0] + 1) if _logs(node) else ():
                owners.setdefault(line, owner)
            return
        if FUNCTION.fullmatch(node.type) and node.child_by_field_name("body") is not None:
            functions.append(node)
            # The line that a function begins on is its own, unless it is within another one.
            begins = _with_decorators(node).start_point[0]
            for line in range(begins, node.start_point[0] + 1):
                if owners.get(line, -1) == owner == -1 or begins < node.start_point[0]:
                    owners[line] = len(functions) - 1
            owner = len(functions) - 1
        if not node.child_count:
            for line in range(node.start_point[0], node.end_point[0] + 1):
                owners.setdefault(line, owner)
        for child in node.children:
            self._walk(child, functions, owners, owner)

    def _changed(self, nodes: list[Node], owners: dict[int, int], removed: set[int]) -> list[Function]:
        """Return the functions with changed lines of their own, and those that were only shortened."""
        own: dict[int, list[int]] = {}
        for line, owner in owners.items():
            own.setdefault(owner, []).append(line)
        found, changed_set = [], set(self.lines)
        for number, node in enumerate(nodes):
            body, lines = node.child_by_field_name("body"), own.get(number, [])
            changed = sum(line in changed_set for line in lines)
            shortened = any(node.start_point[0] < line <= node.end_point[0] for line in removed)
            if body is None or not (changed or shortened):
                continue
            name = node.child_by_field_name("name")
            found.append(Function(text_of(name) if name else "", node, body, changed, len(lines)))
        return found

    def find_owner(self, node: Node) -> Function | None:
        """Return the changed function that a node is part of."""
        around = [one for one in self.functions if one.contains(node)]
        return min(around, key=lambda one: one.node.end_byte - one.node.start_byte, default=None)

    def touches(self, node: Node) -> bool:
        """Return whether a changed line is among those of a node."""
        at = bisect_left(self.lines, node.start_point[0])
        return at < len(self.lines) and self.lines[at] <= node.end_point[0]

    def is_changed(self, line: int) -> bool:
        """Return whether a line of code changed."""
        at = bisect_left(self.lines, line)
        return at < len(self.lines) and self.lines[at] == line

    def was_there(self, start: int, end: int) -> bool:
        """Return whether a value stood in the lines that its own line replaces: it is none of the change."""
        quote = self.text[start - 1 : start]
        if quote in (b'"', b"'", b"`"):
            start, end = start - 1, end + 1
        value = re.escape(self.text[start:end].decode("utf-8", "replace"))
        old = self._replaced.get(self.text.count(b"\n", 0, start), "")
        return re.search(rf"(?<![\w.]){value}(?![\w.])", old) is not None

    def show(self, line: int) -> str:
        """Return a line without its indentation."""
        return self._rows[line].decode("utf-8", "replace").strip() if line < len(self._rows) else ""

    def indent(self, node: Node) -> str:
        """Return what stands before a node on its line."""
        return self._rows[node.start_point[0]][: node.start_point[1]].decode("utf-8", "replace")


def open_source(path: str, before: str, after: str) -> MutatedFile | None:
    """Return a changed file; None: its language is not known, or its grammar is missing."""
    language = find_language(path, after)
    root = parse(language, after.encode()) if language is not None else None
    return (
        MutatedFile(path, language, root, before, after)
        if language is not None and root is not None
        else None
    )


def has_only_values(path: str, text: str) -> bool:
    """Return whether a program only gives names to values; False if nothing here can read its language."""
    language = find_language(path, text)
    root = parse(language, text.encode()) if language is not None else None
    if root is None or root.has_error:
        return False
    pending, found = list(root.children), False
    while pending:
        node = pending.pop()
        if node.is_named and _ACTS.fullmatch(node.type):
            return False
        found = found or node.type == "="
        pending += node.children
    return found


def changed_lines(before: str, after: str) -> tuple[dict[int, str], set[int]]:
    """Return the changed lines, from 0, with what they replace, and the lines that follow removed ones."""
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
    """Return whether nobody could notice a change: of comments, imports, types, docstrings, logging."""
    if not node.is_named:
        return False
    if _SKIPPED.fullmatch(node.type):
        return True
    if node.type == "expression_statement" and node.named_child_count == 1:
        inner = node.named_children[0]
        return inner.type in ("string", "concatenated_string") or is_skipped(inner)
    return _logs(node)


def _logs(node: Node) -> bool:
    inner = node.named_children[0] if node.type == "expression_statement" and node.named_children else node
    return bool(CALL.fullmatch(inner.type) and _LOG.match(text_of(inner)))


def is_hollow(node: Node) -> bool:
    """Return whether a body does nothing that could be noticed."""
    return all(
        is_skipped(one) or _HOLLOW.fullmatch(one.type) or (_is_wrapper(one) and is_hollow(one))
        for one in node.children
    ) and bool(node.child_count)


def _is_wrapper(node: Node) -> bool:
    return node.type in ("expression_statement", "statement_list")


def _with_decorators(node: Node) -> Node:
    parent = node.parent
    return parent if parent is not None and parent.type == "decorated_definition" else node


def text_of(node: Node) -> str:
    """Return the text of a node."""
    return (node.text or b"").decode("utf-8", "replace")
