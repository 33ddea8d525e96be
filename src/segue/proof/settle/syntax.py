"""Facts about pieces of Python code that tests consist of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from segue.proof.settle.units import CheckStrength

_COMPARED = {
    "assertEqual": "==",
    "assertEquals": "==",
    "assertListEqual": "==",
    "assertDictEqual": "==",
    "assertTupleEqual": "==",
    "assertSetEqual": "==",
    "assertSequenceEqual": "==",
    "assertMultiLineEqual": "==",
    "assertNotEqual": "!=",
    "assertIs": "is",
    "assertIsNot": "is not",
    "assertIn": "in",
    "assertNotIn": "not in",
    "assertGreater": ">",
    "assertGreaterEqual": ">=",
    "assertLess": "<",
    "assertLessEqual": "<=",
}
_STATED = {
    "assertTrue": "{0}",
    "assertFalse": "not {0}",
    "assertIsNone": "{0} is None",
    "assertIsNotNone": "{0} is not None",
    "assertIsInstance": "isinstance({0}, {1})",
    "assertNotIsInstance": "not isinstance({0}, {1})",
}
_ENDS = frozenset(("skip", "skipTest", "xfail", "exit"))


def outer_name(name: str) -> ast.Name:
    """Return a name that is no Python name, so that nothing is looked up behind it."""
    return ast.Name(name if name.startswith(("def#", "…")) else f"import {name}", ast.Load())


def module_files(module: str) -> Iterator[str]:
    """Yield the files that a module may be."""
    path = module.replace(".", "/")
    for folder in ("", "tests/", "test/", "src/"):
        yield f"{folder}{path}.py"
        yield f"{folder}{path}/__init__.py"


def count_bound(body: Sequence[ast.stmt]) -> dict[str, int]:
    """Return how often each name is bound."""
    counts: dict[str, int] = {}
    for node in body:
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store | ast.Del):
                counts[one.id] = counts.get(one.id, 0) + 1
            elif isinstance(one, ast.Global | ast.Nonlocal):
                counts |= dict.fromkeys(one.names, 2)
            elif isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name):
                counts[one.target.id] = 2
    return counts


def set_attributes(owner: ast.ClassDef) -> dict[str, int]:
    """Return how often each attribute of `self` is set."""
    counts: dict[str, int] = {}
    for node in ast.walk(owner):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = f"{ast.unparse(node.value)}.{node.attr}".replace("cls.", "self.")
            counts[name] = counts.get(name, 0) + 1
    return counts


def bound_name(node: ast.stmt, counts: Mapping[str, int]) -> str:
    """Return the name that a statement binds, if nothing else binds it."""
    target: ast.expr | None = None
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        target = node.target
    return target.id if isinstance(target, ast.Name) and counts.get(target.id) == 1 else ""


def split_unpacking(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements; `a, b = 1, 2` as one assignment for each name."""
    for node in body:
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        value = node.value if isinstance(node, ast.Assign) else None
        if not (isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple | ast.List)):
            yield node
            continue
        names = {one.id for one in target.elts if isinstance(one, ast.Name)}
        used = {one.id for one in ast.walk(value) if isinstance(one, ast.Name)}
        starred = any(isinstance(one, ast.Starred) for one in value.elts)
        if len(names) != len(target.elts) or len(names) != len(value.elts) or names & used or starred:
            yield node
            continue
        for name, one in zip(target.elts, value.elts, strict=True):
            yield ast.copy_location(ast.Assign([name], one), node)


def weaken(node: ast.expr) -> ast.expr | None:
    """Return what follows from an assertion that compares with a truth value: that it is true, or is not."""
    if (
        not isinstance(node, ast.Compare)
        or len(node.ops) != 1
        or not isinstance(node.ops[0], ast.Is | ast.Eq)
    ):
        return None
    sides = (node.left, node.comparators[0])
    for side, other in (sides, sides[::-1]):
        if isinstance(other, ast.Constant) and isinstance(other.value, bool):
            return side if other.value else ast.UnaryOp(ast.Not(), side)
    return None


def assertion_of(node: ast.expr) -> ast.expr | None:
    """Return what a call asserts, as an expression; None if it asserts nothing."""
    if isinstance(node, ast.Await):
        return assertion_of(node.value)
    if not isinstance(node, ast.Call):
        return None
    name = last_name(node.func)
    if name in _COMPARED and len(node.args) >= 2:
        operator = _COMPARED[name]
        found = ast.parse(f"a {operator} b", mode="eval").body
        assert isinstance(found, ast.Compare)
        return ast.Compare(node.args[0], found.ops, [node.args[1]])
    if name in _STATED and node.args:
        shown = [f"({ast.unparse(one)})" for one in node.args]
        return ast.parse(_STATED[name].format(*shown, ""), mode="eval").body
    return node if re.match(r"assert[_A-Z]|assert$", name) else None


