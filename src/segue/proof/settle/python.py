"""Read what Python tests assert, in a normal form that does not depend on names, helpers or the runner.

Local names, constants, simple fixtures and `setUp` are replaced by what they stand for, parametrised tests
and loops over literals by their cases, the methods of unittest by plain assertions, helpers by a digest.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from segue.proof.settle.meaning import MOST_CASES, ModuleNames
from segue.proof.settle.syntax import (
    assertion_of,
    bound_name,
    count_bound,
    expected_side,
    in_order,
    is_docstring,
    is_end,
    last_name,
    names_in,
    names_of,
    outer_name,
    split_unpacking,
    strength_of,
    values_in,
    weaken,
    without_expected,
)
from segue.proof.settle.units import Check, CheckStrength, Renames, TestFile, Unit

_MOST_NODES = 4000
_RAISES = frozenset(("raises", "assertRaises", "assertRaisesRegex", "warns", "assertWarns"))


def read_python(
    path: str, text: str, renames: Renames, files: Mapping[str, str] | None = None
) -> TestFile | None:
    """Return what a file asserts; None if it cannot be read. `files`: other files of tests, by path."""
    try:
        reader = ModuleNames(path, text, renames, files or {})
        reader.load()
        units = []
        for owner, test in _tests(reader.tree):
            checks = tuple(_checks(reader, owner, test))
            first = min([test.lineno, *(one.lineno for one in test.decorator_list)])
            units.append(Unit(test.name, first, test.end_lineno or first, checks))
        return TestFile(path, text, tuple(units))
    except (SyntaxError, ValueError, RecursionError):
        return None


def _checks(reader: ModuleNames, owner: ast.ClassDef | None, test: ast.FunctionDef) -> Iterator[Check]:
    """Yield what a test asserts, for each of its cases."""
    scope: dict[str, ast.expr] = {}
    before = list(reader.always)
    if owner is not None:
        before += [f"@{reader.normal(one, {})}" for one in owner.decorator_list]
        before += reader.set_up(owner, scope)
    cases, marks = reader.cases(test)
    before += marks
    for name in (one.arg for one in test.args.args if one.arg != "self"):
        if (value := reader.fixture(name)) is not None:
            scope[name] = value
    for case in cases[:MOST_CASES]:
        yield from _Walk(reader, test, {**scope, **case}, before).run()


class _Walk:
    """One way through a test."""

    def __init__(
        self, reader: ModuleNames, test: ast.FunctionDef, scope: dict[str, ast.expr], before: Sequence[str]
    ) -> None:
        self.reader, self.test, self.scope = reader, test, scope
        self.before = list(before)
        self.counts = count_bound(test.body)
        self.found = 0

    def run(self) -> Iterator[Check]:
        yield from self.block(self.test.body, ())
        if not self.found:  # it passes if nothing raises
            yield self.check("runs", ast.Constant(True), (), self.test.lineno, CheckStrength.TRUTH)

    def block(self, body: Sequence[ast.stmt], inside: tuple[str, ...]) -> Iterator[Check]:
        for node in split_unpacking(body):
            if isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue) or is_end(node):
                self.before.append(self.reader.normal(node, self.scope))
                return
            yield from self.statement(node, inside)

    def statement(self, node: ast.stmt, inside: tuple[str, ...]) -> Iterator[Check]:
        if is_docstring(node) or isinstance(node, ast.Pass):
            return
        if isinstance(node, ast.Assert):
            yield from self.assertion(node.test, inside, node.lineno)
        elif isinstance(node, ast.Expr) and (stated := assertion_of(node.value)) is not None:
            yield from self.assertion(stated, inside, node.lineno)
        elif isinstance(node, ast.With | ast.AsyncWith):
            yield from self.context(node, inside)
        elif isinstance(node, ast.For):
            yield from self.loop(node, inside)
        elif isinstance(node, ast.If | ast.While):
            yield from self.block(node.body, (*inside, f"if {self.reader.normal(node.test, self.scope)}"))
            yield from self.block(
                node.orelse, (*inside, f"if not {self.reader.normal(node.test, self.scope)}")
            )
        elif isinstance(node, ast.Try):
            caught = ", ".join(self.reader.normal(one, self.scope) for one in node.handlers)
            yield from self.block(node.body, (*inside, f"try {caught}") if caught else inside)
            yield from self.block((*node.orelse, *node.finalbody), inside)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self.scope |= self.reader.imported(node)
        elif name := bound_name(node, self.counts):
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
        yield self.check(
            "assert", resolved, inside, line, CheckStrength.VOID if weak else strength_of(resolved)
        )

    def check(
        self, verb: str, node: ast.expr, inside: tuple[str, ...], line: int, strength: CheckStrength
    ) -> Check:
        self.found += 1
        bare = " | ".join((*inside, f"{verb} {ast.unparse(in_order(node))}"))
        setup = "\n".join(self.before)
        expected = expected_side(node)
        shape = " | ".join((*inside, f"{verb} {ast.unparse(without_expected(node, expected))}"))
        values = values_in(expected if expected is not None else node)
        weak = weaken(node)
        weaker = " | ".join((*inside, f"{verb} {ast.unparse(weak)}")) if weak is not None else ""
        return Check(bare, setup, shape, line, strength, names_in(node, bare), values, weaker)

    def context(self, node: ast.With | ast.AsyncWith, inside: tuple[str, ...]) -> Iterator[Check]:
        opened: list[str] = []
        for item in node.items:
            call = item.context_expr
            name = last_name(call.func) if isinstance(call, ast.Call) else ""
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
            self.scope[item.optional_vars.id] = ast.Call(outer_name("entered"), [entered], [])

    def raising(
        self, node: ast.With | ast.AsyncWith, call: ast.Call, name: str, inside: tuple[str, ...]
    ) -> Iterator[Check]:
        kind = "warns" if "warn" in name.lower() else "raises"
        args = [*call.args, *(one.value for one in call.keywords)]
        body = "; ".join(self.reader.normal(one, self.scope) for one in node.body)
        kinds = [self.reader.resolve(one, self.scope) for one in args]
        told = ", ".join(map(ast.unparse, kinds))
        is_any = bool(args) and last_name(args[0]) in ("Exception", "BaseException")
        values = frozenset(re.findall(r"\w+", told.replace("import ", "")))
        self.found += 1
        yield Check(
            " | ".join((*inside, f"{kind} {told}: {body}")),
            "\n".join(self.before),
            " | ".join((*inside, f"{kind} ?: {body}")),
            node.lineno,
            CheckStrength.TRUTH if is_any else CheckStrength.EXACT,
            frozenset(re.findall(r"[A-Za-z_]\w*", f"{told} {body}")),
            values,
        )

    def loop(self, node: ast.For, inside: tuple[str, ...]) -> Iterator[Check]:
        elements = self.reader.elements(node.iter, self.scope)
        names = names_of(node.target)
        if elements is None or names is None or len(elements) > MOST_CASES:
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
