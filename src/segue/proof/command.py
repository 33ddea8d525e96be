"""A command on a tree: what it needs and may use, and how it ends."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from segue.domain.errors import ToolMissing
from segue.proof.runners import Ended
from segue.system.process.capture import Captured, TookTooLong

KEPT_OUTPUT = 8 * 1024**2
"""Bytes of a command's output that are kept."""


class TreeCommand(Struct, frozen=True):
    """A command on a tree."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    work: Path
    """The folder of this run."""
    tree: Path
    network: bool
    timeout: float
    inputs: Mapping[str, Path] = field(default_factory=dict)
    """Folders of dependencies by their path in the tree."""
    guarded: Sequence[str] = ()
    """Files of which is noticed whether the command writes them."""
    readable: Sequence[Path] = ()
    writable: Sequence[Path] = ()
    objects: Path | None = None
    """Git's objects, where the tree has a git folder of its own, which reads them as `.git/shared`."""


async def run_noticing(running: Awaitable[Captured], order: TreeCommand) -> Ended:
    """Return how a command ends, and which of the guarded files it has written."""
    before = _note(order)
    ended = await _bound(running)
    after = _note(order)
    return replace(ended, changed=tuple(path for path in before if before[path] != after[path]))


def _note(order: TreeCommand) -> dict[str, tuple[int, int]]:
    """Return facts about files that no program can forge."""
    found = {}
    for path in order.guarded:
        try:
            facts = os.lstat(order.tree / path)
            found[path] = facts.st_ino, facts.st_ctime_ns
        except OSError:
            found[path] = 0, 0
    return found


async def _bound(running: Awaitable[Captured]) -> Ended:
    """Return how a command ends; one that takes too long has no exit code."""
    try:
        done = await running
    except TookTooLong as late:
        return Ended(None, late.out.decode("utf-8", "replace"), late.err.decode("utf-8", "replace"))
    except ToolMissing as error:
        return Ended(127, "", error.message)
    return Ended(done.exit_code, done.out.decode("utf-8", "replace"), done.err.decode("utf-8", "replace"))
