"""A snapshot: what a work tree looks like at one moment, small enough to be written down."""

from __future__ import annotations

from msgspec import Struct


class Snapshot(Struct, frozen=True, eq=False):
    """Head, branch and a fingerprint of everything uncommitted. Equal snapshots mean: nothing changed."""

    head: str
    """The commit; empty in a repository without commits."""
    branch: str
    """The branch; empty when detached."""
    dirty: str
    """A fingerprint of uncommitted changes; empty when there are none."""
    files: tuple[str, ...] = ()
    """The paths with uncommitted changes."""
    links: tuple[str, ...] = ()
    """Folders with a repository of their own that no commit knows."""
    unmerged: tuple[str, ...] = ()
    """Files of a merge that was never finished."""

    def __eq__(self, other: object) -> bool:
        """Compare what the work tree is, not the names that follow from it."""
        return isinstance(other, Snapshot) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[str, str, str]:
        return self.head, self.branch, self.dirty


class WorkChanges(Struct, frozen=True):
    """What differs between two snapshots, and what of it must not be committed."""

    files: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    """New folders with a repository of their own: a commit would hold nothing of them but a link."""
    unmerged: tuple[str, ...] = ()
    """Files of a merge that was never finished."""
    conflicted: tuple[str, ...] = ()
    """Files with conflict markers in them."""
