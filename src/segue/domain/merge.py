"""What becomes of the work of two sides when they are put together."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Merged(Struct, frozen=True):
    """Two commits put together, or why that is not possible."""

    tree: str = ""
    """The tree that contains the work of both; empty if they collide."""
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


class Collision(Struct, frozen=True):
    """Why the work of a task does not fit what others have merged while it was done."""

    others: Mapping[str, str]
    """The titles of the tasks that were merged meanwhile, by their keys; empty if a person committed."""
    files: tuple[str, ...] = ()
    """The files that both have changed; empty if the work can be merged, but is not right then."""
    reason: str = ""
    """What was wrong when it was merged, such as checks that fail; empty if it could not be merged."""
    diff: str = ""
    """The change that does not fit."""
