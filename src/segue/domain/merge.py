"""What two commits make together."""

from __future__ import annotations

from msgspec import Struct


class Merged(Struct, frozen=True):
    """The result of a merge that changed nothing yet."""

    tree: str = ""
    """What both make together; empty if they collide."""
    conflicts: tuple[str, ...] = ()
    """The files in which they collide."""
    said: str = ""
    """What git says about it."""
    marked: str = ""
    """If they collide: the tree with both versions in the files, marked as git does."""
