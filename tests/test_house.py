"""Rules of the house that a linter cannot state: who starts programs, who prints, what is said once."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

import segue

ROOT = Path(segue.__file__).parent
TOP = ROOT.parents[1]
MODULES = sorted(ROOT.rglob("*.py"))
STARTERS = {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp"}
QUESTIONS = ("What", "Whether", "Who", "Where", "Why", "Which")


@cache
def _nodes(path: Path) -> list[ast.AST]:
    """Return everything in a module, read once for all rules."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def starts_program(node: ast.AST) -> bool:
    """Return whether this starts a program by itself, or asks for a shell."""
    match node:
        case ast.Import(names=names):
            return any(alias.name == "subprocess" for alias in names)
        case ast.ImportFrom(module="subprocess"):
            return True
        case ast.Call(func=ast.Attribute(ast.Name("os"), name)):
            return name in STARTERS or name.startswith(("exec", "spawn"))
        case ast.Call(func=ast.Attribute(_, name), keywords=keywords):
            asked = any(one.arg == "shell" and ast.unparse(one.value) != "False" for one in keywords)
            return asked or name.startswith(("create_subprocess", "subprocess_"))
    return False


def looks_up_program(node: ast.AST) -> bool:
    """Return whether this looks a program up on PATH."""
    match node:
        case ast.Attribute(attr="which", value=ast.Name(id="shutil")):
            return True
        case ast.ImportFrom(module="shutil", names=names):
            return any(one.name == "which" for one in names)
    return False


def prints(node: ast.AST) -> bool:
    """Return whether this prints."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"


def builds_prompt(node: ast.AST) -> bool:
    """Return whether this builds a prompt."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "Prompt"


DOORS: dict[Callable[[ast.AST], bool], str] = {
    # Hooks run in the project's own Python; a program of an agent's stand-in is a process of its own.
    starts_program: r"system/|proof/runners/hooks/|.*child\.py$",
    looks_up_program: r"system/programs\.py$",
    prints: r"cli/",
    builds_prompt: r"prompts/|features/\w+/prompts",
}
"""Where alone each of these is done."""


@pytest.mark.parametrize(("rule", "places"), DOORS.items())
def test_one_door_leads_outside(rule: Callable[[ast.AST], bool], places: str) -> None:
    found = [
        f"{_relative(path)}:{getattr(node, 'lineno', 0)}"
        for path in MODULES
        if not re.match(places, _relative(path))
        for node in _nodes(path)
        if rule(node)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("import subprocess", starts_program),
        ("os.execvp('x', [])", starts_program),
        ("run.it('x', shell=True)", starts_program),
        ("shutil.which('git')", looks_up_program),
        ("print('x')", prints),
        ("prompt.Prompt(text)", builds_prompt),
    ],
)
def test_the_rules_see_what_they_forbid(code: str, rule: Callable[[ast.AST], bool]) -> None:
    assert any(map(rule, ast.walk(ast.parse(code))))


def test_a_class_name_is_used_once() -> None:
    found: dict[str, list[str]] = {}
    for path in MODULES:
        for node in _nodes(path):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(_relative(path))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def _questions(path: Path) -> Iterator[str]:
    """Yield functions whose docstring begins like a question; a property may be described by what it is."""
    for node in _nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_property = any("property" in ast.unparse(one) for one in node.decorator_list)
            if not is_property and (ast.get_docstring(node) or "").startswith(QUESTIONS):
                yield f"{_relative(path)}:{node.name}"


def test_docstrings_say_what_a_function_does() -> None:
    assert [one for path in MODULES for one in _questions(path)] == []


def test_sockets_are_on_one_page() -> None:
    assert len((ROOT / "ports.py").read_text(encoding="utf-8").splitlines()) <= 450


def test_a_task_can_be_understood_from_the_files_that_are_listed() -> None:
    page = (TOP / "ARCHITECTURE.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\d+\. `([\w/.]+)`", page, re.MULTILINE)
    assert 10 <= len(listed) <= 15
    assert sum(len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in listed) <= 4000


def test_the_version_is_said_alike_everywhere() -> None:
    citation = yaml.safe_load((TOP / "CITATION.cff").read_text("utf-8"))
    log = re.findall(r"^## (\d\S+)", (TOP / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert citation["version"] == log[0] == segue.__version__
