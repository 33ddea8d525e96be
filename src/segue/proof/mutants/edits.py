"""Mutants and sabotage of changed files: what is done to which part of a syntax tree."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from segue.proof.mutants.grammar import Language, parse
from segue.proof.mutants.source import (
    CALL,
    ChangedFile,
    Function,
    changed_lines,
    is_skipped,
    open_changed,
    text_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node

Files = Mapping[str, tuple[str, str]]
"""Changed files by path: their texts before and after."""
_BINARY = re.compile(
    r"binary.*|comparison_operator|boolean_operator|augmented.*|compound_assignment_expr"
    r"|assignment_expression|assignment_statement"
)
_OPPOSITES = (
    "== !=   === !==   < <=   > >=   + -   * /   && ||   and or   += -=   *= /=   in not_in   is is_not"
)
_SWAPS = {
    one: other for pair in re.findall(r"(\S+) (\S+)", _OPPOSITES) for one, other in (pair, pair[::-1])
} | {"//": "*", "%": "*", "**": "*"}
_NUMBER = re.compile(r"integer|float|number|.*(?:int|integer|float|number|floating_point)_literal")
_DIGITS = re.compile(r"(\d[\d_]*)((?:\.\d+)?[A-Za-z]\w*|\.\d+|)")
_BOOLEANS = {"true": "false", "false": "true", "True": "False", "False": "True"}
_TEXT = re.compile(r"string_content|string_fragment|\w*string_literal_content")
_IF = re.compile(r"if.*|elif_clause|ternary_expression|conditional.*")
_RAISE = re.compile(r"raise_statement|throw_statement")
_ASSIGNMENT = re.compile(r".*assignment.*|compound_assignment_expr|update_expression")
_RETURN = re.compile(r"return_statement|return_expression|yield|yield_expression|yield_statement")
_REMARK = re.compile(r"\s*(?:#(?!!)|//|--|;|$)")
_MOST_MOVED = 200_000
"""Characters of changed files in which moved code is looked for."""


class Mutant(Struct, frozen=True):
    """A changed file that is broken in one way."""

    path: str
    text: bytes
    shown: str
    """The line before and after, as a diff of one line."""
    owner: str = ""
    """The changed function that it is in, as `path:name@line`; empty: it is in none."""
    is_whole: bool = False
    """Whether the function returns something else, or does nothing."""
    is_new: bool = False
    """Whether the function is new."""
    unbuilt: str = ""
    """What a failed build says, as a pattern; empty: nothing is built."""


class Edit(Struct, frozen=True):
    """A part of a text and what takes its place."""

    start: int
    end: int
    text: str


def make_mutants(files: Files, most: int) -> list[Mutant]:
    """Return one mutant of the whole result of each changed function, and at most this many of its lines.

    Which ones depends on the files alone.
    """
    sources = _open(files)
    whole, others = list[Mutant](), list[Mutant]()
    for path, source in sources.items():
        if source is None:
            others += _remove_lines(path, *files[path])
            continue
        made = (_mutant(source, _break_result(source, one), one, is_whole=True) for one in source.functions)
        whole += filter(None, made)
        made = (_mutant(source, [edit], owner) for owner, edit in _edits(source, source.root))
        others += filter(None, made)
    return [*_choose(whole, most), *_choose(others, most)]


def sabotage(files: Files) -> dict[str, bytes]:
    """Return the broken texts of changed files: changed functions raise, changed constants are others.

    Files that have nothing to break, such as those of which only a comment changed, are left out.
    """
    broken = {}
    for path, (before, after) in files.items():
        source = open_changed(path, before, after)
        if source is None:
            changed = _changed_rows(before, after)
            kept = [row for number, row in enumerate(after.split("\n")) if number not in changed]
            if changed:
                broken[path] = "\n".join(kept).encode()
            continue
        edits = list[Edit]()
        at_start = [edit for one in source.functions for edit in _enter(source, one, source.language.fail)]
        for edit in (*at_start, *(edit for owner, edit in _edits(source, source.root) if owner is None)):
            if not any(edit.start <= other.end and other.start <= edit.end for other in edits):
                edits.append(edit)
        if edits:
            broken[path] = _apply(source.text, edits)
    return broken


def _open(files: Files) -> dict[str, ChangedFile | None]:
    """Return the changed files; what a new file has from another changed one is only moved."""

    def old_text(path: str) -> str:
        others = [text for other, (text, _) in files.items() if other[-3:] == path[-3:] and other != path]
        return files[path][0] or ("\n".join(others) if sum(map(len, others)) < _MOST_MOVED else "")

    sources = {path: open_changed(path, old_text(path), after) for path, (_, after) in files.items()}
    if any(source is None or source.lines or source.functions for source in sources.values()):
        return sources
    return {path: open_changed(path, *texts) for path, texts in files.items()}


def _choose(mutants: Iterable[Mutant], most: int) -> list[Mutant]:
    """Return some mutants by lot, spread over functions."""
    ranks: Counter[str] = Counter()
    order = list[tuple[int, int, Mutant]]()
    for mutant in sorted(mutants, key=lambda one: hashlib.sha256(one.shown.encode() + one.text).digest()):
        ranks[mutant.owner] += 1
        order.append((ranks[mutant.owner], len(order), mutant))
    return [mutant for *_, mutant in sorted(order, key=lambda one: one[:2])[:most]]


def _changed_rows(before: str, after: str) -> list[int]:
    rows = after.split("\n")
    return (
        []
        if "\0" in after
        else [at for at in sorted(changed_lines(before, after)[0]) if not _REMARK.match(rows[at])]
    )


def _remove_lines(path: str, before: str, after: str) -> Iterator[Mutant]:
    rows = after.split("\n")
    for at in _changed_rows(before, after):
        text = "\n".join((*rows[:at], *rows[at + 1 :])).encode()
        yield Mutant(path, text, f"{path}:{at + 1}: - {rows[at].strip()} + (nothing)")


def _mutant(
    source: ChangedFile, edits: list[Edit], owner: Function | None, *, is_whole: bool = False
) -> Mutant | None:
    """Return a mutant; None: it is the same text, or no valid one."""
    text = _apply(source.text, edits)
    if text == source.text or (parse(source.language, text).has_error and not source.root.has_error):
        return None
    line = source.text.count(b"\n", 0, min(one.start for one in edits))
    old, new = (_line(part, line) for part in (source.text, text))
    new = "(another value)" if is_whole and len(new) > len(old) + 80 else new or "(nothing)"
    return Mutant(
        source.path,
        text,
        f"{source.path}:{line + 1}: - {old} + {new}",
        f"{source.path}:{owner.label}" if owner is not None else "",
        is_whole,
        owner is not None and owner.is_new,
        source.language.unbuilt,
    )


def _line(text: bytes, number: int) -> str:
    return text.split(b"\n")[number].decode("utf-8", "replace").strip()


def _apply(text: bytes, edits: Iterable[Edit]) -> bytes:
    for edit in sorted(edits, key=lambda one: one.start, reverse=True):
        text = text[: edit.start] + edit.text.encode() + text[edit.end :]
    return text


def _enter(source: ChangedFile, function: Function, statement: str) -> list[Edit]:
    """Return the edit that puts a statement first in the body of a function."""
    body = function.body
    if text_of(body).startswith("{"):
        return [Edit(body.start_byte + 1, body.start_byte + 1, f" {statement} ")]
    if function.node.type == "arrow_function":
        return [Edit(body.start_byte, body.end_byte, f"{{ {statement} }}")]
    first = next((one for one in body.named_children if not is_skipped(one)), body.named_children[0])
    row = source.text.split(b"\n")[first.start_point[0]][: first.start_point[1]].decode("utf-8", "replace")
    return [
        Edit(first.start_byte, first.start_byte, f"{statement}; " if row.strip() else f"{statement}\n{row}")
    ]


def _break_result(source: ChangedFile, function: Function) -> list[Edit]:
    """Return the edits after which a function returns other values, or does nothing if it returns none."""
    types = _result_types(function.node)
    edits = [edit for value in _results(function) for edit in _wrong(source.language, value, types)]
    if edits:
        return edits
    nothing = ", ".join(_fill(source.language.neutral, kind) for kind in types)
    return _enter(source, function, source.language.give.replace("{}", nothing))


def _result_types(function: Node) -> list[str]:
    """Return the declared types of what a function returns."""
    for name in ("result", "return_type", "type"):
        node = function.child_by_field_name(name)
        if node is not None and node.type != "parameter_list":
            return [text_of(node).lstrip("-> :").strip()]
        if node is not None:
            kinds = [(one.child_by_field_name("type") or one, one) for one in node.named_children]
            return [
                text_of(kind) for kind, one in kinds for _ in one.children_by_field_name("name") or (one,)
            ]
    return [""]


def _results(function: Function) -> Iterator[Node]:
    """Yield the expressions that a function returns, but not the object itself."""
    body = function.body
    if function.node.type == "arrow_function" and not text_of(body).startswith("{"):
        yield body
        return
    pending = list(body.children)
    while pending:
        node = pending.pop()
        if _RETURN.fullmatch(node.type) and node.is_named:
            values = [one for one in node.named_children if not is_skipped(one)]
            is_passed_on = re.match(r"yield\s*(?:from|\*)", text_of(node))
            if len(values) == 1 and text_of(values[0]) not in ("self", "this", "cls") and not is_passed_on:
                yield values[0]
        elif node.child_by_field_name("body") is None or not node.child_by_field_name("parameters"):
            pending += node.children
    last = body.named_children[-1] if body.named_child_count else None
    # Rust's functions return their last expression.
    is_result = function.node.type == "function_item" and function.node.child_by_field_name("return_type")
    if is_result and last is not None and not _RETURN.search(last.type) and not text_of(last).endswith(";"):
        yield last


def _wrong(language: Language, value: Node, types: list[str]) -> Iterator[Edit]:
    """Yield the edits that make another value of the same type of what is returned."""
    several = value.named_children if len(types) > 1 else [value]
    for node, kind in zip(several, types, strict=False):
        if text := _fill(language.wrong, kind):
            yield Edit(node.start_byte, node.end_byte, text.replace("{}", text_of(node)))
            return


def _fill(table: Iterable[tuple[str, str]], kind: str) -> str:
    """Return what a table of patterns has for a type."""
    for pattern, text in table:
        if match := re.fullmatch(pattern, kind, re.S):
            return match.expand(text) if match.groups() else text
    return ""


def _edits(source: ChangedFile, node: Node) -> Iterator[tuple[Function | None, Edit]]:
    """Yield what can be done to the changed lines below a node, and in which function."""
    if is_skipped(node) or not source.touches(node):
        return
    if source.is_changed(node.start_point[0]):
        owner = source.find_owner(node)
        for start, end, text in _changes(source, node, is_inside=owner is not None):
            yield owner, Edit(start, end, text)
    if not _RAISE.fullmatch(node.type):  # what an error says is rarely tested
        for child in node.children:
            yield from _edits(source, child)


def _changes(source: ChangedFile, node: Node, *, is_inside: bool) -> Iterator[tuple[int, int, str]]:
    """Yield what can be done to one node: from where to where, and the new text."""
    language, text, start, end = source.language, text_of(node), node.start_byte, node.end_byte
    if not node.is_named:
        swap = _SWAPS.get(text.replace(" ", "_"))
        if swap and node.parent is not None and _BINARY.fullmatch(node.parent.type):
            yield start, end, swap.replace("_", " ")
    elif _RAISE.fullmatch(node.type) or _is_removable(node, is_inside):
        yield start, end, language.empty
    elif _IF.fullmatch(node.type):
        condition = node.child_by_field_name("condition")
        if condition is None and node.type == "conditional_expression":
            condition = node.named_children[1]  # in Python's grammar it has no name
        if condition is not None and not condition.type.startswith("let_"):
            negated = language.negated.replace("{}", text_of(condition))
            negated = f"({negated})" if condition.type == "parenthesized_expression" else negated
            yield condition.start_byte, condition.end_byte, negated
    elif not node.child_count and not source.is_old_value(node):
        yield from ((start, end, other) for other in _other_values(node.type, text))


def _other_values(kind: str, text: str) -> Iterator[str]:
    if _NUMBER.fullmatch(kind) and (match := _DIGITS.fullmatch(text)):
        yield f"{int(match[1].replace('_', '')) + 1}{match[2]}"
    elif text in _BOOLEANS:
        yield _BOOLEANS[text]
    elif _TEXT.fullmatch(kind):
        yield "XX" if text != "XX" else "YY"


def _is_removable(node: Node, is_inside: bool) -> bool:
    """Return whether a statement only calls something, or assigns to more than a variable.

    Without a variable that is used later, everything fails at once.
    """
    if node.type not in ("expression_statement", "assignment_statement"):
        return False
    inner = node.named_children[0] if node.named_child_count == 1 else node
    if inner.type in ("await", "await_expression") and inner.named_child_count:
        inner = inner.named_children[0]
    if CALL.fullmatch(inner.type):
        return True
    left = inner.child_by_field_name("left")
    target = left.named_children[0] if left is not None and left.type == "expression_list" else left
    is_variable = target is not None and target.type == "identifier" and "augmented" not in inner.type
    right = inner.child_by_field_name("right")
    calls = right is not None and CALL.fullmatch(right.type) is not None
    return _ASSIGNMENT.fullmatch(inner.type) is not None and (not is_variable or (calls and not is_inside))
