"""Who names a file: by its name or path, or as a module that is imported.

A word means the nearest file that it fits, so that a product's own `helpers` is not taken for that of tests.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from functools import cached_property
from itertools import takewhile

from msgspec import Struct

from segue.proof.trees import TreeEntry, grep_words, read_link
from segue.system.git.objects import Objects

_FAMILIES = """
    py pyi pyx ipynb; js jsx cjs mjs ts tsx cts mts vue svelte; go; rs; rb rake; java kt kts scala groovy;
    clj; cs fs vb; c h cc hh cpp hpp cxx m mm; php; swift; ex exs erl; sh bash zsh bats; pl pm t; lua; hs;
    dart; r; jl; zig; nim; ps1
"""
_LANGUAGE = {f".{ending}": group for group in _FAMILIES.split(";") for ending in group.split()}
_PROSE = (".md", ".rst", ".txt", ".adoc", ".html", ".svg", ".lock", ".sum")
_IMPORTS = re.compile(r"\b(?:import|from|require\w*|include|use|mod|using|load|source|export)\b|^\s*\.\s")
_LISTED = re.compile(r"\s*\w+(?: as \w+)?\s*[,)]*\s*")
"""A line of an import that goes over several."""
_FOLDER_OF = ("__init__.py", "__main__.py", "index", "mod.rs")
_ABOUT_FILES = re.compile(r"path|open|join|dir|glob|file|load|read|root|folder|resolve|fixture", re.I)


class MentionStrength(IntEnum):
    """How sure a mention is."""

    WEAK = 1
    """A text that is the file's stem, or the name of a folder above it."""
    STRONG = 2
    """Its name, its path, or an import."""


class _Line(Struct, frozen=True):
    path: str
    text: str


class Mentions:
    """The files of a tree, and which of them name which."""

    def __init__(self, objects: Objects, entries: Mapping[str, TreeEntry]) -> None:
        self._objects, self.entries = objects, entries
        self._known: dict[str, dict[str, MentionStrength]] = {}

    async def find(self, paths: Iterable[str]) -> dict[str, dict[str, MentionStrength]]:
        """Return who names these files, as code does; prose is not asked."""
        unknown = [path for path in dict.fromkeys(paths) if path not in self._known]
        words = {path: _words(path) for path in unknown}
        lines = await grep_words(
            self._objects, self.entries, {word for own in words.values() for word in own}
        )
        by_word: dict[str, list[_Line]] = defaultdict(list)
        wanted = {word for own in words.values() for word in own}
        for path, text in lines:
            if path.endswith(_PROSE) and not _is_build(path):
                continue
            for word in wanted.intersection(re.findall(r"\w+", text)):
                by_word[word].append(_Line(path, text))
        links = await self._read_links() if unknown else {}
        for path in unknown:
            found = {
                link: MentionStrength.STRONG
                for link, target in links.items()
                if f"{path}/".startswith(f"{target}/")
            }
            for word in words[path]:
                for line in by_word[word]:
                    strength = self._strength(path, word, line) if line.path != path else None
                    if strength is not None:
                        found[line.path] = max(strength, found.get(line.path, strength))
            self._known[path] = found
        return {path: self._known[path] for path in paths}

    async def _read_links(self) -> dict[str, str]:
        """Return the symbolic links of the tree, and where they lead."""
        links = [path for path, entry in self.entries.items() if entry.is_link]
        return {path: await read_link(self._objects, self.entries, path) for path in links}

    def _strength(self, path: str, word: str, line: _Line) -> MentionStrength | None:
        name, stem, text = path.rpartition("/")[2], _stem(path), line.text
        if len(name) > len(word) and name in text and self._is_nearest(path, line.path, self._by_name[name]):
            return MentionStrength.STRONG
        quoted = re.search(rf"""["'`](?:[^"'`]*[/.])?{re.escape(word)}(?:\.\w+)?["'`]""", text) is not None
        if word != stem and word != _camel(stem):
            is_path = quoted and _ABOUT_FILES.search(text) is not None
            return MentionStrength.WEAK if is_path or f"{word}/" in text else None
        same = language(path) == language(line.path) != ""
        imported = _IMPORTS.search(text) or _LISTED.fullmatch(text) or word[0].isupper()
        if same and imported and self._is_nearest(path, line.path, self._by_stem[stem]):
            return MentionStrength.STRONG
        # Such as a module that is run with `-m`, or the name of a template.
        if quoted or re.search(rf"-[mp]\s+(?:\w+\.)*{re.escape(word)}\b", text):
            nearest = self._is_nearest(path, line.path, self._by_stem[stem])
            return MentionStrength.WEAK if nearest else None
        return None

    @cached_property
    def _by_stem(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.entries:
            found[_stem(path)].append(path)
        return found

    @cached_property
    def _by_name(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.entries:
            found[path.rpartition("/")[2]].append(path)
        return found

    @staticmethod
    def _is_nearest(path: str, asker: str, others: Collection[str]) -> bool:
        """Return whether no other file that a word fits has more folders in common with who uses the word."""
        own = [other for other in others if other != asker and language(other) == language(path)]
        return _common(path, asker) >= max((_common(other, asker) for other in own), default=0)


def language(path: str) -> str:
    """Return what stands for the programming language of a file; empty: it is data."""
    return _LANGUAGE.get(path[path.rfind(".") :], "") if "." in path else ""


def _stem(path: str) -> str:
    """Return the word by which others import a file: of some, the name of their folder."""
    folder, _, name = path.rpartition("/")
    if folder and (name.startswith(_FOLDER_OF) or (name.endswith(".go") and not name.endswith("_test.go"))):
        return folder.rpartition("/")[2]
    return name.lstrip(".").partition(".")[0]


def _words(path: str) -> set[str]:
    """Return the words whose mention may mean a file: parts of its name, and folders above it."""
    found = {_stem(path), _camel(_stem(path)), *path.split("/")[:-1]}
    found |= {part for part in re.findall(r"\w+", path.rpartition("/")[2].rpartition(".")[0]) if part}
    return {word for word in found if re.fullmatch(r"\w+", word)}


def _camel(stem: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in stem.split("_")) if "_" in stem else stem


def _common(one: str, other: str) -> int:
    pairs = zip(one.split("/")[:-1], other.split("/")[:-1], strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _is_build(path: str) -> bool:
    return path.rpartition("/")[2] in ("CMakeLists.txt", "meson_options.txt")
