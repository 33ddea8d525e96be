"""Control files that a task left behind and that no check has needed: later tasks do not rely on them.

Otherwise one task could leave settings or plug-ins that make the checks of the next one pass.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from segue.domain.proof import CheckResult, CheckState
from segue.proof.compose import merge_control
from segue.proof.trees import TreeEntry, read_text
from segue.system.files import private_folder, write_atomic
from segue.system.git.objects import Objects

Entries = Mapping[str, TreeEntry]


class Left(msgspec.Struct, frozen=True):
    """A control file as a task left it, and as it was before; None: it did not exist."""

    now: TreeEntry
    before: TreeEntry | None = None


class Unproven:
    """What tasks of a run have left behind, for one check."""

    def __init__(self, folder: Path, argv: Sequence[str], objects: Objects) -> None:
        name = hashlib.sha256(msgspec.json.encode(list(argv))).hexdigest()[:16]
        self._file, self._argv, self._objects = folder / "unproven" / f"{name}.json", argv, objects
        self._left: dict[str, Left] = {}
        if self._file.exists():
            self._left = msgspec.json.decode(self._file.read_bytes(), type=dict[str, Left])
        self.left_out: list[str] = []

    async def leave_out(self, base: Entries) -> tuple[dict[str, TreeEntry], dict[str, str]]:
        """Return the base with such files as they were before; and texts that are in no object."""
        entries, texts = dict(base), {}
        for path, left in self._left.items():
            if base.get(path) != left.now:
                continue
            self.left_out.append(f"{path} {left.now.id}")
            if left.before is None:
                del entries[path]
                continue
            old = await read_text(self._objects, {path: left.before}, path)
            merged = merge_control(path, old, await read_text(self._objects, base, path), self._argv)
            if merged is None:
                entries[path] = left.before
            else:
                texts[path] = merged
        return entries, texts

    def note(self, idle: Collection[str], result: CheckResult, base: Entries, head: Entries) -> None:
        """Remember what a task left behind without need, and forget what its tests needed."""
        if result.state is not CheckState.PASSED:
            return
        found = {path: left for path, left in self._left.items() if path not in result.changed}
        for path in idle:
            before = self._left[path].before if path in self._left else base.get(path)
            if path in head and head[path] != before:
                found[path] = Left(head[path], before)
        if found != self._left:
            private_folder(self._file.parent)
            write_atomic(self._file, msgspec.json.encode(found))
