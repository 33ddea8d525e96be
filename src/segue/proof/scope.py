"""Measure what of a change a program could notice: where that is nothing, no test can tell it."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from msgspec import Struct

from segue.domain.amounts import list_all
from segue.domain.comments import differ_in_comments
from segue.proof.compose import Comparison
from segue.proof.paths import PathKind, is_program
from segue.proof.trees import find_mentions
from segue.system.git.objects import Objects

_PROSE = (".md", ".markdown", ".rst", ".adoc", ".asciidoc", ".org", ".textile")
_TOO_SHORT = 3
"""Names of this length are words as well."""


class ChangePart(StrEnum):
    """What a changed file, or what is different about it, is for."""

    COMMENTS = "comments and layout"
    DOCS = "documentation"
    TESTS = "tests"
    UNREAD = "files that no code and no check here reads"
    PROGRAM = "program"


class Scope(Struct, frozen=True):
    """What was changed."""

    parts: tuple[ChangePart, ...] = ()
    paths: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was changed."""
        return not self.paths

    @property
    def is_comment(self) -> bool:
        """Whether nothing but comments and layout was changed."""
        return self.parts == (ChangePart.COMMENTS,)

    @property
    def untestable(self) -> str:
        """Why no test could tell the change; empty: one could, or nothing was changed."""
        if not self.parts or ChangePart.PROGRAM in self.parts:
            return ""
        return f"only {list_all(self.parts, len(ChangePart))} were changed"


async def measure_scope(
    objects: Objects, comparison: Comparison, named: Collection[str], tested: Collection[str] = ()
) -> Scope:
    """Return what differs between two trees.

    `named` are the files that the checks consist of, `tested` changed files with examples that they run.
    """
    paths = tuple(comparison.differing)
    sorted_paths = {path: _sort(comparison, path, path in tested) for path in paths}
    data = [path for path, part in sorted_paths.items() if part is None]
    parts = {part for part in sorted_paths.values() if part is not None}
    if data and ChangePart.PROGRAM not in parts:
        is_read = any(path in named for path in data) or await _is_read(objects, comparison, data)
        parts.add(ChangePart.PROGRAM if is_read else ChangePart.UNREAD)
    return Scope(tuple(sorted(parts, key=list(ChangePart).index)), paths)


def _sort(comparison: Comparison, path: str, is_tested: bool) -> ChangePart | None:
    """Return what a changed file is for; None: that depends on which programs read it."""
    old, new = comparison.base.get(path), comparison.head.get(path)
    before, after = comparison.text("base", path), comparison.text("head", path)
    if any(entry is not None and not entry.is_file for entry in (old, new)) or is_tested:
        return ChangePart.PROGRAM
    if old is not None and new is not None:
        if old.mode != new.mode or before == after:  # what is no text cannot be compared
            return ChangePart.PROGRAM
        if differ_in_comments(path, before, after):
            return ChangePart.COMMENTS
    kind = comparison.kinds[path]
    if kind is PathKind.TEST or path.rpartition("/")[2] == "conftest.py":
        return ChangePart.TESTS
    if path.lower().endswith(_PROSE):
        return ChangePart.DOCS
    modes = {entry.mode for entry in (old, new) if entry is not None}
    is_run = is_program(path) or after.startswith("#!") or "100755" in modes
    return ChangePart.PROGRAM if is_run and kind is not PathKind.CONTROL else None


async def _is_read(objects: Objects, comparison: Comparison, paths: Collection[str]) -> bool:
    """Return whether a program names one of these files, or a folder that it is in."""
    names = {part for path in paths for part in path.split("/") if len(part) > _TOO_SHORT}
    programs = {
        path: entry for path, entry in comparison.head.items() if is_program(path) and path not in paths
    }
    return bool(names and programs and await find_mentions(objects, programs, names))
