"""A command on a tree: what it needs and may use, and how it ends."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from segue.domain.errors import ToolMissing
from segue.proof.disguise import Disguise
from segue.proof.runners import Ended
from segue.system.opened import OpenedFiles
from segue.system.process.capture import Captured, TookTooLong

KEPT_OUTPUT = 8 * 1024**2
"""Bytes of a command's output that are kept."""
SHARED_OBJECTS = ".git/shared"
"""Where a tree with a git folder of its own has git's objects."""


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
    built_at: Path | None = None
    """Where dependencies were installed, if that was in another folder."""
    guarded: Sequence[str] = ()
    """Files that the command must not change."""
    is_open: bool = False
    """Whether nothing keeps it from doing so, and it is only noticed."""
    readable: Sequence[Path] = ()
    writable: Sequence[Path] = ()
    objects: Path | None = None
    """Git's objects, where the tree has a git folder of its own, which reads them as `.git/shared`."""
    watched: Collection[str] = ()
    """Files of the tree of which is noticed whether they are opened."""
    disguise: Disguise = Disguise.WATCHED


async def run_bounded(running: Awaitable[Captured], order: TreeCommand) -> Ended:
    """Return how a command ends, and which of the watched files it has opened."""
    with OpenedFiles(order.tree, order.watched) as opened:
        ended = await _bound(running)
    return replace(ended, opened=opened.found)


async def _bound(running: Awaitable[Captured]) -> Ended:
    """Return how a command ends; one that takes too long has no exit code."""
    try:
        done = await running
    except TookTooLong as late:
        return Ended(None, late.out.decode("utf-8", "replace"), late.err.decode("utf-8", "replace"))
    except ToolMissing as error:
        return Ended(127, "", error.message)
    return Ended(done.exit_code, done.out.decode("utf-8", "replace"), done.err.decode("utf-8", "replace"))
