"""A snapshot: what a work tree looks like at one moment, small enough to be written down."""

from __future__ import annotations

from dataclasses import dataclass, field


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
