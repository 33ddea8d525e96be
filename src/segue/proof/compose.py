"""Compose the trees that a check runs on from the base and the head of a task.

Files that are product and control at once are merged: the head's file with the base's control sections.
"""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from msgspec import Struct, field

from segue.proof.paths import Classifier, PathKind, is_helper_name, is_test_name
from segue.proof.trees import TreeEntry, find_mentions, read_files
from segue.system.git.objects import Objects

_HEADER = re.compile(r"^\[\[?\s*(.+?)\s*\]?\]\s*(?:[#;].*)?$")
_BUILDERS = r"poetry|uv|pdm|hatch|flit|setuptools\w*|maturin|scikit-build|meson-python|pixi|rye"
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


def merge_control(path: str, base: str, head: str) -> str | None:
    """Return the head's text with the base's control sections; None if they cannot be distinguished.

    An empty text stands for a file that does not exist.
    """
    name = path.rpartition("/")[2]
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


class Recipe(Struct, frozen=True):
    """What a tree is made of: each part from the `base` or the `head`."""

    code: str
    tests: str
    control: str = "base"
    """Control files, and the control sections of other files."""


class Composed(Struct, frozen=True):
    """The files of a tree before it is written."""

    entries: Mapping[str, TreeEntry]
    texts: Mapping[str, bytes] = field(default_factory=dict)
    """Content that is in no object: merged and broken files."""
    guarded: tuple[str, ...] = ()
    """Tests and control files, which the check must not change."""
    tests: tuple[str, ...] = ()

    def leave_out(self, paths: Collection[str]) -> Composed:
        """Return the tree without these files."""
        return Composed(
            {path: entry for path, entry in self.entries.items() if path not in paths},
            {path: text for path, text in self.texts.items() if path not in paths},
            tuple(path for path in self.guarded if path not in paths),
            tuple(path for path in self.tests if path not in paths),
        )

    def replace(self, texts: Mapping[str, bytes]) -> Composed:
        """Return the tree with other texts in the place of some files."""
        return Composed(self.entries, {**self.texts, **texts}, self.guarded, self.tests)


class Comparison:
    """Two trees, file by file."""

    def __init__(
        self,
        objects: Objects,
        classifier: Classifier,
        base: Mapping[str, TreeEntry],
        head: Mapping[str, TreeEntry],
    ) -> None:
        self._objects, self.base, self.head = objects, base, head
        paths = {**base, **head}
        self.kinds = {path: classifier.kind(path) for path in paths}
        self.differing = sorted(path for path in paths if base.get(path) != head.get(path))
        self._texts: dict[str, bytes] = {}

    async def load(self) -> None:
        """Read what differs, and find out which files called like helpers are used by tests only."""
        sides = (self.base, self.head)
        wanted = [
            side[path].id for path in self.differing for side in sides if path in side and side[path].is_file
        ]
        self._texts = await read_files(self._objects, wanted)
        for path in self.changed(PathKind.CODE):
            if is_helper_name(path):
                side = self.base if path in self.base else self.head
                product = {
                    name: entry
                    for name, entry in side.items()
                    if self.kinds[name] is PathKind.CODE
                    and not is_helper_name(name)
                    and not is_test_name(name)
                }
                stem = path.rpartition("/")[2].partition(".")[0]
                if not await find_mentions(self._objects, product, [stem]):
                    self.kinds[path] = PathKind.TEST

    def changed(self, *kinds: PathKind) -> tuple[str, ...]:
        """Return the paths of these kinds that differ."""
        return tuple(path for path in self.differing if self.kinds[path] in kinds)

    def text(self, side: str, path: str) -> str:
        """Return a file that differs, of the base or the head, as text; empty if it does not exist there."""
        entry = (self.base if side == "base" else self.head).get(path)
        return self._texts.get(entry.id, b"").decode("utf-8", "replace") if entry is not None else ""

    def texts(self, *kinds: PathKind) -> dict[str, tuple[str, str]]:
        """Return the files of these kinds that differ, before and after."""
        return {path: (self.text("base", path), self.text("head", path)) for path in self.changed(*kinds)}

    def control_changed(self) -> tuple[str, ...]:
        """Return the control files that differ: of merged files, those whose control sections differ."""
        merged = self.texts(PathKind.MERGED)
        found = [
            path
            for path, (base, head) in merged.items()
            if merge_control(path, base, head) != merge_control(path, head, head)
        ]
        return tuple(sorted((*self.changed(PathKind.CONTROL), *found)))

    def compose(self, recipe: Recipe) -> Composed:
        """Return the files of a tree."""
        entries: dict[str, TreeEntry] = {}
        texts: dict[str, bytes] = {}
        sides = {"base": self.base, "head": self.head}
        wanted = {PathKind.TEST: recipe.tests, PathKind.CONTROL: recipe.control}
        for path, kind in self.kinds.items():
            if kind is PathKind.MERGED and path in self.differing:
                text = self._merge(path, recipe)
                if text.strip():
                    texts[path], entries[path] = text, self.head.get(path) or self.base[path]
            elif path in (source := sides[wanted.get(kind, recipe.code)]):
                entries[path] = source[path]
        guarded = self._remove_conflicts(entries)
        tests = tuple(path for path in entries if self.kinds[path] is PathKind.TEST)
        return Composed(entries, texts, guarded, tests)

    def _merge(self, path: str, recipe: Recipe) -> bytes:
        """Return one side's file with the control sections of one side; if that fails, the latter's file."""
        control, code = self.text(recipe.control, path), self.text(recipe.code, path)
        merged = merge_control(path, control, code)
        if merged is not None and merged == merge_control(path, code, code):
            return code.encode("utf-8", "surrogateescape")
        return (control if merged is None else merged).encode("utf-8", "surrogateescape")

    def _remove_conflicts(self, entries: dict[str, TreeEntry]) -> tuple[str, ...]:
        """Remove files that are where tests and control files have a folder; return the latter."""
        kinds = (PathKind.TEST, PathKind.CONTROL)
        guarded = [path for path in entries if self.kinds[path] in kinds]
        folders = {path[:end] for path in guarded for end in _slashes(path)}
        for path in [path for path in entries if path in folders]:
            del entries[path]
        files = set(guarded) & set(entries)
        for path in [path for path in entries if any(path[:end] in files for end in _slashes(path))]:
            del entries[path]
        return tuple(path for path in guarded if path in entries and entries[path].is_file)


def _slashes(path: str) -> list[int]:
    return [at for at, letter in enumerate(path) if letter == "/"]
