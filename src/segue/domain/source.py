"""What a source has beside its tasks: the history that the journal knows, and hooks around its tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from segue.domain.proof import CheckResult
from segue.domain.task import Completion, Task, TaskStatus


class SourceHistory(Struct, frozen=True):
    """The last word of the journal about each task of a source, from all runs of the source."""

    runs: tuple[str, ...] = ()
    """The runs, oldest first; none: the journal knows nothing about the source."""
    marks: Mapping[str, Completion] = field(default_factory=dict)
    """By task, in the order in which they were marked: done, skipped, or pending again. Without details.

    Those that a source itself reported, not a run, have no `seq`.
    """
    plans: tuple[tuple[Task, ...], ...] = ()
    """Where an agent plans the tasks: every plan it made, the current one last."""
    without: frozenset[str] = frozenset()
    """Commits that a person knows to be missing from the repository."""
    details: Callable[[], Mapping[str, Completion]] | None = None
    """Reads the marks once more, with everything that was recorded with them."""

    def completions(self) -> Mapping[str, Completion]:
        """Return the marks with everything that was recorded with them: branch, session, plan, verdict."""
        return self.marks if self.details is None else self.details()

    @property
    def done(self) -> tuple[str, ...]:
        """The tasks that are done or skipped."""
        return tuple(key for key, mark in self.marks.items() if mark.status is not TaskStatus.PENDING)

    @property
    def last(self) -> tuple[str | None, int]:
        """The run that completed a task last, and the number of its event."""
        made = [mark for mark in self.marks.values() if mark.seq and mark.status is not TaskStatus.PENDING]
        if not made:
            return (self.runs[-1] if self.runs else None), 0
        newest = max(made, key=lambda mark: (self._place(mark.run), mark.seq))
        return newest.run, newest.seq

    def goes_beyond(self, run: str, seq: int) -> bool:
        """Return whether a run completed a task after a state that names this run and event was written."""
        newest, last = self.last
        return bool(newest and last) and (self._place(newest), last) > (self._place(run), seq)

    def _place(self, run: str | None) -> int:
        return self.runs.index(run) if run in self.runs else len(self.runs)


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
