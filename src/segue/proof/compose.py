"""Compose the trees that a check runs on from the base and the head of a task.

Files that are product and control at once are merged: the head's file with the base's control sections.
"""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from segue.proof.doctests import with_old_examples
from segue.proof.makefiles import merge_makefile
from segue.proof.mentions import language
from segue.proof.paths import MAKEFILES, Classifier, PathKind
from segue.proof.trees import TreeEntry, read_text
from segue.system.git.objects import Objects

_HEADER = re.compile(r"^\[\[?\s*(.+?)\s*\]?\]\s*(?:[#;].*)?$")
_BUILDERS = r"poetry|uv|pdm|hatch|flit|setuptools\w*|maturin|scikit-build|meson-python|cibuildwheel|pixi|rye"
"""Tools whose tables say what the product is made of; those of others say how it is checked."""
_PYPROJECT = re.compile(
    rf"tool\.(?!(?:{_BUILDERS})\b).*|project\.entry-points\.[\"']?pytest11[\"']?(?:\..*)?"
    r"|tool\.poetry\.plugins\.[\"']?pytest11[\"']?(?:\..*)?"
)
_CARGO = re.compile(r"(?:lib|test|bench|patch|profile)(?:\..*)?")
_INI = re.compile(
    r"(?!metadata$|options(?:\.|$)|build|bdist|sdist|egg_info|install|aliases).*[^.]|options\.entry_points"
)
_KEYS = (
    *("scripts", "jest", "babel", "imports", "config", "workspaces", "mocha", "ava", "c8", "nyc", "tap"),
    *("vitest", "husky", "lint-staged", "simple-git-hooks", "commitlint"),
)


def merge_control(path: str, base: str, head: str, goals: Collection[str] = ()) -> str | None:
    """Return the head's text with the base's control sections; None if they cannot be distinguished.

    An empty text stands for a file that does not exist; `goals` are what a Makefile is asked to make.
    """
    name = path.rpartition("/")[2]
    if name in MAKEFILES:
        return merge_makefile(base, head, goals)
    try:
        return _MERGERS[name](base, head) if name in _MERGERS else None
    except (ValueError, configparser.Error, RecursionError):
        return None


def _tables(
    base: str, head: str, control: re.Pattern[str], read: Callable[[str], Mapping[str, Any]]
) -> str | None:
    """Merge files that consist of tables; `read` returns their values by name, to see that it worked."""
    merged = _sections(base, head, control)
    wanted = {name: value for name, value in read(head).items() if not control.fullmatch(name)}
    wanted |= {name: value for name, value in read(base).items() if control.fullmatch(name)}
    return merged if read(merged) == wanted else None


def _toml(text: str) -> dict[str, Any]:
    return _flatten(tomllib.loads(text))


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of a document by dotted names; empty tables count."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            flat |= _flatten(value, f"{name}.")
        else:
            flat[name] = value
    return flat


