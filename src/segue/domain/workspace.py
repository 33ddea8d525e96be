"""The repository an agent works in, and snapshots of it that are small enough to be written down."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

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


class Workspace(Protocol):
    """The repository an agent works in: it provides the evidence, and results are committed to it."""

    @property
    def root(self) -> Path:
        """Its folder."""

    async def begin(self, key: str, head_branch: str | None) -> Snapshot:
        """Prepare for a task, on a branch of its own where branches are chained."""

    async def arrive(self, branches: Sequence[str], before: Snapshot) -> Snapshot:
        """Return what a launch left, here or on the branches that a cloud agent pushed."""

    async def snapshot(self) -> Snapshot:
        """Return what it looks like now."""

    async def diff(self, base: str, head: str) -> str:
        """Return what changed between two commits, as a unified diff."""

    def checkout(self, head: str) -> AbstractAsyncContextManager[Path]:
        """Provide a folder in which a commit can be inspected and tried out."""

    async def changes(self, base: Snapshot, now: Snapshot) -> WorkChanges:
        """Return what differs between two snapshots, and what of it must not be committed."""

    async def tree(self, now: Snapshot) -> str:
        """Return everything that is there now as the id of a git tree or commit."""

    async def patch(self, base: str, now: Snapshot) -> tuple[str, str]:
        """Return the same, and how it differs from a commit, as a unified diff."""

    async def tree_of(self, commit: str) -> str:
        """Return the id of what a commit contains, as `tree` would."""

    async def commit(self, message: str) -> str | None:
        """Commit everything and return the commit, or None if there was nothing to commit."""

    async def set_aside(self, message: str) -> str:
        """Take all uncommitted changes out of the work tree, keep them, and return where."""

    async def find_commit(self, base: str, mark: str) -> str | None:
        """Return the commit after `base` whose message contains the mark."""
