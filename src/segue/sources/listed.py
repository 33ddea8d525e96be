"""What sources share that only list tasks: Segue keeps in its state folder what is done of them.

`KeptFile` is that record, for one source in one repository.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from segue.domain.errors import SourceError
from segue.domain.graph import sort_tasks
from segue.domain.source import SourceHistory
from segue.domain.task import Completion, Notice, Task, TaskList, TaskStatus, text_digest
from segue.ports import Source, SourceChange
from segue.sources.markdown.relations import note_waits
from segue.sources.state_file import CorruptState, foresee_tasks, read_state, restore_state, set_aside
from segue.system.files import exclusive, private_folder, signature, write_atomic

SCHEMA = 1
_LARGEST = 64 * 1024**2


class KeptMark(Struct, frozen=True, omit_defaults=True):
    """How one task was completed."""

    status: TaskStatus
    run: str
    seq: int = 0
    commit: str | None = None
    digest: str | None = None
    """Of what the task said then."""


class KeptMarks(Struct, frozen=True):
    """What the state file says."""

    source: str
    repo_path: str
    tasks: Mapping[str, KeptMark] = field(default_factory=dict)
    run: str | None = None
    seq: int = 0
    digest: str = ""
    """Of everything else: another one shows that somebody edited the file."""
    schema: int = SCHEMA

    @property
    def completed(self) -> list[str]:
        """The tasks that are done."""
        return [key for key, mark in self.tasks.items() if mark.status is TaskStatus.DONE]

    @property
    def edited(self) -> bool:
        """True if somebody other than Segue wrote the file."""
        return self.digest != _digest(self)

    def after(self, key: str, completion: Completion, digest: str | None) -> KeptMarks:
        """Return the state once a completion is recorded."""
        run, seq = completion.run, completion.seq
        known = self.tasks.get(key)
        if completion.status is TaskStatus.PENDING:
            rest = {other: mark for other, mark in self.tasks.items() if other != key}
            return replace(self, tasks=rest, run=run, seq=seq)
        # The record of a later task is not undone when an earlier step is repeated after a crash.
        if known is not None and known.status is completion.status and run == self.run and seq < self.seq:
            return self
        mark = KeptMark(completion.status, run, seq, completion.commit, digest)
        return replace(self, tasks={**self.tasks, key: mark}, run=run, seq=seq)


class KeptFile:
    """The state file of one source in one repository."""

    def __init__(self, path: Path, source: str, repo: Path) -> None:
        self.path = path
        self._is_forgotten = False
        self._new = KeptMarks(source, str(repo))

    def load(self) -> KeptMarks | None:
        """Return what it says; None if there is no file. Raises CorruptState."""
        data = None if self._is_forgotten else read_state(self.path, limit=_LARGEST)
        if data is None:
            return None
        try:
            found = msgspec.json.decode(data, type=KeptMarks)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise CorruptState(self.path, str(error)) from error
        if found.schema != SCHEMA:
            newer = found.schema > SCHEMA
            raise CorruptState(self.path, f"it has schema {found.schema}, not {SCHEMA}", newer=newer)
        return found

    def forget(self) -> None:
        """Look as if there were no file."""
        self._is_forgotten = True

    def update(self, change: Callable[[KeptMarks], KeptMarks]) -> KeptMarks:
        """Change what is in the file now, alone; return what is in it then."""
        private_folder(self.path.parent)
        with exclusive(self.path.with_name(self.path.name + ".lock")):
            old = self.load()
            new = change(old or self._new)
            new = replace(new, digest=_digest(new))
            if new != old:
                text = json.dumps(msgspec.to_builtins(new), indent=1)
                write_atomic(self.path, text.encode(), durable=False)  # the journal has it too
            return new

    def restart(self) -> None:
        """Forget what is done; the record is kept aside."""
        if self.path.exists():
            set_aside(self.path, "restarted")
        self.update(lambda old: old)

    def restore(self, history: SourceHistory, digests: Mapping[str, str]) -> str:
        """Rebuild a file that is missing, unreadable or older than the journal; believe any other."""

        def change(state: KeptMarks) -> KeptMarks:
            for key, mark in history.completions().items():
                state = state.after(key, mark, mark.digest or digests.get(key))
            run, seq = history.last
            return replace(state, run=run, seq=seq)

        return restore_state(
            self.path, history, self.load, lambda _old: self.update(change), lambda: set_aside(self.path)
        )

    def signature(self) -> object:
        """Return what differs whenever the file was written in between."""
        return signature(self.path)


def pair_key(kind: str, name: str, repo: Path) -> str:
    """Return the name of a (source, repository) pair."""
    pair = json.dumps([kind, name, os.path.realpath(repo)])
    digest = hashlib.sha256(pair.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    stem = re.sub(r"[^\w.-]+", "-", Path(name).stem).strip("-.")[:40]
    return f"{kind}-{stem}-{digest}" if stem else f"{kind}-{digest}"


def _digest(marks: KeptMarks) -> str:
    document: Any = msgspec.to_builtins(replace(marks, digest=""))
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


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
    """True if tasks are known by their places, so that a change may make another task of a completed one."""

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
                yield Notice(now[key].line, f'{words} Send it back: segue task say {key} "…"')

    def restart(self) -> None:
        """Start from the first task; the record of what is done is kept aside."""
        self.state.restart()

    def foresee(self, history: SourceHistory) -> TaskList:
        """Return the tasks as a run would find them; nothing is written."""
        return foresee_tasks(history, self.state.load, self.state.forget, self.look)

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
