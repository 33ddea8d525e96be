"""What becomes of the work of two sides when they are put together."""

from __future__ import annotations

from msgspec import Struct


class Merged(Struct, frozen=True):
    """Two commits put together, or why that is not possible."""

    tree: str = ""
    """The tree that holds the work of both; empty if they collide."""
    conflicts: tuple[str, ...] = ()
    """The files that both have changed in ways that do not fit; sorted."""
    said: str = ""
    """What git says about it."""
    marked: str = ""
    """Where they collide: the tree with everything that fits, and conflict markers in the files that do not.

    Empty if the two have no history in common."""
    ours: str = ""
    """The commit of the branch that was merged into."""
    theirs: str = ""
    """The commit that was merged."""
