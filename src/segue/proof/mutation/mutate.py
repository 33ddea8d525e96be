"""Make mutants of changed files: what is done to which part of a syntax tree."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from segue.proof.mutation.grammar import Language, parse
from segue.proof.mutation.results import (
    RETURN,
    Edit,
    first_parameter,
    neutral,
    result_types,
    results,
    returned,
    wrong,
)
from segue.proof.mutation.source import CALL, Function, MutatedFile, is_skipped, open_source, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

Files = Mapping[str, tuple[str, str]]
"""What files were and what they are, by path."""
_BINARY = re.compile(
    r"binary.*|comparison_operator|boolean_operator|augmented.*|compound_assignment_expr|list"
    r"|operator_assignment|assignment_expression|assignment_statement|test_operator"
)
_OPPOSITES = """
    == !=   === !==   < <=   > >=   + -   * /   && ||   and or   += -=   *= /=   in not_in   is is_not
    -eq -ne   -lt -le   -gt -ge   -z -n
"""
_SWAPS = {
    one: other for pair in re.findall(r"(\S+) (\S+)", _OPPOSITES) for one, other in (pair, pair[::-1])
} | {"//": "*", "%": "*", "**": "*"}
_NUMBER = re.compile(r"integer|float|number|.*(?:int|integer|float|number|real|floating_point)_literal")
_DIGITS = re.compile(r"(\d[\d_]*)((?:\.\d+)?[A-Za-z]\w*|\.\d+|)")
_BOOLEANS = {"true": "false", "false": "true", "True": "False", "False": "True"}
_PIECE = re.compile(r"string_content|string_fragment|\w*string_literal_content")
_STRING = re.compile(r"string|\w*string_literal|encapsed_string|template_string")
_IF = re.compile(r"if.*|elif_clause|elsif|unless.*|ternary_expression|conditional.*")
_BLOCK = re.compile(r"block|statement_block|compound_statement|then")
_BRANCH = re.compile(r"if.*|el(?:se|if|sif).*|except_clause|catch_clause|.*case.*|rescue")
_RAISE = re.compile(r"raise_statement|throw_statement")
_ASSIGNMENT = re.compile(r".*assignment.*|compound_assignment_expr|update_expression")


_MOST_MOVED = 200_000
"""Characters of changed files in which moved code is looked for."""


class Mutant(Struct, frozen=True):
    """A changed file that is broken in one way."""

    path: str
    line: int
    operator: str
    text: bytes
    shown: str
    """The line before and after, as a diff of one line."""
    owner: str = ""
    """The changed function that it is in."""
    unbuilt: str = ""
    """What a failed build says, as a pattern; empty: nothing is built."""


class Suspect(Struct, frozen=True):
    """A changed function, and the mutants of its whole result."""

    label: str
    is_new: bool
    whole: tuple[Mutant, ...]
    leave: Mutant | None
    """It ends the process where the function begins: shows whether a test reaches it."""


class Mutants(Struct, frozen=True):
    """All mutants of a change."""

    suspects: tuple[Suspect, ...]
    others: tuple[Mutant, ...]
    hollow: tuple[Suspect, ...]
    """What there is where every changed function does nothing."""
    unknown: tuple[str, ...]
    """Changed files without a grammar."""


def make_mutants(files: Files, seed: str, most: int) -> Mutants:
    """Return the mutants of whole results, and at most this many others, by lot."""
    sources = _open(files, moved=True)
    if not any(source.lines or source.functions for source in sources.values() if source is not None):
        sources = _open(files, moved=False)  # nothing but moved: then that is what the task did
    unknown = [path for path, source in sources.items() if source is None]
    functions: list[tuple[MutatedFile, Function]] = []
    hollow: list[Suspect] = []
    sites: list[_Place] = []
    for source in filter(None, sources.values()):
        functions += [(source, function) for function in source.functions]
        hollow += [_suspect(source, function) for function in source.hollow[:most]]
        sites += [(source, *site) for site in _new_sites(source)]
    made = (
        _mutant(source, operator, edits, owner) for source, owner, operator, edits in _spread(sites, seed)
    )
    others = islice((mutant for mutant in made if mutant is not None), most)
    functions.sort(key=lambda one: _lot(seed, one[0].path, one[1].node.start_byte))
    suspects = [_suspect(source, function) for source, function in functions[:most]]
    return Mutants(tuple(suspects), tuple(others), () if suspects else tuple(hollow), tuple(unknown))


def _open(files: Files, *, moved: bool) -> dict[str, MutatedFile | None]:
    """Return the changed files; `moved`: what a new file has from another one that changed is not new."""
    found = {}
    for path, (before, after) in files.items():
        ending = path[path.rfind(".") :]
        others = [text for other, (text, _) in files.items() if other != path and other.endswith(ending)]
        from_others = "\n".join(others) if moved and sum(map(len, others)) < _MOST_MOVED else ""
        found[path] = open_source(path, before or from_others, after)
    return found


def _lot(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


def sabotage(files: Files) -> dict[str, bytes]:
    """Return the broken texts of changed files: changed functions raise, changed constants are others.

    Files that have nothing to break, such as those of which only a comment changed, are left out.
    """
    return _rewrite(files, _sabotage)


def _sabotage(source: MutatedFile) -> list[list[Edit]]:
    inside = [_enter(source, one, source.language.fail) for one in source.functions]
    sites = [site for site in _sites(source, source.root) if not site[0]]
    if source.language.script and (sites or not any(inside)) and source.lines:
        return [_fail_in_script(source)]
    return [*inside, *(edits for _, _, edits in sorted(sites, key=lambda one: one[1] == "statement"))]


def misfit(files: Files) -> dict[str, bytes]:
    """Return the texts of changed files in whose changed functions types do not fit together."""
    return _rewrite(
        files,
        lambda source: [
            _enter(source, one, source.language.misfit) for one in source.functions if source.language.misfit
        ],
    )


def sabotage_old(files: Files) -> dict[str, bytes]:
    """Return the broken texts of changed files in which only functions raise that were there before."""
    return _rewrite(
        files,
        lambda source: [
            _enter(source, one, source.language.fail) for one in source.functions if not one.is_new
        ],
    )


def falsify(files: Files) -> dict[str, bytes]:
    """Return the texts of changed files whose changed functions return other values of the same type."""
    return _rewrite(
        files,
        lambda source: [
            list(wrong(source.language, value, result_types(function.node)))
            for function in source.functions
            for value in results(source, function)
        ],
    )


def hollow_out(files: Files) -> dict[str, bytes]:
    """Return the texts of changed files whose changed functions do nothing and return nothing."""

    def leave(source: MutatedFile, function: Function) -> list[Edit]:
        nothing = ", ".join(neutral(source.language, one) for one in result_types(function.node))
        return _enter(source, function, source.language.give.replace("{}", nothing))

    return _rewrite(files, lambda source: [leave(source, one) for one in source.functions])


def respell(files: Files) -> dict[str, bytes]:
    """Return the texts of changed files whose changed functions do the same, in other words."""

    def say(source: MutatedFile, function: Function) -> list[Edit]:
        is_value = function.node.type == "arrow_function" and not text_of(function.body).startswith("{")
        return [] if is_value else _enter(source, function, source.language.idle)

    return _rewrite(
        files, lambda source: [say(source, one) for one in source.functions if source.language.idle]
    )


def _rewrite(files: Files, find: Callable[[MutatedFile], Iterable[list[Edit]]]) -> dict[str, bytes]:
    """Return the texts of changed files with what is found in them; of what overlaps, the first counts."""
    found = {}
    for path, (before, after) in files.items():
        source = open_source(path, before, after)
        edits: list[Edit] = []
        for more in find(source) if source is not None else ():
            if not any(_overlap(one, other) for one in more for other in edits):
                edits += more
        if source is not None and edits:
            found[path] = _apply(source.text, edits)
    return found


def _fail_in_script(source: MutatedFile) -> list[Edit]:
    """Return edits that end a script where its changed lines begin, where it stays a script with them."""
    blocks = [line for line in source.lines if not source.is_changed(line - 1)]
    found: list[Edit] = []
    for line in blocks:
        starts = [sum(len(row) + 1 for row in source.text.split(b"\n")[:line])]
        pending = [source.root]
        while pending:
            node = pending.pop()
            if node.start_point[0] == line and node.is_named:
                starts.append(node.start_byte)
            pending += [one for one in node.children if one.start_point[0] <= line <= one.end_point[0]]
        edits = [Edit(start, start, f"{source.language.fail}\n") for start in dict.fromkeys(sorted(starts))]
        found += [edit for edit in edits if _is_valid(source, edit)][:1]
    return found


def _is_valid(source: MutatedFile, edit: Edit) -> bool:
    root = parse(source.language, _apply(source.text, [edit]))
    return root is not None and (not root.has_error or source.root.has_error)


def _overlap(one: Edit, other: Edit) -> bool:
    return one.start <= other.end and other.start <= one.end


_Place = tuple[MutatedFile, str, str, list[Edit]]
"""A file, the function in it, what is done, and how."""


def _spread(places: list[_Place], seed: str) -> Iterator[_Place]:
    """Yield what can be done to each function in turn, in an order that depends on the seed alone."""
    groups: dict[tuple[str, str], list[_Place]] = {}
    for place in sorted(places, key=lambda one: _lot(seed, one[0].path, *one[2:])):
        groups.setdefault((place[0].path, place[1]), []).append(place)
    while groups:
        for key in list(groups):
            yield groups[key].pop()
            if not groups[key]:
                del groups[key]


def _mutant(source: MutatedFile, operator: str, edits: Iterable[Edit], owner: str = "") -> Mutant | None:
    """Return a mutant; None: it is the same text, or no valid one."""
    edits = sorted(edits, key=lambda one: one.start)
    text = _apply(source.text, edits)
    root = parse(source.language, text)
    if text == source.text or root is None or (root.has_error and not source.root.has_error):
        return None
    line = source.text.count(b"\n", 0, edits[0].start)
    readable = _apply(source.text, [Edit(one.start, one.end, one.shown or one.text) for one in edits])
    new = readable.split(b"\n")[line].decode("utf-8", "replace").strip()
    shown = f"{source.path}:{line + 1}: - {source.show(line)} + {new or '(nothing)'}"
    return Mutant(source.path, line + 1, operator, text, shown, owner, source.language.unbuilt)


def _apply(text: bytes, edits: Iterable[Edit]) -> bytes:
    for edit in sorted(edits, key=lambda one: one.start, reverse=True):
        text = text[: edit.start] + edit.text.encode() + text[edit.end :]
    return text


def _label(function: Function) -> str:
    return f"{function.name}@{function.node.start_point[0] + 1}"


def _suspect(source: MutatedFile, function: Function) -> Suspect:
    """Return a function with the mutants of its whole result."""
    language, label = source.language, _label(function)
    types = result_types(function.node)
    gives = [language.give.replace("{}", ", ".join(neutral(language, one) for one in types))]
    if language.neutral[0][0] == ".*" and (argument := first_parameter(function.node)):
        gives.append(language.give.replace("{}", argument))
    gives = [language.prints, *gives] if language.prints else gives
    whole = [_mutant(source, "result", _enter(source, function, give), label) for give in gives]
    changed = [edit for value in results(source, function) for edit in wrong(language, value, types)]
    if changed:
        whole.insert(0, _mutant(source, "result", changed, label))
    leave = _mutant(source, "leave", _enter(source, function, language.leave), label)
    return Suspect(label, function.is_new, tuple(one for one in whole if one is not None), leave)


def _enter(source: MutatedFile, function: Function, statement: str) -> list[Edit]:
    """Return the edit that puts a statement first in the body of a function."""
    body = function.body
    if text_of(body).startswith("{"):
        return [Edit(body.start_byte + 1, body.start_byte + 1, f" {statement} ", f" {statement} …")]
    if function.node.type == "arrow_function":
        return [Edit(body.start_byte, body.end_byte, f"{{ {statement} }}")]
    if body.type not in ("block", "body_statement"):
        return []  # an expression as a body, in a language where that cannot be a statement
    first = next((one for one in body.named_children if not is_skipped(one)), body.named_children[0])
    indent = source.indent(first)
    between = f"\n{indent}" if not indent.strip() else "; "
    return [Edit(first.start_byte, first.start_byte, f"{statement}{between}")]


Site = tuple[str, str, list[Edit]]
"""The function that it is in, what is done, and how."""
_VALUES = ("constant", "string")


def _new_sites(source: MutatedFile) -> list[Site]:
    """Return what can be done to the changed lines, but for values that they had before, unless all are."""
    sites = list(_sites(source, source.root))
    new = [
        (owner, operator, edits)
        for owner, operator, edits in sites
        if operator not in _VALUES or not all(source.was_there(one.start, one.end) for one in edits)
    ]
    return new or sites


def _sites(source: MutatedFile, node: Node) -> Iterator[Site]:
    """Yield what can be done to the changed lines below a node."""
    if is_skipped(node) or not source.touches(node):
        return
    if source.is_changed(node.start_point[0]):
        function = source.find_owner(node)
        owner = _label(function) if function is not None else ""
        for operator, start, end, text in _changes(source, node, is_inside=function is not None):
            yield owner, operator, [Edit(start, end, text)]
        if RETURN.fullmatch(node.type) and node.is_named and function is not None and not function.is_new:
            for value in returned(node):
                if edits := list(wrong(source.language, value, result_types(function.node))):
                    yield owner, "result", edits
    for child in node.children:
        yield from _sites(source, child)


Change = tuple[str, int, int, str]


def _changes(source: MutatedFile, node: Node, *, is_inside: bool) -> Iterator[Change]:
    """Yield what can be done to one node: the operator, from where to where, and the new text."""
    language, text, parent = source.language, text_of(node), node.parent
    start, end = node.start_byte, node.end_byte
    kind = parent.type if parent is not None else ""
    if (not node.is_named or node.type == "test_operator") and _BINARY.fullmatch(kind):
        if swap := _SWAPS.get(text.replace(" ", "_")):
            yield "operator", start, end, swap.replace("_", " ")
        return
    if not node.is_named:
        return
    if _NUMBER.fullmatch(node.type) and (match := _DIGITS.fullmatch(text)):
        yield "constant", start, end, _other_number(match[1], match[2], is_inside)
    elif text in _BOOLEANS and not node.child_count:
        yield "constant", start, end, _BOOLEANS[text]
    elif _PIECE.fullmatch(node.type):
        yield "string", start, end, "XX" if text != "XX" else "YY"
    elif _STRING.fullmatch(node.type) and text in ('""', "''"):
        yield "string", start, end, f"{text[0]}XX{text[0]}"
    elif _RAISE.fullmatch(node.type):
        yield "exception", start, end, language.empty
    elif _BLOCK.fullmatch(node.type) and _BRANCH.fullmatch(kind) and _has_several(node):
        yield "branch", start, end, f"{{ {language.empty} }}" if text.startswith("{") else language.empty
    yield from _condition(language, node)
    yield from _statement(language, node, is_inside)


def _other_number(digits: str, rest: str, is_inside: bool) -> str:
    """Return another number: the next within functions; for a constant, one that is far away."""
    value = int(digits.replace("_", ""))
    if is_inside:
        return f"{value + 1}{rest}"
    return f"{0 if value else 1009}{rest if not value else re.sub(r'[0-9]', '0', rest)}"


def _has_several(block: Node) -> bool:
    """Return whether a branch has more than one statement: what is done to a single one is enough."""
    inner = [one for one in block.named_children if not is_skipped(one)]
    if len(inner) == 1 and inner[0].type == "statement_list":
        inner = inner[0].named_children
    return len(inner) > 1


def _condition(language: Language, node: Node) -> Iterator[Change]:
    if not _IF.fullmatch(node.type):
        return
    condition = node.child_by_field_name("condition")
    if condition is None and node.type == "conditional_expression" and node.named_child_count == 3:
        condition = node.named_children[1]  # in Python's grammar it has no name
    if condition is None and node.type == "if_clause" and node.named_child_count:
        condition = node.named_children[0]
    if condition is not None and not condition.type.startswith("let_"):
        text = language.negated.replace("{}", text_of(condition))
        text = f"({text})" if condition.type == "parenthesized_expression" else text
        yield "condition", condition.start_byte, condition.end_byte, text


def _statement(language: Language, node: Node, is_inside: bool) -> Iterator[Change]:
    """Yield the removal of a call or an assignment, and a method's call replaced by its object."""
    start, end = node.start_byte, node.end_byte
    kind = node.parent.type if node.parent is not None else ""
    inner = node.named_children[0] if node.named_child_count == 1 else node
    if inner.type in ("await", "await_expression") and inner.named_child_count:
        inner = inner.named_children[0]
    alone = node.type in ("expression_statement", "command", "assignment_statement")
    alone = alone or (node.type == "call" and kind in ("body_statement", "then", "else"))
    if alone and (CALL.fullmatch(node.type) or CALL.fullmatch(inner.type) or _is_kept(inner, is_inside)):
        yield "statement", start, end, language.empty
        return
    called = node.child_by_field_name("function") or node
    for name in ("object", "value", "operand", "receiver"):
        owner = called.child_by_field_name(name)
        if CALL.fullmatch(node.type) and owner is not None and text_of(node).endswith("()"):
            if kind != "expression_statement":
                yield "call", start, end, text_of(owner)
            return


def _is_kept(node: Node, is_inside: bool) -> bool:
    """Return whether an assignment changes more than a variable: without one, everything fails at once."""
    if not _ASSIGNMENT.fullmatch(node.type) or node.start_point[0] != node.end_point[0]:
        return False
    left = node.child_by_field_name("left")
    target = left.named_children[0] if left is not None and left.type == "expression_list" else left
    is_name = target is not None and target.type in ("identifier", "variable_name")
    right = node.child_by_field_name("right")
    if not is_name or right is None or "augmented" in node.type:
        return True
    return not is_inside and bool(CALL.fullmatch(right.type) or right.type == "identifier")
