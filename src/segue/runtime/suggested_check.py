"""The command that runs a project's tests, as its files suggest it: they are read, nothing is run."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from segue.domain.pattern import pattern
from segue.system.programs import find_inside
from segue.system.reading import UnsafeFile, read_file

_LARGEST = 1024**2
_NO_TESTS = "no test specified"
"""What npm writes into scripts.test of every new project."""
_MAKE_TARGET = pattern(r"(?m)^test\s*:(?!=)")
_MANAGERS = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}


class SuggestedCheck(Struct, frozen=True):
    """A command that probably runs the tests, and what suggests it."""

    command: str
    why: str
    missing: str = ""
    """The program that the command needs and that is not installed here; empty if there is none."""


def suggest_check(root: Path) -> SuggestedCheck | None:
    """Return the command for the tests of a project; None if its files name none."""
    return next((found for look in _LOOKS if (found := look(root)) is not None), None)


def _python(root: Path) -> SuggestedCheck | None:
    named = next((name for name in ("pytest.ini", "conftest.py") if (root / name).is_file()), "")
    if not named:
        texts = {name: _read(root / name, root) for name in ("pyproject.toml", "setup.cfg", "tox.ini")}
        named = next((name for name, text in texts.items() if "pytest" in text), "")
    if not named and next(iter(sorted((root / "tests").glob("test_*.py"))), None):
        named = "tests/test_*.py"
    if not named:
        return None
    if (root / ".venv/bin/pytest").is_file():
        return SuggestedCheck(".venv/bin/pytest -q", named)
    return _suggest("pytest -q", named)


def _javascript(root: Path) -> SuggestedCheck | None:
    try:
        test = json.loads(_read(root / "package.json", root) or "{}")["scripts"]["test"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(test, str) or not test.strip() or _NO_TESTS in test:
        return None
    manager = next((name for lock, name in _MANAGERS.items() if (root / lock).is_file()), "npm")
    return _suggest(f"{manager} run test", "scripts.test of package.json")


def _rust(root: Path) -> SuggestedCheck | None:
    try:
        cargo = tomllib.loads(_read(root / "Cargo.toml", root))
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    if not cargo:
        return None
    return _suggest("cargo test --workspace" if "workspace" in cargo else "cargo test", "Cargo.toml")


def _go(root: Path) -> SuggestedCheck | None:
    return _suggest("go test ./...", "go.mod") if (root / "go.mod").is_file() else None


def _make(root: Path) -> SuggestedCheck | None:
    names = ("GNUmakefile", "makefile", "Makefile")
    named = next((name for name in names if _MAKE_TARGET.search(_read(root / name, root))), None)
    return _suggest("make test", f"the target `test` of {named}") if named else None


_LOOKS: tuple[Callable[[Path], SuggestedCheck | None], ...] = (_python, _javascript, _rust, _go, _make)
"""How to recognise each kind of project, in the order in which they are tried."""


def _suggest(command: str, why: str) -> SuggestedCheck:
    program = command.split()[0]
    return SuggestedCheck(command, why, "" if find_inside(program) else program)


def _read(path: Path, root: Path) -> str:
    """Return the text of a file in the project; empty if there is none that can be read."""
    try:
        return read_file(path, root, _LARGEST).decode("utf-8", "replace")
    except (OSError, UnsafeFile, ValueError):
        return ""
