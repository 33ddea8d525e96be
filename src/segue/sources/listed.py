"""What sources share that only list tasks: Segue keeps in its state folder what is done of them."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.errors import SourceError
from segue.domain.graph import sort_tasks
from segue.domain.history import SourceHistory
from segue.domain.task import Completion, Notice, Task, TaskList, text_digest
from segue.ports import Source, SourceChange
from segue.sources.kept import KeptFile, KeptMarks, pair_key
from segue.sources.markdown.stated import note_waits

KEPT = "Nothing was changed."


class Reading(Struct, frozen=True):
    """The tasks of a source as its author wrote them, and what a person should know about them."""

    tasks: tuple[Task, ...]
    notices: tuple[Notice, ...] = ()
    read_as: str = ""
    by_key: Mapping[str, Task] = {}

    @classmethod
    def of(cls, tasks: Sequence[Task], notices: Sequence[Notice] = (), read_as: str = "") -> Reading:
        """Return a reading with its tasks in an order in which they can be done."""
        by_key = {task.key: task for task in tasks}
        order = sort_tasks({task.key: task.depends_on for task in tasks})
        ordered = tuple(by_key[key] for key in order)
        return cls(ordered, (*note_waits(ordered), *notices), read_as, by_key)


class ListedSource(Source):
    """A source that is read by `_read`; completion is kept in a state file."""

    renumbers = False
    """Whether tasks are known by their places, so that a change may make another task of a completed one."""

    def __init__(self, name: str, repo: Path, state_dir: Path) -> None:
        """`name` says what is listed, the same for every way to write it."""
        self.repo = Path(os.path.realpath(repo))
        self.key = pair_key(self.kind, name, self.repo)
        self.state = KeptFile(state_dir / self.kind / f"{self.key}.json", name, self.repo)
        self._name = name
        self._seen: object = None
        self._changes = 0

    @property
    def address(self) -> str:
        """What opens it again."""
        return self._name

    @abstractmethod
    def _read(self) -> Reading:
        """Return the tasks as they are listed now; raises SourceError."""

    def _signature(self) -> object:
        """Return what differs when the list was changed by somebody else."""
        return None

    def tasks(self) -> TaskList:
        """Return the listed tasks with what is done of them."""
        reading = self._read()
        marks = self.state.load()
        known = marks.tasks if marks else {}
        tasks = tuple(
            replace(task, status=known[task.key].status) if task.key in known else task
            for task in reading.tasks
        )
        changed = self._find_changed(marks) if marks and not self.renumbers else ()
        return TaskList(tasks, (*reading.notices, *changed), reading.read_as)

    def stamp(self) -> object:
        """Return the same value as long as nobody but this object has changed list or state."""
        now = (self._signature(), self.state.signature())
        if now != self._seen:
            self._seen = now
            self._changes += 1
        return self._changes

    def mark(self, task: Task, completion: Completion) -> None:
        """Record the completion in the state file, together with what others recorded meanwhile."""
        self.check_known(task.key)
        with self._own_change():
            self.state.update(lambda marks: marks.after(task.key, completion, text_digest(task.text)))

    @contextmanager
    def _own_change(self) -> Iterator[None]:
        """Keep the stamp as it is over a change that this object makes."""
        mine = self._seen == (self._signature(), self.state.signature())
        yield
        if mine:
            self._seen = (self._signature(), self.state.signature())

    def check_known(self, key: str) -> None:
        """Raise SourceError for a task that is not listed."""
        if key not in self._read().by_key:
            raise SourceError(
                f"There is no task {key} in {self.title}.", kept=KEPT, hint="See: segue task list"
            )

    def rewritten(self) -> SourceChange | None:
        """Return which completed tasks say something else now, or are gone."""
        marks = self.state.load()
        if not self.renumbers or marks is None:
            return None
        now = self._read().by_key
        changed = [key for key in marks.completed if _is_changed(marks, key, now)]
        if not changed:
            return None
        return SourceChange(
            f"{self.title} has changed since its tasks were completed: completed tasks "
            f"{', '.join(changed)} say something else or are gone.",
            kept=f"The record of what is done is in {self.state.path}; nothing was started.",
        )

    def _find_changed(self, marks: KeptMarks) -> Iterator[Notice]:
        """Say which tasks got another text after they were done: they stay done until somebody says more."""
        now = self._read().by_key
        for key in marks.completed:
            if key in now and _is_changed(marks, key, now):
                words = f"Task {key} was changed after it was done, and stays done."
                yield Notice(now[key].line, f'{words} Send it back: segue task comment {key} "…"')

    def restart(self) -> None:
        """Start from the first task; the record of what is done is kept aside."""
        self.state.restart()

    def restore(self, history: SourceHistory) -> str:
        """Rebuild a state file that is missing, unreadable or older than the journal; believe any other."""
        try:
            now = self._read().by_key
        except SourceError:
            now = {}
        return self.state.restore(history, {key: text_digest(task.text) for key, task in now.items()})


def _is_changed(marks: KeptMarks, key: str, now: Mapping[str, Task]) -> bool:
    digest = marks.tasks[key].digest
    return digest is not None and (key not in now or text_digest(now[key].text) != digest)
