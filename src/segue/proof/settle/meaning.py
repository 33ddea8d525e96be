"""What the names in a file of Python tests stand for: imports, constants, fixtures, helpers."""

from __future__ import annotations

import ast
import copy
import hashlib
import posixpath
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product

from segue.proof.settle.syntax import (
    bound_name,
    count_bound,
    has_params,
    is_automatic,
    is_docstring,
    is_fixture,
    is_main,
    is_super,
    last_name,
    module_files,
    names_of,
    outer_name,
    set_attributes,
    split_unpacking,
    without_docstrings,
)
from segue.proof.settle.units import Renames

MOST_CASES = 400
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")
Scope = Mapping[str, ast.expr]


@cache
def _inherited() -> frozenset[str]:
    """Return what every test of unittest has: who sets one of these changes what tests assert."""
    from unittest import TestCase  # most of its package is not needed

    return frozenset(dir(TestCase))


class ModuleNames:
    def __init__(self, path: str, text: str, renames: Renames, files: Mapping[str, str]) -> None:
        self.path, self.text, self.renames, self.files = path, text, renames, files
        self.tree = ast.parse(text)
        self.scope: dict[str, ast.expr] = {}
        self.defs: dict[str, ast.stmt] = {}
        self.always: list[str] = []
        self.reading: set[str] = set()

    def load(self) -> None:
        """Learn what the names of the module stand for."""
        counts = count_bound(self.tree.body)
        later: list[ast.stmt] = []
        for node in split_unpacking(self.tree.body):
            self._bind(node, counts, later)
        for node in later:
            if not (is_main(node) or is_docstring(node)):
                self.always.append(self.normal(node, {}))
        for node in self.defs.values():
            if isinstance(node, ast.FunctionDef) and is_automatic(node):
                self.always.append(self.digest(node.name))

    def _bind(self, node: ast.stmt, counts: Mapping[str, int], later: list[ast.stmt]) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            self.scope |= self.imported(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.defs[node.name] = node
        elif (name := bound_name(node, counts)) and name != "pytestmark":
            value = getattr(node, "value", None)
            assert isinstance(value, ast.expr)
            self.scope[name] = value
        else:
            later.append(node)

    def imported(self, node: ast.Import | ast.ImportFrom) -> dict[str, ast.expr]:
        found: dict[str, ast.expr] = {}
        if isinstance(node, ast.Import):
            for one in node.names:
                whole = one.name if one.asname else one.name.partition(".")[0]
                found[one.asname or whole] = self._outer(whole)
            return found
        base = node.module or ""
        if node.level:
            folder = self.path.split("/")[: -node.level]
            base = ".".join([*folder, *([base] if base else [])])
        for one in node.names:
            found[one.asname or one.name] = self._outer(f"{base}.{one.name}")
        return found

    def _outer(self, dotted: str) -> ast.expr:
        """Return what an imported name stands for; a helper in another changed file, by its digest."""
        module, _, name = dotted.rpartition(".")
        for path in module_files(module):
            if path in self.files and path != self.path:
                other = ModuleNames(path, self.files[path], self.renames, {})
                try:
                    other.load()
                except (SyntaxError, ValueError, RecursionError):
                    break
                if name in other.defs:
                    return outer_name(other.digest(name))
                if name in other.scope:
                    return other.resolve(other.scope[name], {})
        return outer_name(self.renames.dot(dotted))

    def digest(self, name: str) -> str:
        """Return a name for what a helper does."""
        if name in self.reading:
            return "…"
        self.reading.add(name)
        try:
            node = copy.deepcopy(self.defs[name])
            assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            node.name = "_"
            text = self.normal(node, {})
        finally:
            self.reading.discard(name)
        return f"def#{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def normal(self, node: ast.AST, scope: Scope) -> str:
        """Return a piece of code in normal form."""
        resolved = self.resolve(node, scope)
        return ast.unparse(without_docstrings(resolved))

    def resolve(self, node: ast.AST, scope: Scope) -> ast.expr:
        found: ast.expr = Resolver(self, scope).visit(copy.deepcopy(node))
        return ast.fix_missing_locations(found)

    def set_up(self, owner: ast.ClassDef, scope: dict[str, ast.expr]) -> Iterator[str]:
        """Learn what `self.name` stands for; yield what else is done before each test."""
        counts = set_attributes(owner)
        for method in owner.body:
            if not isinstance(method, ast.FunctionDef):
                continue
            if method.name not in ("setUp", "setup_method", "setUpClass", "setup_class"):
                if is_automatic(method):
                    yield self.normal(method, {})
                continue
            inside = dict(scope)
            for node in method.body:
                target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
                name = target.attr if isinstance(target, ast.Attribute) else ""
                if counts.get(f"self.{name}") == 1 and name not in _inherited():
                    assert isinstance(node, ast.Assign)
                    scope[f"self.{name}"] = self.resolve(node.value, inside)
                    inside = dict(scope)
                elif not (is_docstring(node) or is_super(node)):
                    yield self.normal(node, inside)

    def fixture(self, name: str) -> ast.expr | None:
        """Return what a fixture gives to a test: one of its own file, else of the nearest `conftest.py`."""
        node = self.defs.get(name)
        if not isinstance(node, ast.FunctionDef) or not is_fixture(node):
            return self._shared_fixture(name)
        body = [one for one in node.body if not is_docstring(one)]
        first = body[0] if body else None
        value: ast.expr | None = None
        if isinstance(first, ast.Return):
            value = first.value
        elif isinstance(first, ast.Expr) and isinstance(first.value, ast.Yield):
            value = first.value.value
        if value is None or len(node.decorator_list) > 1 or has_params(node):
            return outer_name(self.digest(name))
        scope = {one.arg: found for one in node.args.args if (found := self.fixture(one.arg)) is not None}
        return self.resolve(value, scope)

    def _shared_fixture(self, name: str) -> ast.expr | None:
        folder = self.path
        while folder:
            folder = posixpath.dirname(folder)
            path = posixpath.join(folder, "conftest.py")
            if path in self.files and path != self.path:
                shared = ModuleNames(path, self.files[path], self.renames, self.files)
                shared.load()
                return shared.fixture(name)
        return None

    def cases(self, test: ast.FunctionDef) -> tuple[list[dict[str, ast.expr]], list[str]]:
        """Return the values of a parametrised test, and its other decorators."""
        tables: list[list[dict[str, ast.expr]]] = []
        marks: list[str] = []
        for one in test.decorator_list:
            table = self._table(one)
            if table is None:
                marks.append(f"@{self.normal(one, {})}")
            else:
                tables.append(table)
        joined: list[dict[str, ast.expr]] = []
        for rows in product(*reversed(tables)):
            joined.append({name: value for row in rows for name, value in row.items()})
            if len(joined) > MOST_CASES:
                break
        return joined, marks

    def _table(self, decorator: ast.expr) -> list[dict[str, ast.expr]] | None:
        if not (isinstance(decorator, ast.Call) and last_name(decorator.func) == "parametrize"):
            return None
        if len(decorator.args) < 2:
            return None
        names = names_of(decorator.args[0])
        rows = self.elements(decorator.args[1], {})
        if names is None or rows is None:
            return None
        table: list[dict[str, ast.expr]] = []
        for row in rows:
            values: list[ast.expr]
            if isinstance(row, ast.Call) and last_name(row.func) == "param":
                if any(key.arg == "marks" for key in row.keywords):  # it may be skipped
                    table.append(dict.fromkeys(names, row))
                    continue
                values = list(row.args)
            elif len(names) == 1:
                values = [row]
            else:
                values = self.elements(row, {}) or []
            if len(values) == len(names):
                table.append(dict(zip(names, values, strict=True)))
        return table

    def elements(self, node: ast.expr, scope: Scope) -> list[ast.expr] | None:
        """Return the elements of a literal list, through names."""
        found = self.resolve(node, scope)
        if isinstance(found, ast.List | ast.Tuple | ast.Set):
            return None if any(isinstance(one, ast.Starred) for one in found.elts) else list(found.elts)
        return None


class Resolver(ast.NodeTransformer):
    """Replaces names by what they stand for."""

    def __init__(self, reader: ModuleNames, scope: Scope) -> None:
        self.reader, self.scope = reader, scope
        self.bound: dict[str, str] = {}
        self.depth = 0

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name = node.id
        if isinstance(node.ctx, ast.Store | ast.Del) or name in self.bound:
            self.bound.setdefault(name, f"v{len(self.bound)}")
            return ast.Name(self.bound[name], node.ctx)
        return self.look_up(name) or node

    def look_up(self, name: str) -> ast.expr | None:
        if self.depth > 20:
            return None
        value = self.scope.get(name)
        if value is not None:
            return copy.deepcopy(value)
        value = self.reader.scope.get(name)
        if value is not None:
            if isinstance(value, ast.Name) and not value.id.isidentifier():
                return copy.deepcopy(value)
            self.depth += 1
            found = Resolver(self.reader, {})
            found.depth = self.depth
            resolved: ast.expr = found.visit(copy.deepcopy(value))
            self.depth -= 1
            return resolved
        if name in self.reader.defs:
            return outer_name(self.reader.digest(name))
        return None

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            found = self.scope.get(f"self.{node.attr}")
            return copy.deepcopy(found) if found is not None else node
        value = self.visit(node.value)
        attr = self.reader.renames.name(node.attr)
        if isinstance(value, ast.Name) and value.id.startswith("import "):
            return outer_name(self.reader.renames.dot(f"{value.id[7:]}.{node.attr}"))
        return ast.Attribute(value, attr, node.ctx)

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
            return ast.Constant(self.reader.renames.dot(node.value))
        return ast.Constant(node.value)

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        return ast.keyword(node.arg, self.visit(node.value))

    def visit_arg(self, node: ast.arg) -> ast.arg:
        self.bound[node.arg] = f"v{len(self.bound)}"
        return ast.arg(self.bound[node.arg])