def last_name(node: ast.expr) -> str:
    """Return the last part of a dotted name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id.rpartition(".")[2] if isinstance(node, ast.Name) else ""


def names_of(node: ast.expr) -> list[str] | None:
    """Return the names that a target or the text of a parametrised test binds; None: not known."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [one.strip() for one in node.value.split(",") if one.strip()]
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.List | ast.Tuple):
        plain = [
            one.value if isinstance(one, ast.Constant) else getattr(one, "id", None) for one in node.elts
        ]
        return [str(one) for one in plain] if all(isinstance(one, str) for one in plain) else None
    return None


def is_fixture(node: ast.FunctionDef) -> bool:
    """Return whether a function is a fixture of pytest."""
    return any(
        last_name(one.func if isinstance(one, ast.Call) else one) == "fixture" for one in node.decorator_list
    )


def has_params(node: ast.FunctionDef) -> bool:
    """Return whether a fixture has cases of its own."""
    calls = [one for one in node.decorator_list if isinstance(one, ast.Call)]
    return any(key.arg == "params" for one in calls for key in one.keywords)


def is_automatic(node: ast.FunctionDef) -> bool:
    """Return whether a fixture is used by every test."""
    calls = [one for one in node.decorator_list if isinstance(one, ast.Call)]
    return any(key.arg == "autouse" for one in calls for key in one.keywords)


def is_docstring(node: ast.stmt) -> bool:
    """Return whether a statement is only a constant."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_main(node: ast.stmt) -> bool:
    """Return whether a statement runs the tests when the file is a program."""
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def is_super(node: ast.stmt) -> bool:
    """Return whether a statement calls the method of the class above."""
    return isinstance(node, ast.Expr) and ast.unparse(node.value).startswith("super().")


def is_end(node: ast.stmt) -> bool:
    """Return whether nothing after a statement runs."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and last_name(node.value.func) in _ENDS
    )


def without_docstrings(node: ast.AST) -> ast.AST:
    """Remove docstrings and the types of results."""
    for one in ast.walk(node):
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            one.body = [line for line in one.body if not is_docstring(line)] or [ast.Pass()]
            if not isinstance(one, ast.ClassDef):
                one.returns = None
    return node


def strength_of(node: ast.expr) -> CheckStrength:
    """Return how much an assertion can tell."""
    if isinstance(node, ast.BoolOp):
        parts = [strength_of(one) for one in node.values]
        return max(parts) if isinstance(node.op, ast.And) else min(parts)
    if isinstance(node, ast.UnaryOp):
        return strength_of(node.operand)
    if not any(isinstance(one, ast.Call | ast.Attribute | ast.Name) for one in ast.walk(node)):
        return CheckStrength.VOID
    if isinstance(node, ast.Tuple | ast.List | ast.Dict | ast.Lambda | ast.JoinedStr):
        return CheckStrength.VOID
    if isinstance(node, ast.Compare):
        return _compared(node)
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        if re.match(r"assert.*(?:with|calls|Equal)", name):
            return CheckStrength.EXACT
        is_part = name in ("isinstance", "issubclass", "hasattr", "callable")
        return CheckStrength.PART if is_part or name.startswith("assert") else CheckStrength.TRUTH
    return CheckStrength.TRUTH


def _compared(node: ast.Compare) -> CheckStrength:
    sides = [ast.unparse(one) for one in (node.left, *node.comparators)]
    if len(set(sides)) < len(sides):
        return CheckStrength.VOID
    exact = all(isinstance(one, ast.Eq | ast.Is) for one in node.ops)
    return CheckStrength.EXACT if exact else CheckStrength.PART


def in_order(node: ast.expr) -> ast.expr:
    """Return a comparison with its sides in one order: `13 == total` says the same as `total == 13`."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
        left, right = sorted((node.left, node.comparators[0]), key=ast.unparse)
        return ast.Compare(left, node.ops, [right])
    return node


def expected_side(node: ast.expr) -> ast.expr | None:
    """Return the side of a comparison that says what is expected."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    left, right = node.left, node.comparators[0]
    calls = [any(isinstance(one, ast.Call) for one in ast.walk(side)) for side in (left, right)]
    return left if calls == [False, True] else right


def without_expected(node: ast.expr, expected: ast.expr | None) -> ast.expr:
    """Return an assertion without the values that it expects."""
    if not isinstance(node, ast.Compare) or expected is None:
        return node
    hole: ast.expr = ast.Name("?", ast.Load())
    if expected is node.left:
        return ast.Compare(node.comparators[0], node.ops, [hole])
    return ast.Compare(node.left, node.ops, [hole])


def values_in(node: ast.expr) -> frozenset[str]:
    """Return the constants in a piece of code, as a text may name them."""
    found = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
    return frozenset(str(one) for one in found)


def names_in(node: ast.expr, text: str) -> frozenset[str]:
    """Return the names in an assertion, and in what surrounds it."""
    found = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            found.update(one.id.removeprefix("import ").split("."))
    found.update(re.findall(r"[A-Za-z_]\w*", text))
    return frozenset(found)