def _ini(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser(strict=False, default_section="\0")
    parser.read_string(text)
    return {name: dict(parser.items(name)) for name in parser.sections()}


def _sections(base: str, head: str, control: re.Pattern[str]) -> str:
    kept = [text for name, text in _split(head) if not control.fullmatch(name)]
    ours = [text for name, text in _split(base) if control.fullmatch(name)]
    return "\n".join((*kept, *ours)) + "\n"


def _split(text: str) -> list[tuple[str, str]]:
    """Return the sections of a TOML or INI file with their names; the part before the first has none."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    for line in text.splitlines():
        if match := _HEADER.match(line):
            parts.append((match[1], []))
        parts[-1][1].append(line)
    return [(name, "\n".join(lines)) for name, lines in parts]


def _package(base: str, head: str) -> str | None:
    before, after = json.loads(base or "{}"), json.loads(head or "{}")
    if not isinstance(before, dict) or not isinstance(after, dict):
        return None
    kept = {key: value for key, value in after.items() if key not in _KEYS}
    kept |= {key: before[key] for key in _KEYS if key in before}
    return json.dumps(kept, indent=2, ensure_ascii=False) + "\n" if kept else ""


def _go_mod(base: str, head: str) -> str | None:
    kept = [line for line, replaces in _go_lines(head) if not replaces]
    ours = [line for line, replaces in _go_lines(base) if replaces]
    return "\n".join((*kept, *ours)) + "\n"


def _go_lines(text: str) -> list[tuple[str, bool]]:
    """Return the lines of a go.mod, and whether each belongs to a replace directive."""
    found, inside = [], False
    for line in text.splitlines():
        word = line.split("//")[0].strip()
        starts = word.startswith("replace") and word[7:8] in ("", " ", "\t", "(")
        found.append((line, starts or inside))
        inside = (starts and word.endswith("(")) or (inside and word != ")")
    return found


_MERGERS: dict[str, Callable[[str, str], str | None]] = {
    "pyproject.toml": partial(_tables, control=_PYPROJECT, read=_toml),
    "setup.cfg": partial(_tables, control=_INI, read=_ini),
    "Cargo.toml": partial(_tables, control=_CARGO, read=_toml),
    "package.json": _package,
    "go.mod": _go_mod,
}


_NOTHING_FIXED: Mapping[str, str] = MappingProxyType({})


class Control(StrEnum):
    """Whose control files, and control sections of other files, a tree has."""

    BASE = "base"
    ADDED = "base and those that the head adds"
    HEAD = "head"


class Recipe(Struct, frozen=True):
    """What a tree is made of."""

    code: str
    """`base` or `head`."""
    tests: str
    """`base` or `head`."""
    control: Control = Control.BASE


class Composed(Struct, frozen=True):
    """The files of a tree before it is written."""

    entries: Mapping[str, TreeEntry]
    texts: Mapping[str, bytes] = field(default_factory=dict)
    """Content that is in no object: merged and sabotaged files."""
    guarded: tuple[str, ...] = ()
    """Tests and control files, which the check must not change."""
    tests: tuple[str, ...] = ()
    is_open: bool = False
    """Whether it is only noticed if the check changes them."""

    def leave_out(self, paths: Collection[str]) -> Composed:
        """Return the tree without these files."""
        if not paths:
            return self
        return Composed(
            {path: entry for path, entry in self.entries.items() if path not in paths},
            {path: text for path, text in self.texts.items() if path not in paths},
            tuple(path for path in self.guarded if path not in paths),
            tuple(path for path in self.tests if path not in paths),
            self.is_open,
        )


class Comparison:
    """Two trees, file by file."""

    def __init__(
        self,
        objects: Objects,
        classifier: Classifier,
        base: Mapping[str, TreeEntry],
        head: Mapping[str, TreeEntry],
        texts: Mapping[str, str] = _NOTHING_FIXED,
    ) -> None:
        """`texts` are files of the base that are as no object is."""
        self.objects, self._texts = objects, texts
        self.base, self.head = base, head
        paths = {**base, **head}
        self.hints = {path: classifier.kind(path, path not in base) for path in paths}
        """What the names of the files suggest."""
        self.kinds = dict(self.hints)
        """What they are, as far as is known."""
        self.goals: Collection[str] = ()
        """The words of the command, among which may be targets of a Makefile."""
        self.is_open = False
        """Whether tests of the base write to files of the tests."""
        self.mixed: set[str] = set()
        """Product files with tests inside of them, which the base has as well."""
        self.differing = sorted(path for path in paths if base.get(path) != head.get(path) or path in texts)

    def changed(self, *kinds: PathKind) -> tuple[str, ...]:
        """Return the paths of these kinds that differ."""
        return tuple(path for path in self.differing if self.kinds[path] in kinds)

    def added(self, *kinds: PathKind) -> tuple[str, ...]:
        """Return the paths of these kinds that only the head has."""
        return tuple(path for path in self.changed(*kinds) if path not in self.base)

    def changed_tests(self) -> tuple[str, ...]:
        """Return the files with tests that differ, those that are product as well included."""
        return tuple(sorted({*self.changed(PathKind.TEST), *self.mixed}))

    async def control_changed(self) -> tuple[str, ...]:
        """Return the control files that differ: of merged files, those whose control sections differ."""
        found = list(self.changed(PathKind.CONTROL, PathKind.SHADOW))
        for path in self.changed(PathKind.MERGED):
            base, head = await self.text("base", path), await self.text("head", path)
            if self._merge_texts(path, base, head) != self._merge_texts(path, head, head):
                found.append(path)
        return tuple(sorted(found))

    async def compose(self, recipe: Recipe, fixed: Mapping[str, str] = _NOTHING_FIXED) -> Composed:
        """Return the files of a tree; `fixed` says of some from which side they are, whatever they are."""
        entries: dict[str, TreeEntry] = {}
        texts: dict[str, bytes] = {}
        for path, kind in self.kinds.items():
            if path in fixed:
                side = self.base if fixed[path] == "base" else self.head
                entries |= {path: side[path]} if path in side else {}
                continue
            if path in self.mixed and recipe.code != recipe.tests:
                texts[path] = await self._with_examples(path, recipe)
                entries[path] = self.base[path]
                continue
            if kind is PathKind.SHADOW and recipe.control is not Control.HEAD:
                continue
            if kind is PathKind.MERGED and path in self.differing:
                texts[path] = await self._merge(path, recipe)
                entries[path] = self.head.get(path) or self.base[path]
                continue
            source = self.base if self._side(path, kind, recipe) == "base" else self.head
            if path in source:
                entries[path] = source[path]
        for path in [path for path, text in texts.items() if not text.strip()]:
            del texts[path], entries[path]
        guarded = self._without_conflicts(entries)
        tests = tuple(path for path in entries if self.kinds[path] is PathKind.TEST)
        return Composed(entries, texts, guarded, tests, self.is_open)

    async def _with_examples(self, path: str, recipe: Recipe) -> bytes:
        code, tests = await self.text(recipe.code, path), await self.text(recipe.tests, path)
        return with_old_examples(tests, code).encode("utf-8", "surrogateescape")

    def _merge_texts(self, path: str, base: str, head: str) -> str | None:
        return merge_control(path, base, head, self.goals)

    def _side(self, path: str, kind: PathKind, recipe: Recipe) -> str:
        if kind is PathKind.TEST:
            return recipe.tests
        if kind is PathKind.CONTROL:
            if recipe.control is Control.HEAD:
                return "head"
            return "head" if recipe.control is Control.ADDED and path not in self.base else "base"
        return recipe.code

    async def _merge(self, path: str, recipe: Recipe) -> bytes:
        """Return one side's file with the control sections of one side; if that fails, the latter's file."""
        base = await self.text("base", path)
        ours = recipe.control is Control.BASE or (
            recipe.control is Control.ADDED
            and self._merge_texts(path, base, "") != self._merge_texts(path, "", "")
        )
        control = base if ours else await self.text("head", path)
        code = await self.text(recipe.code, path)
        if self._merge_texts(path, control, code) == self._merge_texts(path, code, code) is not None:
            return code.encode()
        merged = self._merge_texts(path, control, code)
        return (control if merged is None else merged).encode()

    async def text(self, side: str, path: str) -> str:
        """Return a file of the base or the head as text; empty if it does not exist."""
        if side == "base" and path in self._texts:
            return self._texts[path]
        return await read_text(self.objects, self.base if side == "base" else self.head, path)

    def _without_conflicts(self, entries: dict[str, TreeEntry]) -> tuple[str, ...]:
        """Remove files that stand where guarded files have a folder; return the guarded files."""
        guarded = [path for path in entries if self._is_guarded(path)]
        folders = {path[:end] for path in guarded for end in _slashes(path)}
        for path in [path for path in entries if path in folders]:
            del entries[path]
        files = set(guarded) & set(entries)
        for path in [path for path in entries if any(path[:end] in files for end in _slashes(path))]:
            del entries[path]
        return tuple(
            path
            for path in guarded
            if path in entries and not (entries[path].is_link or entries[path].is_module)
        )

    def _is_guarded(self, path: str) -> bool:
        """Return whether a check must not write a file; what only its use shows to be data, it may."""
        kinds = (PathKind.TEST, PathKind.CONTROL)
        return self.kinds[path] in kinds and (self.hints[path] in kinds or bool(language(path)))


def _slashes(path: str) -> list[int]:
    return [at for at, letter in enumerate(path) if letter == "/"]
