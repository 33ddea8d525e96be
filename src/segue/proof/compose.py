"""Compose the trees that a check runs on from the base and the head of a task."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from segue.proof.merge import merge_control
from segue.proof.paths import Classifier, PathKind
from segue.proof.trees import TreeEntry, read_text
from segue.system.git.objects import Objects


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


class Comparison:
    """Two trees, file by file."""

    def __init__(
        self,
        objects: Objects,
        classifier: Classifier,
        base: Mapping[str, TreeEntry],
        head: Mapping[str, TreeEntry],
    ) -> None:
        self._objects = objects
        self.base, self.head = base, head
        paths = {**base, **head}
        self.kinds = {path: classifier.kind(path, path not in base) for path in paths}
        self.differing = sorted(path for path in paths if base.get(path) != head.get(path))

    def changed(self, *kinds: PathKind) -> tuple[str, ...]:
        """Return the paths of these kinds that differ."""
        return tuple(path for path in self.differing if self.kinds[path] in kinds)

    def added(self, *kinds: PathKind) -> tuple[str, ...]:
        """Return the paths of these kinds that only the head has."""
        return tuple(path for path in self.changed(*kinds) if path not in self.base)

    async def control_changed(self) -> tuple[str, ...]:
        """Return the control files that differ: of merged files, those whose control sections differ."""
        found = list(self.changed(PathKind.CONTROL, PathKind.SHADOW))
        for path in self.changed(PathKind.MERGED):
            base, head = await self.text("base", path), await self.text("head", path)
            if merge_control(path, base, head) != merge_control(path, head, head):
                found.append(path)
        return tuple(sorted(found))

    async def compose(self, recipe: Recipe) -> Composed:
        """Return the files of a tree."""
        entries: dict[str, TreeEntry] = {}
        texts: dict[str, bytes] = {}
        for path, kind in self.kinds.items():
            if kind is PathKind.SHADOW and recipe.control is not Control.HEAD:
                continue
            if kind is PathKind.MERGED and self.base.get(path) != self.head.get(path):
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
        return Composed(entries, texts, guarded, tests)

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
            recipe.control is Control.ADDED and merge_control(path, base, "") != merge_control(path, "", "")
        )
        control = base if ours else await self.text("head", path)
        code = await self.text(recipe.code, path)
        if merge_control(path, control, code) == merge_control(path, code, code) is not None:
            return code.encode()
        merged = merge_control(path, control, code)
        return (control if merged is None else merged).encode()

    async def text(self, side: str, path: str) -> str:
        """Return a file of the base or the head as text; empty if it does not exist."""
        return await read_text(self._objects, self.base if side == "base" else self.head, path)

    def _without_conflicts(self, entries: dict[str, TreeEntry]) -> tuple[str, ...]:
        """Remove files that stand where guarded files have a folder; return the guarded files."""
        kinds = (PathKind.TEST, PathKind.CONTROL)
        guarded = [path for path in entries if self.kinds[path] in kinds]
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


def _slashes(path: str) -> list[int]:
    return [at for at, letter in enumerate(path) if letter == "/"]
