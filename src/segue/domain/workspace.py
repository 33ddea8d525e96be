"""A snapshot: what a work tree looks like at one moment, small enough to be written down."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Head, branch and a fingerprint of everything uncommitted. Equal snapshots mean: nothing changed."""

    head: str
    """The commit; empty in a repository without commits."""
    branch: str
    """The branch; empty when detached."""
    dirty: str
    """A fingerprint of uncommitted changes; empty when there are none."""
    files: tuple[str, ...] = field(default=(), compare=False)
    """The paths with uncommitted changes."""
    links: tuple[str, ...] = field(default=(), compare=False)
    """Folders with a repository of their own that no commit knows."""
    unmerged: tuple[str, ...] = field(default=(), compare=False)
    """Files of a merge that was never finished."""
    heavy: tuple[str, ...] = field(default=(), compare=False)
    """Files with uncommitted changes that are too large for git, each with its size."""


class WorkChanges(Struct, frozen=True):
    """What differs between two snapshots, and what of it must not be committed."""

    files: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    """New folders with a repository of their own: a commit would hold nothing of them but a link."""
    unmerged: tuple[str, ...] = ()
    """Files of a merge that was never finished."""
    conflicted: tuple[str, ...] = ()
    """Files with conflict markers in them."""
    heavy: tuple[str, ...] = ()
    """Files that are too large for git, each with its size: a commit would be without them."""
