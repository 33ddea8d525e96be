"""Examples in docstrings: tests that stand in the product's own files."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_PROMPT = ">>>"


def has_examples(text: str) -> bool:
    """Return whether a Python file may have examples."""
    return _PROMPT in text


def with_old_examples(base: str, head: str) -> str:
    """Return the head's file with the base's docstrings, where these have examples that the head changed."""
    try:
        old, new = dict(_documented(ast.parse(base))), dict(_documented(ast.parse(head)))
    except (SyntaxError, ValueError, RecursionError):
        return head
    before, lines = base.splitlines(keepends=True), head.splitlines(keepends=True)
    edits = []
    for name, node in old.items():
        doc = _docstring(node)
        if doc is None or _PROMPT not in (ast.get_docstring(node) or "") or name not in new:
            continue
        if ast.get_docstring(node) == ast.get_docstring(new[name]):
            continue
        text = before[doc.lineno - 1 : doc.end_lineno]
        own = _docstring(new[name])
        if own is not None and own.end_lineno is not None:
            edits.append((own.lineno - 1, own.end_lineno, text))
        elif new[name].body and (at := new[name].body[0].lineno - 1) != getattr(new[name], "lineno", 0) - 1:
            edits.append((at, at, text))
    for start, end, text in sorted(edits, reverse=True):
        lines[start:end] = text
    return "".join(lines)


def _documented(tree: _Documented, prefix: str = "") -> Iterator[tuple[str, _Documented]]:
    yield prefix, tree
    for node in tree.body:
        if isinstance(node, _DOCUMENTED):
            yield from _documented(node, f"{prefix}.{getattr(node, 'name', '')}")


def _docstring(node: _Documented) -> ast.Expr | None:
    first = node.body[0] if node.body else None
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return first if isinstance(first, ast.Expr) and is_text and isinstance(first.value.value, str) else None  # type: ignore[attr-defined]
