"""Tell tests, control files and product code apart by their paths, and find the files of a command."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from enum import StrEnum
from functools import cache

from segue.proof.mentions import language


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
    """A new module that hides one of the standard library or of a dependency: left out unless needed."""


_TESTS = """
    tests/** test/** spec/** testdata/** __tests__/** __mocks__/** __snapshots__/**
    *.test.* *.spec.* *.snap *.bats *Test.java *Tests.java *Test.kt *_spec.rb *Test.php
"""
_TEST_NAME = re.compile(r"tests?(?:[-_].*)?|.*[-_]tests?")
"""What programs with tests are called, in whatever language."""
_CONTROL = """
    *.mk justfile Justfile .justfile Taskfile* .github/** .gitlab-ci.yml
    .gitattributes .env* .envrc tox.ini noxfile.py conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml
    .coveragerc sitecustomize.py usercustomize.py *.pth *.pyc *.pyo *.egg-info/** *.dist-info/**
    jest.config.* jest.setup.* jest-*.config.* setupTests.* babel.config.* .babelrc* .swcrc tsconfig*.json
    .npmrc .yarnrc* .pnpmfile.cjs .pnp.* node_modules/** vitest.config.* vitest.setup.* vite.config.*
    vitest.workspace.* .mocharc* .taprc ava.config.* karma.conf.* node.config.json .c8rc* .nycrc* go.work
    .cargo/** rust-toolchain* phpunit.xml* .rspec
"""
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_MERGED = ("pyproject.toml", "setup.cfg", "package.json", "Cargo.toml", "go.mod", *MAKEFILES)
_TOOLS = """
    pytest _pytest pluggy iniconfig packaging coverage xdist execnet hypothesis attr attrs exceptiongroup
    tomli py pygments mock nose nose2 tox nox pip setuptools pkg_resources wheel trio anyio
    pytest_asyncio pytest_cov
"""
"""Modules that test runners load."""
_PYTHON = re.compile(r"(?:(?:src|lib)/)?([A-Za-z_]\w*)(?:\.py|/.*)?")


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
        if is_test_name(path):
            return PathKind.TEST
        if path in self._named:
            return PathKind.TEST if language(path) else PathKind.CONTROL
        return PathKind.SHADOW if new and self._is_shadow(path) else PathKind.CODE

    def _is_shadow(self, path: str) -> bool:
        match = _PYTHON.fullmatch(path)
        if match is None or not path.endswith((".py", ".so", ".pyd")):
            return False
        return match[1] not in ("test", "tests", "src", "lib") and match[1] in self._modules


def is_test_name(path: str) -> bool:
    """Return whether a file is called like a test, or is in a folder of tests."""
    stem = path.rpartition("/")[2].partition(".")[0]
    return bool(_test_pattern().match(path) or (language(path) and _TEST_NAME.fullmatch(stem)))


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
    special = {"*": ".*", "?": "."}
    return re.compile("".join(special.get(letter, re.escape(letter)) for letter in glob), re.S)


def _translate(glob: str) -> str:
    """Return a glob as a pattern: `*` stays within a folder, `**` does not."""
    text, anchored = glob.lstrip("/"), ""
    for piece in re.split(r"(\*\*|\*|\?)", text):
        anchored += {"**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece))
    return f"{anchored}$"


_SOURCED = re.compile(r"^\s*(?:\.|source)\s+(\S.*)$", re.M)
_LOOKED_AT = re.compile(r"\$\$?\([^()]*\)|`[^`\n]*`|[^\n;&|]*\|\s*(?:[ef]?grep|diff|cmp|awk)\b")
_INCLUDED = re.compile(r"^-?s?include\s+(.+)$", re.M)
_IMPORTED = re.compile(r"^\s*(?:from|import)\s+([A-Za-z_]\w*)", re.M)
_VARIABLE = re.compile(r"^[\"']?\$(?:\(.*\)|\{[^}]*\}|\w+)[\"']?/")
SCRIPT_FOLDERS = ("scripts", "script", "tools", "ci", ".ci", "hack", "build-tools")
_INTERPRETER = re.compile(
    r"(?:python|node|ruby|perl|php|lua|deno|bun|tsx|ts-node|[a-z]*sh|run)[\d.]*|-[BEIsSuWex]+"
)
_PACKAGE_TOOLS = ("npm", "npx", "yarn", "pnpm", "bun")
_MOST = 200

Read = Callable[[str], Awaitable[str]]


async def find_named(argv: Sequence[str], paths: Collection[str], read: Read) -> frozenset[str]:
    """Return the files that the command names, and those that these are made of."""
    known = frozenset(paths)
    found: dict[str, None] = {}
    pending = list(named_files(argv, known))
    while pending and len(found) < _MOST:
        path = pending.pop()
        if path not in found:
            found[path] = None
            pending += parts_of(path, await read(path), known)
    return frozenset(found)


def named_files(argv: Sequence[str], known: Collection[str]) -> frozenset[str]:
    """Return the files that the command names: scripts, modules behind `-m`, settings, a Makefile."""
    found: set[str] = set()
    for before, word in zip(("", *argv), argv, strict=False):
        for part in _words(word):
            clean = part.removeprefix("./")
            module = clean.replace(".", "/")
            options = (clean, f"{module}.py", f"{module}/__main__.py") if before == "-m" else (clean,)
            # A program among the arguments of another is what that one looks at, as with `mypy app.py`.
            is_subject = part == word and bool(language(part)) and not _starts(before)
            found.update(option for option in options if option in known and not is_subject)
    program = argv[0].rpartition("/")[2] if argv else ""
    if program in ("make", "gmake"):
        found.update(name for name in MAKEFILES if name in known)
    if program in _PACKAGE_TOOLS and "package.json" in known:
        found.add("package.json")
    return frozenset(found)


def _starts(word: str) -> bool:
    """Return whether the word after this one is a program that is started."""
    return word in ("", "env", "exec", "-m") or bool(_INTERPRETER.fullmatch(word.rpartition("/")[2]))


def parts_of(path: str, text: str, known: Collection[str]) -> list[str]:
    """Return the files that a script, a Makefile or a package.json is made of."""
    name = path.rpartition("/")[2]
    if name in MAKEFILES or name.endswith(".mk"):
        included = [word for line in _INCLUDED.findall(text) for word in line.split()]
        return _resolve(path, included, known) + _scripts(path, text, known)
    if name == "package.json":
        return _scripts(path, _commands(text), known)
    inside = path.rpartition("/")[0]
    if name.endswith(".py"):
        modules = _IMPORTED.findall(text) if inside else []
        return [file for module in modules if (file := f"{inside}/{module}.py") in known]
    # What it takes from elsewhere, or from the root, is more likely what it looks at.
    near = [inside] if inside else []
    sourced = _resolve(path, _SOURCED.findall(text), known)
    return [
        file
        for file in sourced
        if file.rpartition("/")[0] in near or file.partition("/")[0] in SCRIPT_FOLDERS
    ]


def _commands(text: str) -> str:
    try:
        scripts = json.loads(text).get("scripts", {})
        return "\n".join(str(value) for value in scripts.values())
    except (ValueError, AttributeError):
        return ""


def _scripts(path: str, text: str, known: Collection[str]) -> list[str]:
    """Return the scripts that a text calls; other files are more likely the product.

    So is a script whose output is looked at: what it prints is checked, not how it ends.
    """
    words = re.findall(r"[^\s;&|()\"'`=]+", _LOOKED_AT.sub(" ", text))
    return [
        file
        for file in _resolve(path, words, known)
        if file.endswith((".sh", ".bash")) or file.partition("/")[0] in SCRIPT_FOLDERS
    ]


def _resolve(path: str, words: Sequence[str], known: Collection[str]) -> list[str]:
    """Return the files that words mean, from the root or from the folder of the file that has them."""
    folder = path.rpartition("/")[0]
    found = []
    for word in words:
        clean = (_VARIABLE.sub("", word).split() or [""])[0].strip("\"';").removeprefix("./")
        for option in (clean, f"{folder}/{clean}" if folder else clean):
            if option in known:
                found.append(option)
                break
    return found


def _words(word: str) -> list[str]:
    """Return the words of an argument: `sh -c "./a.sh && b"` and `--config=x` name files too."""
    try:
        inner = shlex.split(word) if " " in word else [word]
    except ValueError:
        inner = word.split()
    return [piece for part in inner for piece in (part, part.partition("=")[2]) if piece]
