"""Tasks from a Spec Kit feature: those of tasks.md, ticked when done, with state.json beside them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.errors import SegueError, SourceError
from segue.domain.graph import Waits
from segue.domain.run import RunKind
from segue.domain.source import SourceHistory
from segue.domain.task import Completion, Notice, Task, TaskList, TaskStatus
from segue.ports import Source, SourceRequest
from segue.sources.markdown.lines import decode, read_lines, readable
from segue.sources.markdown.relations import note_waits
from segue.sources.plan.state import pair_key
from segue.sources.recognise import TASKS, is_feature
from segue.sources.speckit import state as speckit_state
from segue.sources.speckit.choose import describe_phase
from segue.sources.speckit.context import (
    has_last_task,
    join_sections,
    list_documents,
    list_tasks,
    note_spec,
    sections,
    story_keys,
)
from segue.sources.speckit.dependencies import find_waits
from segue.sources.speckit.project import (
    SpecKitProject,
    find_feature,
    lock_path,
    name_in,
    open_checklists,
    project_root,
    read_parsed,
    read_tasks,
)
from segue.sources.speckit.spec import Plan, Spec, parse_plan, parse_spec
from segue.sources.speckit.state import SpecState, recorded, state_notices, unticked
from segue.sources.speckit.tasks import BoxTask, ParsedTasks, find_box, fingerprint, mark_task, parse, refusal
from segue.sources.state_file import CorruptState, foresee_tasks, restore_state, set_aside
from segue.system.files import exclusive, signature
from segue.system.reading import check_inside, work_tree, write_inside

_KEPT = "Nothing was changed."
_PATIENCE = 30.0
"""Seconds to wait for somebody else to write the same files."""


class _TasksReading(Struct, frozen=True):
    """One reading of tasks.md, so that an unchanged file is not parsed again."""

    data: bytes
    parsed: ParsedTasks
    waits: Waits


class SpecKit(Source):
    """A Spec Kit feature that is run in one repository."""

    kind = "speckit"
    in_files = True
    run_kind = RunKind.FEATURE
    usual_flow = "spec"

    @classmethod
    def matches(cls, request: SourceRequest) -> bool:
        """Return whether a folder, its tasks.md or the bare name of a feature was named, or is found."""
        return is_feature(request)

    @classmethod
    def open(cls, request: SourceRequest) -> Self:
        """Open the feature that was named, or the one that Spec Kit itself would take."""
        start = request.repo if request.named is None else request.here
        folder = find_feature(request.named, start, os.environ, request.here)
        check_inside(folder, work_tree(request.repo))
        source = cls(folder, request.repo)
        if request.named is None and not (project_root(folder, {}) / ".specify").is_dir():
            text = f"Spec Kit is not set up here: there is no .specify. The feature is {source.title}."
            source._found.append(Notice(1, text))
        return source

    def __init__(self, folder: Path, repo: Path) -> None:
        self.folder = Path(os.path.realpath(folder))
        self.repo = Path(os.path.realpath(repo))
        tree = Path(os.path.realpath(work_tree(self.repo)))
        self._inside = tree if self.folder.is_relative_to(tree) else self.folder
        self.path = self.folder / TASKS
        self.state_path = self.folder / speckit_state.NAME
        self.key = pair_key(folder, repo)
        self._project = SpecKitProject(Path(os.path.realpath(project_root(self.folder, {}))))
        self._lock = lock_path(self.folder)
        self._last: _TasksReading | None = None
        self._given: dict[str, str] = {}
        self._found: list[Notice] = []
        self._healed: list[Notice] = []
        self._seen: tuple[object, ...] = ()
        self._changes = 0
        self._is_forgotten = False

    @property
    def address(self) -> str:
        """The folder of the feature."""
        return str(self.folder)

    @property
    def title(self) -> str:
        """The name of the folder."""
        return self.folder.name

    @property
    def own_files(self) -> Sequence[Path]:
        """The ticks and the state of the feature: Segue's record, not evidence of an agent's work."""
        return (self.path, self.state_path)

    @property
    def kept_out(self) -> Sequence[Path]:
        """The journal of Spec Kit's workflow engine, which writes it while Segue is one of its steps."""
        return (self._project.journal,)

    @property
    def contract_files(self) -> Sequence[Path]:
        """The tasks, and the documents that say what is wanted."""
        return (self.path, self.folder / "spec.md", self.folder / "plan.md")

    @property
    def documents(self) -> Sequence[Path]:
        """The folder of the feature, whose plan, data model and so on prompts name, and the constitution."""
        return (self.folder, self._project.law)

    @property
    def open_checklists(self) -> Sequence[str]:
        """The checklists of the feature that have unchecked items."""
        return tuple(open_checklists(self.folder, self._inside))

    @property
    def next_step(self) -> str:
        """Compare the code with the specification, once all boxes are ticked."""
        pending = any(task.status is TaskStatus.PENDING for task in self.look().tasks)
        return "" if pending else self._project.next_step()

    @property
    def branch_prefix(self) -> str:
        """Each task has a branch of its own, named after the feature."""
        return f"segue/{self.folder.name}"

    def tasks(self) -> TaskList:
        """Read everything again; boxes that a crash left open are ticked."""
        reading = self._read()
        if refused := refusal(reading.parsed, str(self.path)):
            raise refused
        state = self.state()
        self._heal(reading.parsed, state)
        parsed = self._read().parsed
        self._given.update((task.key, task.fingerprint) for task in parsed.tasks)
        return self._list(parsed, state)

    def look(self) -> TaskList:
        """Return what was understood, for showing: nothing is refused and nothing is written."""
        parsed = self._read().parsed
        return replace(self._list(parsed, self.state()), refusal=refusal(parsed, str(self.path)))

    def stamp(self) -> object:
        """Return the same value as long as a new reading would show nothing but this object's marks."""
        now = self._signatures()
        if now != self._seen:
            self._seen = now
            self._changes += 1
        return self._changes

    def context(self, task: Task) -> str:
        """Return what an agent must know around the task, and where it can read the rest."""
        constitution = self._project.constitution()
        place, rules = name_in(self.repo, self.folder), name_in(self.repo, self._project.law)
        found = sections(task, place, self._phase(task), self._spec(), self._plan(), constitution, rules)
        documents = list_documents(self.folder, place, self._inside)
        return join_sections(found, [*documents, *([f"- {rules}"] if constitution else [])])

    def _phase(self, task: Task) -> str:
        reading = self._read()
        box = next((box for box in reading.parsed.tasks if box.key == task.key), None)
        if box is None or not box.phase:
            return ""
        return describe_phase(read_lines(readable(decode(reading.data, TASKS))), box.phase, box.line)

    def announce(self, task: Task, run: str) -> None:  # noqa: ARG002 - the file is about all tasks
        """Begin the state file, so that it is there from the start of a run."""
        if self.state() is None:
            with self._own_change():
                speckit_state.save(self.state_path, SpecState(run=run), self._inside)

    def mark(self, task: Task, completion: Completion) -> None:
        """Record the end of a task and tick its box, or take a tick of ours back."""
        if completion.status is TaskStatus.DONE:
            self._complete(task, completion)
        elif completion.status is TaskStatus.PENDING:
            self._take_back(task, completion)
        elif completion.status is TaskStatus.SKIPPED:
            self.record(task, completion)
        else:
            raise SourceError("A task can be marked as done, skipped or pending.")

    def record(self, task: Task, completion: Completion) -> None:
        """Store how a task ended that is not done; its box stays as it is."""
        text = self._given.get(task.key) or self._locate(self._read().parsed, task).fingerprint
        with self._own_change():
            self._save(task.key, text, completion)

    def foresee(self, history: SourceHistory) -> TaskList:
        """Return the tasks as a run would find them; nothing is written."""
        return foresee_tasks(history, self.state, self._forget, self.look)

    def _forget(self) -> None:
        self._is_forgotten = True

    def restore(self, history: SourceHistory) -> str:
        """Rebuild a state file that is missing, unreadable or older than the journal; believe any other."""

        def rebuild(old: SpecState | None) -> SpecState:
            lines = {box.key: box.fingerprint for box in self._read().parsed.tasks}
            state = (old or SpecState()).continued(history, lines)
            with self._own_change():
                speckit_state.save(self.state_path, state, self._inside)
            return state

        def aside() -> Path:
            return set_aside(self.state_path, folder=self._lock.parent)

        try:
            return restore_state(self.state_path, history, self.state, rebuild, aside)
        except CorruptState as error:
            raise speckit_state.unusable(error) from error

    def fingerprint(self, task: Task) -> str:
        """Return what tells the line of the task from another one with the same id."""
        return self._given.get(task.key) or fingerprint(task.text)

    def restart(self) -> None:
        """Open the boxes of all tasks that Segue completed, and begin an empty state file."""
        try:
            state = self.state()
        except CorruptState:
            state = None
        with self._own_change():
            for box in self._read().parsed.tasks:
                if state and box.status is TaskStatus.DONE and state.has(box.key, box.fingerprint):
                    self._write_mark(box, done=False)
            speckit_state.save(self.state_path, SpecState(), self._inside)

    def state(self) -> SpecState | None:
        """Return what the state file says now; raises UnusableState if it cannot be understood."""
        return None if self._is_forgotten else speckit_state.load(self.state_path, self._inside)

    def recorded(self) -> Collection[str]:
        """Return the tasks that the state file counts as done or skipped."""
        state = self.state()
        return () if state is None else state.settled

    def head_branch(self) -> str | None:
        """Return the branch of the last task that was done: the next one builds on it."""
        state = self.state()
        return state.head_branch if state else None

    def head_commit(self) -> str | None:
        """Return the commit of the last task that was done on the branch the next one builds on."""
        state = self.state()
        records = state.tasks.values() if state else ()
        here = [one.commit for one in records if one.is_done and one.branch == self.head_branch()]
        return here[-1] if here else None

    def _complete(self, task: Task, completion: Completion) -> None:
        with self._own_change():
            box = self._locate(self._read().parsed, task)
            if box.status not in (TaskStatus.PENDING, TaskStatus.DONE):
                raise SourceError(
                    f"{box.key} is {box.status} in {self.path} (line {box.line}): it cannot become done.",
                    kept=_KEPT,
                    hint="Write `[ ]` in its box if it is to be done.",
                )
            # The state first: after a crash a missing tick can be restored from it, not vice versa.
            self._save(box.key, box.fingerprint, completion)
            if box.status is TaskStatus.PENDING:
                self._write_mark(box, done=True)
                self._note_last_of_story(box)

    def _take_back(self, task: Task, completion: Completion) -> None:
        with self._own_change():
            box = self._locate(self._read().parsed, task)
            state = self.state()
            ours = state is not None and state.has(box.key, box.fingerprint)
            skipped = state is not None and state.skips(box.key, box.fingerprint)
            if box.status is TaskStatus.PENDING and not ours and not skipped:
                return
            if not ours and not skipped:
                raise SourceError(
                    f"{box.key} was not ticked by Segue (line {box.line} of {self.path}).",
                    kept=_KEPT,
                    hint="Write `[ ]` in its box yourself if it is to be done again.",
                )
            # The box first: after a crash in between the task still counts as done, as before.
            if box.status is TaskStatus.DONE:
                self._write_mark(box, done=False)
            self._save(box.key, box.fingerprint, completion)
        self._changes += bool(story_keys(box, self._spec()))

    def _locate(self, parsed: ParsedTasks, task: Task) -> BoxTask:
        # What was given out counts, not what came back: secrets may have been removed from the latter.
        return find_box(parsed, task.key, self.fingerprint(task), self.path)

    def _save(self, key: str, text: str, completion: Completion) -> None:
        old = self.state()
        new = (old or SpecState()).after(key, text, completion)
        if old is None or new != old or old.edited:
            speckit_state.save(self.state_path, new, self._inside)

    def _write_mark(self, box: BoxTask, *, done: bool) -> None:
        """Change the mark in the file as it is now: an editor may have been quicker than the state."""
        reading = self._read()
        now = next((other for other in reading.parsed.tasks if other.key == box.key), None)
        wanted = TaskStatus.DONE if done else TaskStatus.PENDING
        same = now is not None and now.fingerprint == box.fingerprint
        if now and same and now.status is wanted:
            return
        if now is None or not same or now.mark.text != box.mark.text:
            raise SourceError(
                f"{self.path} was changed while {box.key} was being marked.",
                kept=f"What became of the task is in {self.state_path}.",
                hint="Run the same command again.",
            )
        write_inside(self.path, self._inside, mark_task(reading.data, reading.parsed, now, done))

    def _heal(self, parsed: ParsedTasks, state: SpecState | None) -> None:
        """Tick the boxes of tasks whose completion was recorded when something stopped us."""
        for box in unticked(parsed, state):
            text = f"{box.key} was recorded as done but its box was open: it has been ticked."
            try:
                with self._own_change():
                    self._write_mark(box, done=True)
            except SegueError as error:
                text = f"{box.key} is done, but its box could not be ticked: {error.message}"
            if Notice(box.line, text) not in self._healed:
                self._healed.append(Notice(box.line, text))

    def _list(self, parsed: ParsedTasks, state: SpecState | None) -> TaskList:
        spec = self._spec()
        boxes, waits = [recorded(box, state) for box in parsed.tasks], self._read().waits
        tasks = list_tasks(boxes, spec, parsed.independent_tests, waits)
        about_files = [
            *state_notices(boxes, state),
            *note_spec(boxes, spec, self.folder / "spec.md", self._inside),
            *note_waits(tasks),
            *self._project.note_hooks(),
        ]
        return TaskList(tasks, (*self._found, *self._healed, *about_files, *parsed.notices))

    def _note_last_of_story(self, box: BoxTask) -> None:
        """Have the tasks read again: the criteria of a story's last open task are those of the story."""
        state = self.state()
        boxes = (recorded(other, state) for other in self._read().parsed.tasks)
        if has_last_task(box, boxes, self._spec()):
            self._changes += 1

    def _read(self) -> _TasksReading:
        data = read_tasks(self.path, self._inside)
        if self._last is None or self._last.data != data:
            parsed = parse(data, str(self.path))
            waits = find_waits(parsed.tasks, read_lines(readable(decode(data, TASKS))))
            self._last = _TasksReading(data, parsed, waits)
        return self._last

    def _spec(self) -> Spec:
        return read_parsed(self.folder / "spec.md", self._inside, parse_spec, Spec())

    def _plan(self) -> Plan:
        return read_parsed(self.folder / "plan.md", self._inside, parse_plan, Plan())

    def _signatures(self) -> tuple[object, ...]:
        return tuple(signature(path) for path in (self.path, self.state_path, self.folder / "spec.md"))

    @contextmanager
    def _own_change(self) -> Iterator[None]:
        """Change the files alone; what is changed here does not count as somebody else's change."""
        with exclusive(self._lock, _PATIENCE):  # agents can hold it too: they see git's folder
            known = self._signatures() == self._seen
            try:
                yield
            finally:
                if known:
                    self._seen = self._signatures()
