"""Tell tests, control files and product code apart by their paths."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from functools import cache

from segue.domain.pattern import pattern


class PathKind(StrEnum):
    """What a file of the tree is for."""

    CODE = "code"
    TEST = "test"
    """Taken from the base or from the head, by what is to be shown."""
    CONTROL = "control"
    """Decides what runs and what counts: taken from the base."""
    MERGED = "merged"
    """Product and control at once: the head's file with the control sections of the base."""
    SHADOW = "shadow"
    """A new module that hides one of the standard library or of a dependency: left out."""


_TESTS = """
    tests/** test/** spec/** testdata/** __tests__/** __mocks__/** __snapshots__/**
    test_*.py *_test.py tests.py *.test.* *.spec.* *-test.*js *_test.js *_test.ts *_test.go *_test.rs *.snap
    *.bats *Test.java *Tests.java *Test.kt *_spec.rb *_test.rb *Test.php *_test.exs
"""
_CONTROL = """
    Makefile makefile GNUmakefile *.mk justfile Justfile .justfile Taskfile* .github/** .gitlab-ci.yml
    .gitattributes .env* .envrc tox.ini noxfile.py conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml
    .coveragerc sitecustomize.py usercustomize.py *.pth *.pyc *.pyo *.egg-info/** *.dist-info/**
    jest.config.* jest.setup.* jest-*.config.* setupTests.* babel.config.* .babelrc* .swcrc tsconfig*.json
    .npmrc .yarnrc* .pnpmfile.cjs .pnp.* node_modules/** vitest.config.* vitest.setup.* vite.config.*
    vitest.workspace.* .mocharc* .taprc ava.config.* karma.conf.* node.config.json .c8rc* .nycrc* go.work
    .cargo/** rust-toolchain* phpunit.xml* .rspec
"""
_MERGED = ("pyproject.toml", "setup.cfg", "package.json", "Cargo.toml", "go.mod")
_TOOLS = """
    pytest _pytest pluggy iniconfig packaging coverage xdist execnet hypothesis attr attrs exceptiongroup
    tomli py pygments mock nose nose2 tox nox pip setuptools pkg_resources wheel trio anyio
    pytest_asyncio pytest_cov
"""
"""Modules that test runners load."""
_PYTHON = pattern(r"(?:(?:src|lib)/)?([A-Za-z_]\w*)(?:\.py|/.*)?")


class Classifier:
    """Classifies the paths of one check."""

    def __init__(
        self,
        named: Collection[str] = (),
        control: Sequence[str] = (),
        modules: Iterable[str] = (),
    ) -> None:
        """Know the files of the command, further globs, and the names of installed modules."""
        self._control = _compile((*_CONTROL.split(), *control))
        self._named = frozenset(named)
        self._modules = {*_TOOLS.split(), *sys.stdlib_module_names, *modules}

    def kind(self, path: str, new: bool = False) -> PathKind:
        """Return what the file is for; `new`: the base does not have it."""
        if path.rpartition("/")[2] in _MERGED and "node_modules/" not in path:
            return PathKind.MERGED
        if self._control.match(path):
            return PathKind.CONTROL
        if _test_pattern().match(path):
            return PathKind.TEST
        if path in self._named:
            return PathKind.CONTROL
        return PathKind.SHADOW if new and self._is_shadow(path) else PathKind.CODE

    def _is_shadow(self, path: str) -> bool:
        match = _PYTHON.fullmatch(path)
        if match is None or not path.endswith((".py", ".so", ".pyd")):
            return False
        return match[1] not in ("test", "tests", "src", "lib") and match[1] in self._modules


@cache
def _test_pattern() -> re.Pattern[str]:
    return _compile(tuple(_TESTS.split()))


@cache
def _compile(globs: tuple[str, ...]) -> re.Pattern[str]:
    """Return one pattern for many globs, each of which may begin in any folder."""
    return re.compile("(?:.*/)?(?:" + "|".join(map(_translate, globs)) + ")")


def matches_any(name: str, globs: Collection[str]) -> bool:
    """Return whether a test id matches a glob; brackets mean themselves, as parameters of tests have them."""
    return any(_whole(glob).fullmatch(name) for glob in globs)


@cache
def _whole(glob: str) -> re.Pattern[str]:
    return re.compile("".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in glob), re.S)


def _translate(glob: str) -> str:
    """Return a glob as a pattern: `*` stays within a folder, `**` does not."""
    text, anchored = glob.lstrip("/"), ""
    for piece in re.split(r"(\*\*|\*|\?)", text):
        anchored += {"**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece))
    return f"{anchored}$"
