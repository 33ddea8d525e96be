"""Tasks from a plan file, with completion in a state file of the (plan, repository) pair."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.errors import SegueError, SourceError, UsageError
from segue.domain.run import RunKind
from segue.domain.source import SourceHistory
from segue.domain.task import Completion, Notice, Task, TaskList, TaskStatus, text_digest
from segue.ports import Source, SourceChange, SourceRequest
from segue.sources.markdown.relations import note_waits
from segue.sources.plan import state as planstate
from segue.sources.plan.state import PlanState
from segue.sources.plan.text import INVALID, ParsedPlan, decode, listing, order
from segue.sources.plan.usual import parse
from segue.sources.state_file import foresee_tasks, restore_state, set_aside
from segue.system.beneath import UnsafeFile, read_still
from segue.system.files import signature
from segue.system.reading import LARGEST, check_inside, explain_unreadable, work_tree

CONTEXT_BYTES = 8 * 1024
_WAITS = 50
"""How many times as long as writing the state file took, until it is written again."""
_LONGEST_WAIT = 1.0
_SETTLED_NS = 2 * 10**9
"""A file that was changed longer ago cannot be changed again without a new time."""
_SETTLED_FINE_NS = 10**8
"""The same where the file system keeps fractions of a second."""
_KEPT = "Nothing was changed."


class _PlanReading(Struct, frozen=True):
    """One reading of the plan file, so that an unchanged file is not parsed again."""

    data: bytes
    digest: str
    plan: ParsedPlan
    done: dict[str, Task]
    """Each task as it looks once completed, by its key."""


class PlanFile(Source):
    """A plan file that is run in one repository."""

    kind = "planfile"
    in_files = True
    run_kind = RunKind.PLAN

    @classmethod
    def matches(cls, request: SourceRequest) -> bool:
        """Return whether anything was named: what no other source recognises is taken for a plan file."""
        return request.named is not None

    @classmethod
    def open(cls, request: SourceRequest) -> Self:
        """Open the file that was named."""
        if request.named is None:
            raise UsageError(
                "No source was named: no plan, no feature, no issues.",
                hint="Name one, such as plan.md or specs/001-login, or set source in segue.toml",
            )
        path = request.here / request.named
        check_inside(path, work_tree(request.repo))
        state = planstate.state_path(request.state_dir, path, request.repo)
        return cls(path, request.repo, state)

    def __init__(self, path: Path, repo: Path, state_path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self._named = Path(os.path.abspath(path))  # noqa: PTH100 - a link is part of the contract
        self.repo = Path(os.path.realpath(repo))
        self.state_path = state_path
        self.key = planstate.pair_key(path, repo)
        self._last: _PlanReading | None = None
        self._known: set[str] = set()
        self._seen: tuple[object, object] = (None, None)
        self._changes = 0
        self._is_forgotten = False
        self._written: tuple[object, PlanState] | None = None
        self._data: tuple[object, bytes, str] = (None, b"", "")
        self._marks: dict[str, Completion] = {}
        self._batching = False
        self._next_write = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        """The path of the plan."""
        return str(self.path)

    @property
    def title(self) -> str:
        """The name of the file."""
        return self.path.name

    @property
    def contract_files(self) -> Sequence[Path]:
        """The plan, as it was named: a link stays where it leads."""
        return (self._named,)

    def tasks(self) -> TaskList:
        """Read plan and state again; a plan with sections that belong to no task is refused."""
        reading = self._read()
        if refused := self._refusal(reading):
            raise refused
        return self._list(reading)

    def look(self) -> TaskList:
        """Return what was understood, for showing, and why `tasks` would refuse it."""
        reading = self._read()
        return replace(self._list(reading), refusal=self._refusal(reading))

    def stamp(self) -> object:
        """Return the same value as long as nobody but this object has changed plan or state."""
        now = (signature(self.path), signature(self.state_path))
        if now != self._seen:
            self._seen = now
            self._changes += 1
        return self._changes

    def context(self, task: Task) -> str:  # noqa: ARG002 - the preamble is for all tasks
        """Return the text before the first task: whole paragraphs, up to 8 KiB."""
        kept: list[str] = []
        room = CONTEXT_BYTES
        for paragraph in self._read().plan.preamble.split("\n\n"):
            room -= len(paragraph.encode("utf-8", "surrogatepass")) + 2
            if room < 0:
                break
            kept.append(paragraph)
        return "\n\n".join(kept).strip("\n")

    def announce(self, task: Task, run: str) -> None:  # noqa: ARG002 - the file is about all tasks
        """Begin the state file, so that it is there from the start of a run."""
        if self.state() is None:
            self._update(lambda old: old or PlanState("", "", run=run))

    def mark(self, task: Task, completion: Completion) -> None:
        """Record the completion in the state file, together with what others recorded meanwhile."""
        if completion.status is TaskStatus.CANCELLED:
            raise SourceError("A task can be marked as done, skipped or pending.")
        # What was read before counts too: the task's own agent may have rewritten the plan since.
        if task.key not in self._known and task.key not in self._read().done:
            raise SourceError(
                f"There is no Task {task.key} in {self.path}.", kept=_KEPT, hint="See: segue task list"
            )
        self._marks.pop(task.key, None)
        self._marks[task.key] = completion
        wait = self._next_write - time.monotonic() if self._batching else 0.0
        if wait <= 0:
            self._write_marks()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait, self._write_due)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Allow marks to wait for each other: where tasks end fast, writing them may take 2 % of the time."""
        self._batching = True
        try:
            yield
        finally:
            self._batching = False
            self._write_marks()

    def _write_due(self) -> None:
        """Write what has waited; what is wrong with the file is said at the next mark or the end."""
        self._timer = None
        with suppress(SegueError):
            self._write_marks()

    def _write_marks(self) -> None:
        """Write all marks that wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._marks:
            return
        began, marks = time.monotonic(), dict(self._marks)
        plan_hash = self._current_hash()

        def change(old: PlanState | None) -> PlanState:
            state = old or PlanState("", "")
            for key, completion in marks.items():
                state = state.after(key, completion)
            same_plan = old is not None and old.plan_hash == plan_hash
            return replace(state, task_hashes=self._task_hashes(state, list(marks) if same_plan else None))

        self._update(change)
        self._marks.clear()
        now = time.monotonic()
        self._next_write = now + min(_LONGEST_WAIT, (now - began) * _WAITS)

    def rewritten(self) -> SourceChange | None:
        """Return which completed tasks say something else now, or are gone."""
        changed = self.rewritten_tasks()
        if not changed:
            return None
        state = self.state()
        before = (state.plan_hash or "")[:12] if state else ""
        return SourceChange(
            f"{self.path} has changed since its tasks were completed (it was {before}, it is now "
            f"{self.text_hash[:12]}): completed tasks {', '.join(changed)} say something else or are gone.",
            kept=f"The record of what is done is in {self.state_path}; nothing was started.",
        )

    def restart(self) -> None:
        """Start from the first task; the record of what is done is kept aside."""
        self._write_marks()
        if self.state_path.exists():
            set_aside(self.state_path, "restarted")
        self._update(lambda _old: PlanState("", ""))

    def foresee(self, history: SourceHistory) -> TaskList:
        """Return the tasks as a run would find them; nothing is written."""
        return foresee_tasks(history, self.state, self._forget, self.look, starts_over=True)

    def _forget(self) -> None:
        self._is_forgotten = True

    def restore(self, history: SourceHistory) -> str:
        """Rebuild a state file that is missing, unreadable or older than the journal; believe any other."""

        def change(old: PlanState | None) -> PlanState:
            state = (old or PlanState("", "")).continued(history)
            digests = {key: mark.digest for key, mark in history.marks.items() if mark.digest}
            known = {key: digest for key, digest in digests.items() if state.has(key)}
            return replace(state, task_hashes={**self._task_hashes(state, None), **known})

        def rebuild(_old: PlanState | None) -> PlanState:
            return self._update(change)

        def aside() -> Path:
            return set_aside(self.state_path)

        return restore_state(self.state_path, history, self.state, rebuild, aside, starts_over=True)

    def _update(self, change: Callable[[PlanState | None], PlanState]) -> PlanState:
        """Change the state file; gives what is in it now."""
        plan_hash = self._current_hash()

        def complete(old: PlanState | None) -> PlanState:
            return replace(
                change(old), plan_path=str(self.path), repo_path=str(self.repo), plan_hash=plan_hash
            )

        before, after, state = planstate.update(self.state_path, complete, self._written)
        self._written = (after, state)
        if before == self._seen[1]:
            self._seen = (self._seen[0], after)
        return state

    def _task_hashes(self, state: PlanState, changed: list[str] | None) -> dict[str, str]:
        """Return hashes of what the completed tasks say now; only of the changed ones, if named."""
        try:
            now = self._read().done
        except SourceError:
            return dict(state.task_hashes)
        keys = [key for key in (changed or state.completed) if key in now and state.has(key)]
        kept = {} if changed is None else state.task_hashes
        return {**kept, **{key: text_digest(now[key].text) for key in keys}}

    def state(self) -> PlanState | None:
        """Return what the state file says now; its `edited` is set when somebody else wrote it."""
        self._write_marks()
        return None if self._is_forgotten else planstate.load(self.state_path)

    def recorded(self) -> Collection[str]:
        """Return the tasks that the state file counts as done or skipped."""
        state = self.state()
        return () if state is None else {*state.completed, *state.skipped}

    def rewritten_tasks(self) -> list[str]:
        """Return the completed tasks whose text has changed, or which are gone from the plan."""
        state, reading = self.state(), self._read()
        known = state.task_hashes if state else {}
        completed = state.completed if state else frozenset()
        changed = [
            key
            for key, before in known.items()
            if key in completed and (key not in reading.done or text_digest(reading.done[key].text) != before)
        ]
        return sorted(changed, key=order)

    @property
    def text_hash(self) -> str:
        """The SHA-256 of the plan file as it is now."""
        return self._read().digest

    def _read(self) -> _PlanReading:
        data, digest = self._bytes()
        if self._last is None or self._last.digest != digest:
            plan = parse(decode(data, str(self.path)))
            done = {task.key: replace(task, status=TaskStatus.DONE) for task in plan.tasks}
            self._last = _PlanReading(data, digest, plan, done)
            self._known.update(done)
        return self._last

    def _bytes(self) -> tuple[bytes, str]:
        """Return the plan and its digest; a file that nobody has touched is not read again."""
        found = signature(self.path)
        if found is None or found != self._data[0]:
            data = _bytes_of(self.path)
            known = found if found is not None and _is_settled(max(found[2:])) else None
            self._data = (known, data, hashlib.sha256(data).hexdigest())
        return self._data[1:]

    def _list(self, reading: _PlanReading) -> TaskList:
        state = self.state()
        if state is None:
            notices = (*note_waits(reading.plan.tasks), *reading.plan.notices)
            return TaskList(reading.plan.tasks, notices, reading.plan.read_as)
        completed, skipped = state.completed, set(state.skipped)
        tasks = tuple(
            reading.done[task.key] if task.key in completed else task for task in reading.plan.tasks
        )
        if skipped:
            tasks = tuple(_skipped(task) if task.key in skipped else task for task in tasks)
        about = (*_state_notices(state, reading), *note_waits(tasks))
        notices = (*about, *reading.plan.notices)
        return TaskList(tasks, notices, reading.plan.read_as)

    def _current_hash(self) -> str | None:
        try:
            return self._bytes()[1]
        except SourceError:
            return self._last.digest if self._last else None

    def _refusal(self, reading: _PlanReading) -> SourceError | None:
        """Return why the plan cannot be run: it has no tasks, or parts that belong to none."""
        lost = reading.plan.lost
        if lost:
            hint = "Fix these headings; `segue task list` shows what is understood."
            message = f"{INVALID} In {self.path} these parts belong to no task:\n{listing(lost)}"
            return SourceError(message, kept=_KEPT, hint=hint)
        if reading.plan.tasks:
            return None
        message = f"{INVALID} No heading such as `## Task 1` and no `- [ ]` box was found in {self.path}."
        return SourceError(message, kept=_KEPT, hint="Give each task a heading such as `## Task 1`.")


def _is_settled(changed_ns: int) -> bool:
    """Return whether a file that was changed then has another time as soon as it is changed again."""
    wait = _SETTLED_FINE_NS if changed_ns % 10**9 else _SETTLED_NS
    return changed_ns < time.time_ns() - wait


def _skipped(task: Task) -> Task:
    return task if task.status is TaskStatus.DONE else replace(task, status=TaskStatus.SKIPPED)


def _bytes_of(path: Path) -> bytes:
    try:
        # Only a regular file: a pipe or a device would keep us waiting for ever.
        if path.exists() and not path.is_file():
            raise SourceError(
                f"{INVALID} {path} is not a file.", kept=_KEPT, hint="Name the Markdown file itself."
            )
        data = read_still(path, LARGEST)
    except UnsafeFile as error:
        raise SourceError(f"{INVALID} {error.message}", kept=_KEPT, hint=error.hint) from error
    except OSError as error:
        message = f"{INVALID} {explain_unreadable(path, error)}"
        raise SourceError(message, kept=_KEPT, hint=_advise(path, error)) from error
    if not data.strip():
        raise SourceError(f"{INVALID} {path} is empty.", kept=_KEPT, hint="Write `## Task 1` and what to do.")
    return data


def _advise(path: Path, error: OSError) -> str:
    """Say what to do about a plan that cannot be read; one word may be meant as a goal, or as a task."""
    plan, _, key = str(path).partition("#")
    if isinstance(error, FileNotFoundError) and (path.name.isdigit() or (key and Path(plan).is_file())):
        named = f"{Path(plan).name} --task {key}" if key else f"--task {path.name}"
        return f"A task is named with --task: segue run {named}"
    if isinstance(error, FileNotFoundError) and key.isdigit() and not Path(plan).suffix:
        return (
            f"An issue on GitHub is named with github: segue run github:{Path(plan).parent.name}/{path.name}"
        )
    if isinstance(error, FileNotFoundError) and not path.suffix:
        return 'Name a file, or say in several words what to build: segue run "Build a todo app"'
    return "Check the path and who may read it."


def _state_notices(state: PlanState, reading: _PlanReading) -> list[Notice]:
    notices = []
    completed = state.completed
    if completed and state.plan_hash not in (None, reading.digest):
        text = "The plan was changed since a task was last completed; tasks are known by their numbers."
        notices.append(Notice(1, text))
    gone = sorted(completed.difference(reading.done))
    if gone:
        text = f"The state file counts tasks as done that are not in the plan: {', '.join(gone[:20])}."
        notices.append(Notice(1, text))
    return notices
