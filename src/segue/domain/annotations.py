"""Tell annotations, and what only these use, from what a Python program does."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator

_PLAIN = ("staticmethod", "classmethod", "property")
"""Decorators that read no annotations."""
_FOR_CHECKERS = ("TYPE_CHECKING", "typing.TYPE_CHECKING", "t.TYPE_CHECKING")
_MAKES_TYPES = ("TypeVar", "ParamSpec", "TypeVarTuple", "NewType")


def differ_in_types(path: str, before: str, after: str) -> bool:
    """Return whether two versions of a program differ in annotations, and in what only these use.

    What decorators and data classes may read is none of them.
    """
    if not path.endswith(".py"):
        return False
    try:
        old, new = list(_statements(before)), list(_statements(after))
        read = [one for one in ast.walk(ast.parse(after)) if isinstance(one, ast.Name)]
    except (SyntaxError, ValueError, RecursionError):
        return False
    named = {one.id for one in read if isinstance(one.ctx, ast.Load)}
    known = set(map(ast.dump, old))
    modules = {name for one in old for name in _modules(one)}
    more = [one for one in new if ast.dump(one) not in known]
    kept = [one for one in new if one not in more]
    used = {one.id for statement in kept for one in ast.walk(statement) if isinstance(one, ast.Name)}
    return list(map(ast.dump, kept)) == list(map(ast.dump, old)) and all(
        (names := _binds(one))
        and used.isdisjoint(names)
        and (_is_import(one, modules) if _modules(one) else named.issuperset(names) or _is_for_checkers(one))
        for one in more
    )


def _statements(text: str) -> Iterator[ast.stmt]:
    """Yield the statements of a program without annotations; imports have one name each."""
    for one in _Untyped().visit(ast.parse(text)).body:
        if isinstance(one, ast.ImportFrom):
            yield from (ast.ImportFrom(one.module, [name], one.level) for name in one.names)
        else:
            yield one


class _Untyped(ast.NodeTransformer):
    """Takes annotations away."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._strip(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._strip(node)

    def _strip(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        self.generic_visit(node)
        if all(isinstance(one, ast.Name) and one.id in _PLAIN for one in node.decorator_list):
            node.returns = None
            for one in ast.walk(node.args):
                if isinstance(one, ast.arg):
                    one.annotation = None
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        # Data classes read the annotations of their fields.
        node.body = [one if isinstance(one, ast.AnnAssign) else self.visit(one) for one in node.body]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        return ast.Assign([node.target], node.value) if node.value is not None else None


def _modules(statement: ast.stmt) -> list[str]:
    """Return the modules that an import loads; none for anything else."""
    if isinstance(statement, ast.ImportFrom):
        return [f"{'.' * statement.level}{statement.module or ''}"]
    return [one.name for one in statement.names] if isinstance(statement, ast.Import) else []


def _is_import(statement: ast.stmt, known: Collection[str]) -> bool:
    """Return whether an import does nothing: of what is loaded anyway, or of the standard library."""
    return all(
        name in known or name.partition(".")[0] in sys.stdlib_module_names for name in _modules(statement)
    )


def _is_for_checkers(statement: ast.stmt) -> bool:
    """Return whether a statement is `if TYPE_CHECKING:`."""
    return isinstance(statement, ast.If) and ast.unparse(statement.test) in _FOR_CHECKERS


def _binds(statement: ast.stmt) -> set[str]:
    """Return the names that an import, or an assignment of a type, binds; none for anything else."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {one.asname or one.name.partition(".")[0] for one in statement.names}
    if isinstance(statement, ast.Assign) and not any(map(_acts, ast.walk(statement.value))):
        return {one.id for one in statement.targets if isinstance(one, ast.Name)}
    if isinstance(statement, ast.If) and _is_for_checkers(statement) and not statement.orelse:
        inner = [_binds(one) for one in statement.body]
        return set[str]().union(*inner) if all(inner) else set()
    return set()


def _acts(node: ast.AST) -> bool:
    """Return whether an expression may do something: it calls what makes no type."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] not in _MAKES_TYPES
