"""Read what Python tests assert, in a normal form that does not depend on names, helpers or the runner.

Local names, constants, simple fixtures and `setUp` are replaced by what they stand for, parametrised tests and
loops over literals by their cases, the methods of unittest by plain assertions, helpers by a digest of them.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from segue.proof.settle.units import Check, Renames, Strength, TestFile, Unit

_MOST_CASES = 400
_MOST_NODES = 4000
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")
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
_RAISES = frozenset(("raises", "assertRaises", "assertRaisesRegex", "warns", "assertWarns"))
_ENDS = frozenset(("skip", "skipTest", "xfail", "exit"))
Scope = Mapping[str, ast.expr]


def read_python(
    path: str, text: str, renames: Renames, files: Mapping[str, str] | None = None
) -> TestFile | None:
    """Return what a file asserts; None if it cannot be read. `files`: other files of tests, by path."""
    try:
        return _Reader(path, text, renames, files or {}).read()
    except (SyntaxError, ValueError, RecursionError):
        return None


class _Reader:
    def __init__(self, path: str, text: str, renames: Renames, files: Mapping[str, str]) -> None:
        self.path, self.text, self.renames, self.files = path, text, renames, files
        self.tree = ast.parse(text)
        self.scope: dict[str, ast.expr] = {}
        self.defs: dict[str, ast.stmt] = {}
        self.always: list[str] = []
        self.reading: set[str] = set()

    def read(self) -> TestFile:
        self.load()
        units = []
        for owner, test in _tests(self.tree):
            checks = tuple(self._checks(owner, test))
            first = min([test.lineno, *(one.lineno for one in test.decorator_list)])
            units.append(Unit(test.name, first, test.end_lineno or first, checks))
        return TestFile(self.path, self.text, tuple(units))

    def load(self) -> None:
        """Learn what the names of the module stand for."""
        counts = _assigned(self.tree.body)
        later: list[ast.stmt] = []
        for node in self.tree.body:
            self._bind(node, counts, later)
        for node in later:
            if not (_is_main(node) or _is_docstring(node)):
                self.always.append(self.normal(node, {}))
        for node in self.defs.values():
            if isinstance(node, ast.FunctionDef) and _is_automatic(node):
                self.always.append(self.digest(node.name))

    def _bind(self, node: ast.stmt, counts: Mapping[str, int], later: list[ast.stmt]) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            self.scope |= self.imported(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.defs[node.name] = node
        elif (name := _single(node, counts)) and name != "pytestmark":
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
        """Return what an imported name stands for; what other changed files of tests define, by its digest."""
        module, _, name = dotted.rpartition(".")
        for path in _places(module):
            if path in self.files and path != self.path:
                other = _Reader(path, self.files[path], self.renames, {})
                try:
                    other.load()
                except (SyntaxError, ValueError, RecursionError):
                    break
                if name in other.defs:
                    return _word(other.digest(name))
                if name in other.scope:
                    return other.resolve(other.scope[name], {})
        return _word(self.renames.dot(dotted))

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
        return ast.unparse(_without_docstrings(resolved))

    def resolve(self, node: ast.AST, scope: Scope) -> ast.expr:
        found = _Resolver(self, scope).visit(copy.deepcopy(node))
        return ast.fix_missing_locations(found)

    def _checks(self, owner: ast.ClassDef | None, test: ast.FunctionDef) -> Iterator[Check]:
        scope: dict[str, ast.expr] = {}
        before = list(self.always)
        if owner is not None:
            before += [f"@{self.normal(one, {})}" for one in owner.decorator_list]
            before += self._set_up(owner, scope)
        cases, marks = self._cases(test)
        before += marks
        for name in (one.arg for one in test.args.args if one.arg != "self"):
            if (value := self._fixture(name)) is not None:
                scope[name] = value
        for case in cases[:_MOST_CASES]:
            walk = _Walk(self, test, {**scope, **case}, before)
            yield from walk.run()

    def _set_up(self, owner: ast.ClassDef, scope: dict[str, ast.expr]) -> Iterator[str]:
        """Learn what `self.name` stands for; yield what else is done before each test."""
        counts = _attributes(owner)
        for method in owner.body:
            if not isinstance(method, ast.FunctionDef):
                continue
            if method.name not in ("setUp", "setup_method", "setUpClass", "setup_class"):
                if _is_automatic(method):
                    yield self.normal(method, {})
                continue
            inside = dict(scope)
            for node in method.body:
                target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
                if isinstance(target, ast.Attribute) and counts.get(f"self.{target.attr}") == 1:
                    assert isinstance(node, ast.Assign)
                    scope[f"self.{target.attr}"] = self.resolve(node.value, inside)
                    inside = dict(scope)
                elif not (_is_docstring(node) or _is_super(node)):
                    yield self.normal(node, inside)

    def _fixture(self, name: str) -> ast.expr | None:
        """Return what a fixture of this file gives to a test."""
        node = self.defs.get(name)
        if not isinstance(node, ast.FunctionDef) or not _is_fixture(node):
            return None
        body = [one for one in node.body if not _is_docstring(one)]
        first = body[0] if body else None
        value: ast.expr | None = None
        if isinstance(first, ast.Return):
            value = first.value
        elif isinstance(first, ast.Expr) and isinstance(first.value, ast.Yield):
            value = first.value.value
        if value is None or len(node.decorator_list) > 1 or _has_params(node):
            return _word(self.digest(name))
        scope = {one.arg: found for one in node.args.args if (found := self._fixture(one.arg)) is not None}
        return self.resolve(value, scope)

    def _cases(self, test: ast.FunctionDef) -> tuple[list[dict[str, ast.expr]], list[str]]:
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
            if len(joined) > _MOST_CASES:
                break
        return joined, marks

    def _table(self, decorator: ast.expr) -> list[dict[str, ast.expr]] | None:
        if not (isinstance(decorator, ast.Call) and _last_name(decorator.func) == "parametrize"):
            return None
        if len(decorator.args) < 2:
            return None
        names = _names_of(decorator.args[0])
        rows = self.elements(decorator.args[1], {})
        if names is None or rows is None:
            return None
        table = []
        for row in rows:
            if isinstance(row, ast.Call) and _last_name(row.func) == "param":
                if any(key.arg == "marks" for key in row.keywords):
                    row = ast.Call(row.func, row.args, row.keywords)
                    table.append(dict.fromkeys(names, row))
                    continue
                values: list[ast.expr] = list(row.args)
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


class _Resolver(ast.NodeTransformer):
    """Replaces names by what they stand for."""

    def __init__(self, reader: _Reader, scope: Scope) -> None:
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
            found = _Resolver(self.reader, {})
            found.depth = self.depth
            resolved: ast.expr = found.visit(copy.deepcopy(value))
            self.depth -= 1
            return resolved
        if name in self.reader.defs:
            return _word(self.reader.digest(name))
        return None

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            found = self.scope.get(f"self.{node.attr}")
            return copy.deepcopy(found) if found is not None else node
        value = self.visit(node.value)
        attr = self.reader.renames.name(node.attr)
        if isinstance(value, ast.Name) and value.id.startswith("import "):
            return _word(self.reader.renames.dot(f"{value.id[7:]}.{node.attr}"))
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


class _Walk:
    """One way through a test."""

    def __init__(
        self, reader: _Reader, test: ast.FunctionDef, scope: dict[str, ast.expr], before: Sequence[str]
    ) -> None:
        self.reader, self.test, self.scope = reader, test, scope
        self.before = list(before)
        self.counts = _assigned(test.body)
        self.found = 0

    def run(self) -> Iterator[Check]:
        yield from self.block(self.test.body, ())
        if not self.found:  # it passes if nothing raises
            yield self.check("runs", ast.Constant(True), (), self.test.lineno, Strength.TRUTH)

    def block(self, body: Sequence[ast.stmt], inside: tuple[str, ...]) -> Iterator[Check]:
        for node in body:
            if isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue) or _is_end(node):
                self.before.append(self.reader.normal(node, self.scope))
                return
            yield from self.statement(node, inside)

    def statement(self, node: ast.stmt, inside: tuple[str, ...]) -> Iterator[Check]:
        if _is_docstring(node) or isinstance(node, ast.Pass):
            return
        if isinstance(node, ast.Assert):
            yield from self.assertion(node.test, inside, node.lineno)
        elif isinstance(node, ast.Expr) and (stated := _stated(node.value)) is not None:
            yield from self.assertion(stated, inside, node.lineno)
        elif isinstance(node, ast.With | ast.AsyncWith):
            yield from self.context(node, inside)
        elif isinstance(node, ast.For):
            yield from self.loop(node, inside)
        elif isinstance(node, ast.If | ast.While):
            yield from self.block(node.body, (*inside, f"if {self.reader.normal(node.test, self.scope)}"))
            yield from self.block(node.orelse, (*inside, f"if not {self.reader.normal(node.test, self.scope)}"))
        elif isinstance(node, ast.Try):
            caught = ", ".join(self.reader.normal(one, self.scope) for one in node.handlers)
            yield from self.block(node.body, (*inside, f"try {caught}") if caught else inside)
            yield from self.block((*node.orelse, *node.finalbody), inside)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self.scope |= self.reader.imported(node)
        elif name := _single(node, self.counts):
            value = getattr(node, "value", None)
            assert isinstance(value, ast.expr)
            self.scope[name] = self.inline(value)
        else:
            self.before.append(self.reader.normal(node, self.scope))

    def inline(self, value: ast.expr) -> ast.expr:
        found = self.reader.resolve(value, self.scope)
        if sum(1 for _ in ast.walk(found)) > _MOST_NODES:
            raise ValueError("too large")
        return found

    def assertion(self, test: ast.expr, inside: tuple[str, ...], line: int) -> Iterator[Check]:
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            for one in test.values:
                yield from self.assertion(one, inside, line)
            return
        resolved = self.reader.resolve(test, self.scope)
        weak = any(one.startswith("try ") for one in inside)
        yield self.check("assert", resolved, inside, line, Strength.VOID if weak else _strength(resolved))

    def check(
        self, verb: str, node: ast.expr, inside: tuple[str, ...], line: int, strength: Strength
    ) -> Check:
        self.found += 1
        bare = " | ".join((*inside, f"{verb} {ast.unparse(_sorted(node))}"))
        setup = "\n".join(self.before)
        expected = _expected(node)
        shape = " | ".join((*inside, f"{verb} {ast.unparse(_masked(node, expected))}"))
        values = _values(expected if expected is not None else node)
        return Check(bare, setup, shape, line, strength, _used(node, bare), values)

    def context(self, node: ast.With | ast.AsyncWith, inside: tuple[str, ...]) -> Iterator[Check]:
        opened: list[str] = []
        for item in node.items:
            call = item.context_expr
            name = _last_name(call.func) if isinstance(call, ast.Call) else ""
            if name in _RAISES and isinstance(call, ast.Call):
                yield from self.raising(node, call, name, inside)
                self.name_context(item, call)
                return
            if name == "subTest":
                continue
            if name == "suppress":
                opened.append(f"try {self.reader.normal(call, self.scope)}")
            self.before.append(f"with {self.reader.normal(call, self.scope)}")
            self.name_context(item, call)
        yield from self.block(node.body, (*inside, *opened))

    def name_context(self, item: ast.withitem, call: ast.expr) -> None:
        if isinstance(item.optional_vars, ast.Name):
            entered = self.inline(call)
            self.scope[item.optional_vars.id] = ast.Call(_word("entered"), [entered], [])

    def raising(
        self, node: ast.With | ast.AsyncWith, call: ast.Call, name: str, inside: tuple[str, ...]
    ) -> Iterator[Check]:
        kind = "warns" if "warn" in name.lower() else "raises"
        args = [*call.args, *(one.value for one in call.keywords)]
        body = [self.reader.normal(one, self.scope) for one in node.body]
        shown = ast.Call(
            _word(kind),
            [*(self.reader.resolve(one, self.scope) for one in args), ast.Constant("; ".join(body))],
            [],
        )
        strength = Strength.EXACT
        if args and _last_name(args[0]) in ("Exception", "BaseException"):
            strength = Strength.TRUTH
        yield self.check(kind, shown, inside, node.lineno, strength)

    def loop(self, node: ast.For, inside: tuple[str, ...]) -> Iterator[Check]:
        elements = self.reader.elements(node.iter, self.scope)
        names = _names_of(node.target)
        if elements is None or names is None or len(elements) > _MOST_CASES:
            over = self.reader.normal(node.iter, self.scope)
            yield from self.block(node.body, (*inside, f"for {over}"))
            return
        kept = dict(self.scope)
        for element in elements:
            values = [element] if len(names) == 1 and isinstance(node.target, ast.Name) else None
            values = values or self.reader.elements(element, {}) or []
            if len(values) == len(names):
                self.scope = {**kept, **dict(zip(names, values, strict=True))}
                yield from self.block(node.body, inside)
        self.scope = kept
        self.found += not elements  # a loop over nothing is not a test that runs


def _tests(tree: ast.Module) -> Iterator[tuple[ast.ClassDef | None, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if _is_test(inner):
                    yield node, _plain(inner)
        elif _is_test(node):
            yield None, _plain(node)


def _is_test(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.lower().startswith("test")


def _plain(node: ast.stmt) -> ast.FunctionDef:
    if isinstance(node, ast.AsyncFunctionDef):
        plain = ast.FunctionDef(node.name, node.args, node.body, node.decorator_list, node.returns)
        return ast.copy_location(plain, node)
    assert isinstance(node, ast.FunctionDef)
    return node


def _word(name: str) -> ast.Name:
    """Return a name that is no Python name, so that nothing is looked up behind it."""
    return ast.Name(name if name.startswith(("def#", "…")) else f"import {name}", ast.Load())


def _places(module: str) -> Iterator[str]:
    path = module.replace(".", "/")
    for folder in ("", "tests/", "test/", "src/"):
        yield f"{folder}{path}.py"
        yield f"{folder}{path}/__init__.py"


def _assigned(body: Sequence[ast.stmt]) -> dict[str, int]:
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


def _attributes(owner: ast.ClassDef) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in ast.walk(owner):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = f"{ast.unparse(node.value)}.{node.attr}".replace("cls.", "self.")
            counts[name] = counts.get(name, 0) + 1
    return counts


def _single(node: ast.stmt, counts: Mapping[str, int]) -> str:
    """Return the name that a statement binds, if nothing else binds it."""
    target: ast.expr | None = None
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        target = node.target
    return target.id if isinstance(target, ast.Name) and counts.get(target.id) == 1 else ""


def _stated(node: ast.expr) -> ast.expr | None:
    """Return what a call asserts, as an expression; None if it asserts nothing."""
    if isinstance(node, ast.Await):
        return _stated(node.value)
    if not isinstance(node, ast.Call):
        return None
    name = _last_name(node.func)
    if name in _COMPARED and len(node.args) >= 2:
        operator = _COMPARED[name]
        found = ast.parse(f"a {operator} b", mode="eval").body
        assert isinstance(found, ast.Compare)
        return ast.Compare(node.args[0], found.ops, [node.args[1]])
    if name in _STATED and node.args:
        shown = [f"({ast.unparse(one)})" for one in node.args]
        return ast.parse(_STATED[name].format(*shown, ""), mode="eval").body
    return node if re.match(r"assert[_A-Z]|assert$", name) else None


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id.rpartition(".")[2] if isinstance(node, ast.Name) else ""


def _names_of(node: ast.expr) -> list[str] | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [one.strip() for one in node.value.split(",") if one.strip()]
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.List | ast.Tuple):
        plain = [one.value if isinstance(one, ast.Constant) else getattr(one, "id", None) for one in node.elts]
        return [str(one) for one in plain] if all(isinstance(one, str) for one in plain) else None
    return None


def _is_fixture(node: ast.FunctionDef) -> bool:
    return any(
        _last_name(one.func if isinstance(one, ast.Call) else one) == "fixture" for one in node.decorator_list
    )


def _has_params(node: ast.FunctionDef) -> bool:
    calls = [one for one in node.decorator_list if isinstance(one, ast.Call)]
    return any(key.arg == "params" for one in calls for key in one.keywords)


def _is_automatic(node: ast.FunctionDef) -> bool:
    calls = [one for one in node.decorator_list if isinstance(one, ast.Call)]
    return any(key.arg == "autouse" for one in calls for key in one.keywords)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _is_super(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node.value).startswith("super().")


def _is_end(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and _last_name(node.value.func) in _ENDS
    )


def _without_docstrings(node: ast.AST) -> ast.AST:
    for one in ast.walk(node):
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            one.body = [line for line in one.body if not _is_docstring(line)] or [ast.Pass()]
            if not isinstance(one, ast.ClassDef):
                one.returns = None
    return node


def _strength(node: ast.expr) -> Strength:
    """Return how much an assertion can tell."""
    if isinstance(node, ast.BoolOp):
        parts = [_strength(one) for one in node.values]
        return max(parts) if isinstance(node.op, ast.And) else min(parts)
    if isinstance(node, ast.UnaryOp):
        return _strength(node.operand)
    if not any(isinstance(one, ast.Call | ast.Attribute | ast.Name) for one in ast.walk(node)):
        return Strength.VOID
    if isinstance(node, ast.Tuple | ast.List | ast.Dict | ast.Lambda | ast.JoinedStr):
        return Strength.VOID
    if isinstance(node, ast.Compare):
        return _compared(node)
    if isinstance(node, ast.Call):
        name = _last_name(node.func)
        if re.match(r"assert.*(?:with|calls|Equal)", name):
            return Strength.EXACT
        is_part = name in ("isinstance", "issubclass", "hasattr", "callable")
        return Strength.PART if is_part or name.startswith("assert") else Strength.TRUTH
    return Strength.TRUTH


def _compared(node: ast.Compare) -> Strength:
    sides = [ast.unparse(one) for one in (node.left, *node.comparators)]
    if len(set(sides)) < len(sides):
        return Strength.VOID
    exact = all(isinstance(one, ast.Eq | ast.Is) for one in node.ops)
    return Strength.EXACT if exact else Strength.PART


def _sorted(node: ast.expr) -> ast.expr:
    """Return a comparison with its sides in one order: `13 == total` says the same as `total == 13`."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
        left, right = sorted((node.left, node.comparators[0]), key=ast.unparse)
        return ast.Compare(left, node.ops, [right])
    return node


def _expected(node: ast.expr) -> ast.expr | None:
    """Return the side of a comparison that says what is expected."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    left, right = node.left, node.comparators[0]
    calls = [any(isinstance(one, ast.Call) for one in ast.walk(side)) for side in (left, right)]
    return left if calls == [False, True] else right


def _masked(node: ast.expr, expected: ast.expr | None) -> ast.expr:
    if not isinstance(node, ast.Compare) or expected is None:
        return node
    hole: ast.expr = ast.Name("?", ast.Load())
    if expected is node.left:
        return ast.Compare(node.comparators[0], node.ops, [hole])
    return ast.Compare(node.left, node.ops, [hole])


def _values(node: ast.expr) -> frozenset[str]:
    found = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
    return frozenset(str(one) for one in found)


def _used(node: ast.expr, text: str) -> frozenset[str]:
    found = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            found.update(one.id.removeprefix("import ").split("."))
    found.update(re.findall(r"[A-Za-z_]\w*", text))
    return frozenset(found)
