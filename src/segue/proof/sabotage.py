"""Break the changed code on purpose: checks that still pass do not exercise it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher

_SAID = "sabotaged by Segue"
_SCRIPT = (".js", ".jsx", ".cjs", ".mjs", ".ts", ".tsx", ".mts", ".cts")
_SHELL = (".sh", ".bash", ".zsh")
_COMMENT = re.compile(r"\s+//.*")
_GO_FUNCTION = re.compile(r"func (?!init\(\))")
_RUST_FUNCTION = re.compile(r"\s*(?:pub(?:\([^)]*\))? )?(?:(?:async|unsafe|extern \"\w+\") )*fn ")


def sabotage(files: Mapping[str, tuple[str, str]]) -> dict[str, bytes]:
    """Return the broken texts of changed files, from what they were and what they are.

    Files in languages that cannot be broken like that, and files that have nothing to break, are left out.
    """
    found = {}
    for path, (before, after) in files.items():
        broken = _break(path, before, after)
        if broken is not None and broken != after:
            found[path] = broken.encode()
    return found


def _break(path: str, before: str, after: str) -> str | None:
    if path.endswith(".d.ts"):
        return None
    if path.endswith(".py"):
        return break_python(before, after)
    if path.endswith(_SCRIPT):
        return _first_line(after, f"throw new Error({_SAID!r});")
    if path.endswith(".go"):
        broken = _break_bodies(after, _GO_FUNCTION, f'if true {{ panic("{_SAID}") }}')
        return broken if broken != after else f'{after}\nfunc init() {{ panic("{_SAID}") }}\n'
    if path.endswith(".rs"):
        product, mark, tests = after.partition("#[cfg(test)]")
        return _break_bodies(product, _RUST_FUNCTION, f'if true {{ panic!("{_SAID}") }}') + mark + tests
    if path.endswith(_SHELL) or re.match(r"#!.*\b(?:ba|z|da|k)?sh\b", after):
        return _first_line(after, "exit 97")
    return None


def _break_bodies(text: str, function: re.Pattern[str], statement: str) -> str:
    """Return code in the usual layout with the statement first in the body of every function."""
    lines, waiting = text.splitlines(keepends=True), False
    for number, line in enumerate(lines):
        waiting = waiting or bool(function.match(line))
        code = _COMMENT.sub("", line).rstrip()
        if not waiting or not code or code.endswith((",", "(", "<", "where")):
            continue
        if code.endswith("{"):
            lines[number] = f"{code} {statement}{line[len(code) :]}"
        elif " { " in code:
            lines[number] = line.replace(" { ", f" {{ {statement}; ", 1)
        waiting = not code.endswith((";", "{", "}"))
    return "".join(lines)


def _first_line(text: str, line: str) -> str:
    if text.startswith("#!"):
        first, _, rest = text.partition("\n")
        return f"{first}\n{line}\n{rest}"
    return f"{line}\n{text}"


def break_python(before: str, after: str) -> str | None:
    """Return the module with its changed functions raising; with all of them if other lines changed.

    A module without functions raises when it is imported.
    """
    try:
        tree = ast.parse(after)
    except (SyntaxError, ValueError, RecursionError):
        return None
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    chosen = _changed_functions(functions, before, after) or functions
    for node in chosen:
        _raise(node)
    if not chosen and tree.body:
        tree.body.insert(_first_place(tree), _error())
    return ast.unparse(ast.fix_missing_locations(tree)) if tree.body else None


def _first_place(tree: ast.Module) -> int:
    """Return where the first statement may be: after the docstring and imports from the future."""
    place = 1 if ast.get_docstring(tree, clean=False) is not None else 0
    while place < len(tree.body):
        node = tree.body[place]
        if not isinstance(node, ast.ImportFrom) or node.module != "__future__":
            break
        place += 1
    return place


def _error() -> ast.Raise:
    return ast.Raise(ast.Call(ast.Name("RuntimeError", ast.Load()), [ast.Constant(_SAID)], []), None)


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _changed_functions(functions: list[_Function], before: str, after: str) -> list[_Function]:
    """Return the functions that contain all changed lines; empty if some are in none of them."""
    chosen: dict[int, _Function] = {}
    for line in changed_lines(before, after):
        inside = [node for node in functions if _start(node) <= line <= (node.end_lineno or node.lineno)]
        if not inside:
            return []
        outer = min(inside, key=_start)
        chosen[id(outer)] = outer
    return list(chosen.values())


def _start(node: _Function) -> int:
    return min([node.lineno, *(one.lineno for one in node.decorator_list)])


def changed_lines(before: str, after: str) -> Iterable[int]:
    """Return the numbers of added or changed lines with code in them; of removals, the line that follows."""
    lines = after.splitlines()
    matcher = SequenceMatcher(None, before.splitlines(), lines, autojunk=False)
    for tag, _, _, start, end in matcher.get_opcodes():
        if tag == "equal":
            continue
        for number in range(start, max(end, start + 1)):
            text = lines[number].strip() if number < len(lines) else ""
            if text and not text.startswith(("#", "import ", "from ")):
                yield number + 1


def _raise(node: _Function) -> None:
    """Replace the body; the docstring, decorators and the nature of generators stay."""
    kept: list[ast.stmt] = []
    if ast.get_docstring(node, clean=False) is not None:
        kept.append(node.body[0])
    if _is_abstract(node):
        return
    generator = any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in _own_nodes(node))
    tail: list[ast.stmt] = [ast.Expr(ast.Yield(None))] if generator else []
    node.body = [*kept, _error(), *tail]


def _own_nodes(node: _Function) -> Iterable[ast.AST]:
    """Yield the nodes of a function, without those of functions within it."""
    pending: list[ast.AST] = list(node.body)
    while pending:
        here = pending.pop()
        yield here
        if not isinstance(here, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(here))


def _is_abstract(node: _Function) -> bool:
    names = {ast.unparse(one).rpartition(".")[2] for one in node.decorator_list}
    return bool(names & {"abstractmethod", "overload"})
