"""The public names of a project's files, for somebody who writes tests and must not see the change."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from segue.system.beneath import read_below

_NAMED = re.compile(r"[\w.-]+(?:/[\w.-]+)*\.\w+")
_LARGEST = 256 * 1024
_MOST_FILES = 20


def describe_interface(folder: Path, text: str) -> str:
    """Return the public names in the files of a folder that a text names."""
    parts = []
    for name in dict.fromkeys(_NAMED.findall(text)):
        path = folder / name.rstrip(".")
        if ".." in path.parts or not path.is_file() or path.is_symlink() or path.stat().st_size > _LARGEST:
            continue
        data = read_below(folder, path, _LARGEST)
        names = list(_public_names(data)) if path.suffix == ".py" else []
        parts.append("\n".join([f"{path.relative_to(folder)}:", *(f"  {one}" for one in names)]))
    return "\n".join(parts[:_MOST_FILES])


def _public_names(data: bytes) -> Iterator[str]:
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in tree.body:
        yield from _names_of(node)


def _names_of(node: ast.stmt, indent: str = "") -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_public(node.name):
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        yield f"{indent}def {node.name}({ast.unparse(node.args)}){returns}"
    elif isinstance(node, ast.ClassDef) and _is_public(node.name):
        bases = ", ".join(map(ast.unparse, node.bases))
        yield f"{indent}class {node.name}({bases})" if bases else f"{indent}class {node.name}"
        for inner in node.body:
            yield from _names_of(inner, f"{indent}  ")
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (
            f"{indent}{one.id}" for one in targets if isinstance(one, ast.Name) and _is_public(one.id)
        )


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name == "__init__"
