"""What a source has beside its tasks: the history that the journal knows, and hooks around its tasks."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from segue.domain.proof import CheckResult
from segue.domain.task import Completion, Task, TaskStatus


class SourceHistory(Struct, frozen=True):
    """The last word of the journal about each task of a source, from all runs of the source."""

    runs: tuple[str, ...] = ()
    """The runs, oldest first; none: the journal knows nothing about the source."""
    marks: Mapping[str, Completion] = {}
    """By task, in the order in which they were marked: done, skipped, or pending again.

    Those that a source itself reported, not a run, have no `seq`.
    """
    plans: tuple[tuple[Task, ...], ...] = ()
    """Where an agent plans the tasks: every plan it made, the current one last."""
    without: frozenset[str] = frozenset()
    """Commits that a person knows to be missing from the repository."""

    @property
    def done(self) -> tuple[str, ...]:
        """The tasks that are done or skipped."""
        return tuple(key for key, mark in self.marks.items() if mark.status is not TaskStatus.PENDING)


class HookedFile(Struct, frozen=True):
    """A file as a hook of git has left it."""

    data: bytes
    mode: int


class HookRun(Struct, frozen=True):
    """What a repository's own hooks say about a commit before it is made."""

    result: CheckResult
    message: str = ""
    """The message as they have left it; empty: they refused it."""
    files: Mapping[str, HookedFile | None] = {}
    """What they changed, by path; None: they removed it."""
