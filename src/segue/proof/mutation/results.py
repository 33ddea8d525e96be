"""What functions return: the expressions, their types, and other values in their place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from segue.proof.mutation.grammar import Language
from segue.proof.mutation.source import Function, MutatedFile, is_skipped, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

RETURN = re.compile(r"return_statement|return_expression|return|yield|yield_expression|yield_statement")
_OWN = ("self", "this", "cls", "")


class Edit(Struct, frozen=True):
    """A part of a text and what takes its place."""

    start: int
    end: int
    text: str
    shown: str = ""
    """What people read instead, where the text is long."""


def result_types(function: Node) -> list[str]:
    """Return the declared types of what a function returns."""
    for name in ("result", "return_type", "returns", "type"):
        node = function.child_by_field_name(name)
        if node is None:
            continue
        if node.type != "parameter_list":
            return [text_of(node).lstrip("-> :").strip()]
        found = []
        for one in node.named_children:
            kind = one.child_by_field_name("type") or one
            found += [text_of(kind)] * max(1, len(one.children_by_field_name("name")))
        return found
    return [""]


def neutral(language: Language, kind: str) -> str:
    """Return a value that stands for nothing."""
    for pattern, value in language.neutral:
        if match := re.fullmatch(pattern, kind, re.S):
            return match.expand(value)
    return ""


def first_parameter(function: Node) -> str:
    """Return the name of the first argument that a caller gives."""
    parameters = function.child_by_field_name("parameters")
    for one in parameters.named_children if parameters is not None else ():
        name = one.child_by_field_name("name") or one.child_by_field_name("pattern") or one
        text = text_of(name)
        if re.fullmatch(r"\$?\w+", text) and text not in _OWN:
            return text
    return ""


def results(source: MutatedFile, function: Function) -> Iterator[Node]:
    """Yield the expressions that a function returns."""
    body = function.body
    if function.node.type == "arrow_function" and not text_of(body).startswith("{"):
        yield body
        return
    pending = list(body.children)
    while pending:
        node = pending.pop()
        if RETURN.fullmatch(node.type) and node.is_named:
            yield from returned(node)
        elif node.child_by_field_name("body") is None or not node.child_by_field_name("parameters"):
            pending.extend(node.children)
    last = body.named_children[-1] if body.named_child_count else None
    has_value = function.node.child_by_field_name("return_type") or source.language.grammar[0].endswith(
        "ruby"
    )
    if not source.language.has_implicit_results or last is None or not has_value:
        return
    if not RETURN.search(last.type) and not text_of(last).endswith(";"):
        yield last


def returned(node: Node) -> Iterator[Node]:
    """Yield what a return or a yield has; what it only passes on, and the object itself, do not count."""
    values = [one for one in node.named_children if not is_skipped(one)]
    if (
        len(values) == 1
        and text_of(values[0]) not in _OWN
        and not re.match(r"yield\s*(?:from|\*)", text_of(node))
    ):
        yield values[0]


def wrong(language: Language, value: Node, types: list[str]) -> Iterator[Edit]:
    """Yield the edit that makes another value of the same type of what is returned."""
    several = value.named_children if len(types) > 1 else [value]
    if len(several) != len(types):
        return
    for node, kind in zip(several, types, strict=True):
        for pattern, other in language.wrong:
            if match := re.fullmatch(pattern, kind, re.S):
                text = (match.expand(other) if match.groups() else other).replace("{}", text_of(node))
                yield Edit(node.start_byte, node.end_byte, text, "(another value)" if len(text) > 80 else "")
                return
