"""Measure what of a change a program could notice: where that is nothing, no test can tell it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from pathlib import PurePosixPath

from msgspec import Struct

from segue.domain.amounts import list_all
from segue.domain.annotations import differ_in_types
from segue.domain.comments import differ_in_comments
from segue.proof.paths import Classifier, PathKind
from segue.proof.removed import list_removed
from segue.proof.trees import TreeEntry, find_mentions, read_ahead, read_text
from segue.system.git.objects import Objects

Entries = Mapping[str, TreeEntry]
_PROSE = (".md", ".markdown", ".rst", ".adoc", ".asciidoc", ".org", ".textile")
_PROGRAMS = (
    *(".py", ".pyi", ".pyx", ".js", ".jsx", ".cjs", ".mjs", ".ts", ".tsx", ".mts", ".cts", ".go", ".rs"),
    *(".java", ".kt", ".kts", ".scala", ".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".fs", ".swift", ".dart"),
    *(".rb", ".php", ".pl", ".lua", ".r", ".jl", ".ex", ".exs", ".erl", ".clj", ".hs", ".elm", ".zig"),
    *(
        ".sh",
        ".bash",
        ".zsh",
        ".fish",
        ".ps1",
        ".bat",
        ".sql",
        ".ipynb",
        ".vue",
        ".svelte",
        ".proto",
        ".groovy",
    ),
)
"""What is run; all other files do something only if one of these, or a check, reads them."""
_TOO_SHORT = 3
"""Names of this length are words as well."""


class ChangePart(StrEnum):
    """What a changed file, or what is different about it, is for."""

    COMMENTS = "comments and layout"
    ORDERS = "comments that tools obey"
    DOCS = "documentation"
    TESTS = "tests"
    UNREAD = "files that no code and no check here reads"
    REMOVED = "definitions that nothing names any more"
    TYPES = "annotations"
    PROGRAM = "program"


class Scope(Struct, frozen=True):
    """What was changed."""

    parts: tuple[ChangePart, ...] = ()
    paths: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    """The definitions that nothing names any more."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was changed."""
        return not self.paths

    @property
    def is_comment(self) -> bool:
        """Whether nothing but comments and layout was changed."""
        return bool(self.parts) and {ChangePart.COMMENTS, ChangePart.ORDERS}.issuperset(self.parts)

    @property
    def untestable(self) -> str:
        """Why no test could tell the change; empty: one could, or nothing was changed."""
        if not self.parts or not {ChangePart.PROGRAM, ChangePart.TYPES}.isdisjoint(self.parts):
            return ""
        return f"only {list_all(self.parts, len(ChangePart))} were changed"

    @property
    def keeps_code(self) -> bool:
        """Whether code was changed in annotations only: a program may read them, but does what it did."""
        return ChangePart.TYPES in self.parts and ChangePart.PROGRAM not in self.parts


async def measure_scope(
    objects: Objects,
    base: Entries,
    head: Entries,
    classifier: Classifier,
    named: Collection[str],
    tested: Collection[str] | None = None,
) -> Scope:
    """Compare two trees; `named` are the files that the checks consist of.

    `tested` are changed files whose examples the checks run as tests; None: nobody knows.
    """
    changed = sorted(path for path in {**base, **head} if base.get(path) != head.get(path))
    await read_ahead(objects, base, head)
    parts: dict[ChangePart, None] = {}
    data: list[str] = []
    removed: set[str] = set()
    for path in sorted(changed, key=lambda path: not path.endswith(_PROGRAMS)):  # one program decides
        is_run = tested is None or path in tested or path.endswith(".rs")  # Rust's tests name no file
        part = await _sort(objects, base, head, path, classifier, is_run)
        if part is ChangePart.PROGRAM and (gone := await _find_unnamed(objects, base, head, path)):
            part = ChangePart.REMOVED
            removed |= gone
        if part is None:
            data.append(path)
        else:
            parts[part] = None
        if part is ChangePart.PROGRAM:
            return Scope((part,), tuple(changed))
    if data:
        is_read = any(path in named for path in data) or await _is_read(objects, head, data)
        parts[ChangePart.PROGRAM if is_read else ChangePart.UNREAD] = None
    ordered = sorted(parts, key=list(ChangePart).index)
    return Scope(tuple(ordered), tuple(changed), tuple(sorted(removed)))


async def _find_unnamed(objects: Objects, base: Entries, head: Entries, path: str) -> set[str]:
    """Return which definitions a program lacks now, if that is all and nothing names them any more."""
    gone = list_removed(path, *[await read_text(objects, tree, path) for tree in (base, head)])
    if path not in head:
        gone |= {PurePosixPath(path).stem} if gone else set()
    return set() if not gone or await find_mentions(objects, _programs(head), gone) else gone


async def _sort(
    objects: Objects, base: Entries, head: Entries, path: str, classifier: Classifier, is_run: bool
) -> ChangePart | None:
    """Return what a changed file is for; None: that depends on who reads it.

    `is_run`: its examples may be run.
    """
    before, after = await read_text(objects, base, path), await read_text(objects, head, path)
    old, new = base.get(path), head.get(path)
    if any(entry is not None and (entry.is_link or entry.is_module) for entry in (old, new)):
        return ChangePart.PROGRAM
    if old is not None and new is not None:
        if old.mode != new.mode or before == after:  # what is no text cannot be compared
            return ChangePart.PROGRAM
        if differ_in_comments(path, before, after, examples=is_run):
            return ChangePart.COMMENTS
        if differ_in_comments(path, before, after, for_tools=True, examples=is_run):
            return ChangePart.ORDERS
        if differ_in_types(path, before, after):
            return ChangePart.TYPES
    kind = classifier.kind(path, path not in base)
    if kind is PathKind.TEST or path.rpartition("/")[2] == "conftest.py":
        return ChangePart.TESTS
    if path.lower().endswith(_PROSE):
        return ChangePart.PROGRAM if is_run and _examples(before) != _examples(after) else ChangePart.DOCS
    modes = {entry.mode for entry in (old, new) if entry is not None}
    starts = path.endswith(_PROGRAMS) or after.startswith("#!") or "100755" in modes
    return ChangePart.PROGRAM if starts and kind is not PathKind.CONTROL else None


def _examples(text: str) -> list[str]:
    """Return the lines of examples in prose that a test runner runs, with what they must print."""
    lines = text.splitlines()
    return [
        line
        for number, line in enumerate(lines)
        if ">>>" in line or (number and line.startswith((" ", "\t")) and ">>>" in "".join(lines[:number]))
    ]


def _programs(tree: Entries) -> Entries:
    return {path: entry for path, entry in tree.items() if path.endswith(_PROGRAMS)}


async def _is_read(objects: Objects, head: Entries, paths: Collection[str]) -> bool:
    """Return whether a program names one of these files, or a folder that it is in."""
    names = {part for path in paths for part in path.split("/") if len(part) > _TOO_SHORT}
    programs = {path: entry for path, entry in _programs(head).items() if path not in paths}
    return bool(names and programs and await find_mentions(objects, programs, names))
