"""Mutants: small changes of the changed Python lines, of which good tests notice most.

The score is supporting evidence. A mutant may mean the same as the original, so no verdict rests on it.
"""

from __future__ import annotations

import ast
import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from segue.proof.compose import Composed
from segue.proof.execute import Sandbox
from segue.proof.sabotage import changed_lines

_PATIENCE = (10.0, 5.0)
"""A mutant has run too long after this many seconds, and as many times as long as the original took."""


class Mutant(Struct, frozen=True):
    """A changed file with one small change."""

    path: str
    line: int
    operator: str
    text: str


async def count_noticed(
    place: Sandbox, commands: Sequence[Sequence[str]], head: Composed, mutants: Sequence[Mutant]
) -> tuple[int, int] | None:
    """Return how many mutants were tried and noticed; None if no command passes without one."""
    timed = []
    for argv in commands:
        began = time.monotonic()
        if (await place.try_out(argv, head)).exit_code == 0:
            timed.append((argv, max(_PATIENCE[0], _PATIENCE[1] * (time.monotonic() - began))))
    if not timed:
        return None

    async def is_noticed(mutant: Mutant) -> bool:
        tree = replace(head, texts={**head.texts, mutant.path: mutant.text.encode()})
        for argv, seconds in timed:
            try:
                async with asyncio.timeout(seconds):
                    ended = await place.try_out(argv, tree)
            except TimeoutError:
                return True
            if ended.exit_code != 0:
                return True
        return False

    noticed = [await is_noticed(mutant) for mutant in mutants]
    return len(noticed), sum(noticed)


def make_mutants(files: Mapping[str, tuple[str, str]], most: int) -> list[Mutant]:
    """Return at most this many mutants, spread over all places, from what files were and what they are."""
    sites = [(path, after, site) for path, (before, after) in files.items() for site in _sites(before, after)]
    step = max(1.0, len(sites) / most) if most else 1.0
    chosen = [sites[int(number * step)] for number in range(min(most, len(sites)))]
    made = (_mutate(path, text, site) for path, text, site in chosen)
    return [mutant for mutant in made if mutant is not None]


class _Site(Struct, frozen=True):
    """A node, by its number in the walk of its module, and what can be done to it."""

    number: int
    line: int
    operator: str


def _sites(before: str, after: str) -> Iterator[_Site]:
    tree = _parse(after)
    if tree is None:
        return
    lines = set(changed_lines(before, after))
    left_out = _left_out(tree)
    for number, node in enumerate(ast.walk(tree)):
        line = getattr(node, "lineno", 0)
        if line in lines and id(node) not in left_out:
            for operator, change in OPERATORS.items():
                if change(node, False):
                    yield _Site(number, line, operator)


def _mutate(path: str, text: str, site: _Site) -> Mutant | None:
    tree = _parse(text)
    if tree is None:
        return None
    node = next(node for number, node in enumerate(ast.walk(tree)) if number == site.number)
    OPERATORS[site.operator](node, True)
    return Mutant(path, site.line, site.operator, ast.unparse(ast.fix_missing_locations(tree)))


def _parse(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _left_out(tree: ast.Module) -> set[int]:
    """Return the nodes whose change nobody can notice: docstrings, annotations, the parts of f-strings."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            found.update(id(part) for part in ast.walk(node))
        for name in ("annotation", "returns"):
            inner = getattr(node, name, None)
            if isinstance(inner, ast.AST):
                found.update(id(part) for part in ast.walk(inner))
    return found


Change = Callable[[ast.AST, bool], bool]
"""Tells whether a node can be changed, and does it if the second argument says so."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}


def _comparison(node: ast.AST, do: bool) -> bool:
    if not isinstance(node, ast.Compare):
        return False
    if do:
        node.ops[0] = COMPARISONS[type(node.ops[0])]()
    return True


def _arithmetic(node: ast.AST, do: bool) -> bool:
    if not isinstance(node, ast.BinOp | ast.AugAssign) or type(node.op) not in _ARITHMETIC:
        return False
    if do:
        node.op = _ARITHMETIC[type(node.op)]()
    return True


def _boolean(node: ast.AST, do: bool) -> bool:
    if not isinstance(node, ast.BoolOp):
        return False
    if do:
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    return True


def _constant(node: ast.AST, do: bool) -> bool:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, bool | int | float | str):
        return False
    if do:
        value = node.value
        if isinstance(value, bool):
            node.value = not value
        elif isinstance(value, str):
            node.value = "" if value else "mutant"
        else:
            node.value = value + 1
    return True


def _return(node: ast.AST, do: bool) -> bool:
    if not isinstance(node, ast.Return) or node.value is None:
        return False
    if isinstance(node.value, ast.Constant) and node.value.value is None:
        return False
    if do:
        node.value = ast.Constant(None)
    return True


def _condition(node: ast.AST, do: bool) -> bool:
    if not isinstance(node, ast.If | ast.While | ast.IfExp):
        return False
    if do:
        node.test = ast.UnaryOp(ast.Not(), node.test)
    return True


OPERATORS: dict[str, Change] = {
    "comparison": _comparison,
    "arithmetic": _arithmetic,
    "boolean": _boolean,
    "constant": _constant,
    "return": _return,
    "condition": _condition,
}
"""What is done to a node, by name."""
