"""The repository an agent works in: snapshots of it, what changed between two, merges, and diffs by file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    tree: str = field(default="", compare=False)
    """What is uncommitted as a git tree, if somebody may want to return to it."""


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


_HEADER = "diff --git "


class FileDiff(Struct, frozen=True):
    """What changed in one file; the texts of all files together are the diff."""

    path: str
    text: str


def split_diff(diff: str) -> list[FileDiff]:
    """Return the parts of a diff. Lines before the first header have no path."""
    parts: list[list[str]] = [[]]
    # Only "\n" ends a line of a diff: a file may contain every other character that Python takes for one.
    for line in diff.split("\n"):
        if line.startswith(_HEADER):
            parts.append([])
        parts[-1].append(line)
    ends = ["\n"] * (len(parts) - 1) + [""]
    texts = ["\n".join(lines) + end for lines, end in zip(parts, ends, strict=True) if lines]
    return [FileDiff(_path(text), text) for text in texts if text]


def _path(text: str) -> str:
    """Return the path after the change, or before it when the file is gone."""
    head = text.partition("\n@@")[0].split("\n")
    for mark in ("+++ ", "--- "):
        for line in head:
            if line.startswith(mark) and line != f"{mark}/dev/null":
                return _bare(line.removeprefix(mark))
    # Without hunks, as for an empty file, only the header names it: `a/x b/x`, quoted where git must.
    name = head[0].removeprefix(_HEADER).replace('"b/', "b/")
    return _bare(name.rpartition(" b/")[2]) if head[0].startswith(_HEADER) else ""


def _bare(path: str) -> str:
    """Return the path without git's quotes and its `a/` or `b/`."""
    return path.rstrip("\t").strip('"').removeprefix("a/").removeprefix("b/")
