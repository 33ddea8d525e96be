"""A source with the record of what is done of it: the journal's, and where that knows nothing, a file's."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Self

from msgspec.structs import replace

from segue.domain.errors import SegueError, SourceError
from segue.domain.plan import revise
from segue.domain.source import SourceHistory
from segue.domain.task import Completion, Notice, Task, TaskList, TaskStatus, text_digest
from segue.ports import Source, SourceFiles, SourceRequest, SourceTraits
from segue.sources.progress import CorruptProgress, ProgressDocument, ProgressFile
from segue.system.reading import work_tree

CANNOT_PROCEED = "Cannot proceed: state file is missing or corrupted."
_ENDS = (TaskStatus.DONE, TaskStatus.SKIPPED)
_FROM_JOURNAL = "What is done is taken from the journal."


TEXT_KEY = "box-"
"""What the key of a task begins with that has no id: the rest is a digest of its words."""


def is_text_key(key: str) -> bool:
    """Return whether a task is known by its words, because it has no id."""
    return key.startswith(TEXT_KEY)


class RecordedSource(Source):
    """A source as the rest of Segue sees it: its tasks with what is done of them.

    Where an agent plans the tasks, this also keeps the plan.
    """

    def __init__(
        self,
        source: Source,
        repo: Path,
        state_dir: Path,
        history: Callable[[], SourceHistory],
        redact: Callable[[str], str] = str,
    ) -> None:
        """`history` reads what the journal knows, when that is first asked for."""
        self.source = source
        self.kind, self.key = source.kind, source.key
        self._repo = Path(os.path.realpath(repo))
        place = source.files.progress
        own = state_dir / "plans" / f"{self.key}.json"
        self.progress = ProgressFile(place or own, work_tree(self._repo) if place else None)
        self._read_history, self._redact = history, redact
        self._history: SourceHistory | None = None
        self._imported = ProgressDocument()
        self._marks: dict[str, Completion] = {}
        self._steps: tuple[Task, ...] = ()
        self._last_number = 0
        self._message = ""
        self._base: TaskList | None = None
        self._shown: TaskList | None = None
        self._names: dict[str, Task] = {}
        self._is_corrupt = False

    @classmethod
    def matches(cls, request: SourceRequest) -> bool:  # noqa: ARG003 - nobody names it
        """Return False: the source inside is the one that is named."""
        return False

    @classmethod
    def open(cls, request: SourceRequest) -> Self:
        """Refuse: the source inside is the one that is opened."""
        raise NotImplementedError

    @property
    def address(self) -> str:
        """What opens it again."""
        return self.source.address

    @property
    def title(self) -> str:
        """How lists call it."""
        return self.source.title

    @property
    def traits(self) -> SourceTraits:
        """How it is usually run."""
        return self.source.traits

    @property
    def files(self) -> SourceFiles:
        """Its files in the work tree."""
        return self.source.files

    @property
    def goal(self) -> str | None:
        """What an agent plans the tasks for; None: the source lists them."""
        return self.source.goal

    @property
    def outline(self) -> RecordedSource | None:
        """Itself, where an agent plans the tasks."""
        return self if self.goal is not None else None

    def begin(self, history: SourceHistory, *, restart: bool = False) -> None:
        """Take over what the journal knows; where it knows nothing, what the progress file says."""
        self._marks, self._imported = dict(history.marks), ProgressDocument()
        self._message, self._base, self._shown = "", None, None
        self._set_plan(history.plans)
        found: ProgressDocument | None = None
        try:
            found = self.progress.read()
        except CorruptProgress as error:
            self._explain_corrupt(error, refuse=not (history.runs or restart))
        else:
            if found is None and history.done:
                self._message = f"{_FROM_JOURNAL} The state file is missing."
        self._history = history
        if found is not None and not history.plans and found.steps:
            self._set_plan((found.steps,))
        if found is not None and not (history.marks or history.plans):
            self._imported = found
            self._marks = found.completions()
            if self._marks:
                self._message = (
                    f"The journal does not know {self.title}. Tasks done according to its state file: "
                    f"{', '.join(self._marks)}. {self.progress.path}"
                )

    def _explain_corrupt(self, error: CorruptProgress, refuse: bool) -> None:
        self._is_corrupt = True
        if not refuse:
            self._message = f"{_FROM_JOURNAL} {error.message}"
        elif self.files.progress is not None:
            raise SourceError(
                CANNOT_PROCEED, kept=error.kept, hint=f"{error.message} {error.hint}"
            ) from error
        else:
            self._message = f"The run starts with the first task. {error.message}"

    def take_message(self) -> str:
        """Return what to say about the progress file, once; until then it is among the notices."""
        self._load()
        message, self._message, self._shown = self._message, "", None
        return message

    def tasks(self) -> TaskList:
        """Return the tasks with what is done of them; raises SourceError if they cannot be worked on."""
        listing = self.look()
        if listing.refusal is not None:
            raise listing.refusal
        healed = tuple(self._tick(listing)) if self.traits.ticked else ()
        return replace(self.look(), notices=(*healed, *listing.notices)) if healed else listing

    def look(self) -> TaskList:
        """Return the tasks for showing: nothing is refused, nothing is written."""
        self._load()
        base = TaskList(self._steps) if self.outline else self.source.tasks()
        if self._shown is None or base is not self._base:
            self._show(base)
        assert self._shown is not None
        return self._shown

    def context(self, task: Task) -> str:
        """Return what the agent should know beside the task's own text."""
        if self.goal is None:
            return self.source.context(task)
        rows = [
            f"[{'this step' if step.key == task.key else step.status}] {step.key}: {step.title}"
            for step in self.look().tasks
        ]
        return "\n".join([f"The goal: {self.goal}", "", "The steps of the plan:", *rows])

    def mark(self, task: Task, completion: Completion) -> None:
        """Record how a task ended, and write it back where the source has a place for it."""
        self._load()
        named = self._names.get(task.key) or {one.key: one for one in self.look().tasks}.get(task.key)
        if named is None:
            raise SourceError(
                f"There is no task {task.key} in {self.title}.",
                kept="Nothing was changed.",
                hint="See: segue task list",
            )
        completion = replace(completion, digest=completion.digest or text_digest(task.text))
        self._marks.pop(task.key, None)
        self._marks[task.key] = completion
        self._write()
        # What the source gave out counts: secrets may have been removed from what comes back.
        self.source.mark(named if self._redact(named.text) == task.text else task, completion)
        if self._shown is not None and (completion.status in _ENDS or completion.error is None):
            tasks = tuple(
                replace(one, status=completion.status) if one.key == task.key else one
                for one in self._shown.tasks
            )
            self._shown = replace(self._shown, tasks=tasks)

    def restart(self) -> None:
        """Start from the first task, and from the first plan."""
        self._load()
        named = {task.key: task for task in self.look().tasks}
        for key, mark in list(self._marks.items()):
            if mark.status in _ENDS and key in named:
                self.source.mark(named[key], replace(mark, status=TaskStatus.PENDING, error=None))
        self._marks, self._steps = {}, ()
        self._imported, self._message = ProgressDocument(), ""
        self._base = self._shown = None
        self._write()

    def recorded(self) -> Collection[str]:
        """Return the tasks that the record counts as done or skipped."""
        self._load()
        return {key for key, mark in self._marks.items() if mark.status in _ENDS}

    def unrecorded(self) -> list[Task]:
        """Return the tasks that are ticked in the file, and that no run did."""
        known = self.recorded() if self.traits.ticked else ()
        listed = self.look().tasks if self.traits.ticked else ()
        return [task for task in listed if task.status is TaskStatus.DONE and task.key not in known]

    def changed(self) -> list[str]:
        """Return the completed tasks that say something else now or are gone, where numbers name tasks."""
        if not self.traits.numbered:
            return []
        self._load()
        now = {task.key: task for task in self.look().tasks}
        done = {key: mark for key, mark in self._marks.items() if mark.status is TaskStatus.DONE}
        return [key for key, mark in done.items() if key not in now or self._differs(mark, now[key])]

    def head_branch(self) -> str | None:
        """Return the branch of the task that was done last, where each has its own: the next builds on it."""
        return head.branch if (head := self._head()) else None

    def head_commit(self) -> str | None:
        """Return the commit that this branch was at when its task was done."""
        return head.commit if (head := self._head()) else None

    def _head(self) -> Completion | None:
        if self.traits.branch_prefix is None:
            return None
        self._load()
        done = [end for end in self._marks.values() if end.status is TaskStatus.DONE and end.branch]
        if done:
            return done[-1]
        branch = self._imported.head_branch
        return Completion(TaskStatus.DONE, "", 0, branch=branch) if branch else None

    def is_planned(self) -> bool:
        """Return whether there is a plan."""
        self._load()
        return bool(self._steps)

    def last_number(self) -> int:
        """Return the highest number that a step has ever had: new steps are counted from there."""
        self._load()
        return self._last_number

    def revise(self, steps: Sequence[Task], run: str) -> None:  # noqa: ARG002 - the journal has the run
        """Replace all steps that are not completed; those that are stay as they are."""
        new = revise(self.look().tasks, steps)
        if new != self._steps:
            self._set_plan((new,))
            self._shown = replace(self._shown, version=self._shown.version + 1) if self._shown else None
            self._write()

    def _load(self) -> SourceHistory:
        if self._history is None:
            self.begin(self._read_history())
        assert self._history is not None
        return self._history

    def _set_plan(self, plans: Sequence[Sequence[Task]]) -> None:
        numbers = [int(step.key) for plan in plans for step in plan if step.key.isdecimal()]
        self._last_number = max([self._last_number, *numbers])
        self._steps = tuple(plans[-1]) if plans else ()
        self._base = None

    def _show(self, base: TaskList) -> None:
        """Put the record over what the source lists; a new version if others have changed anything."""
        tasks = tuple(self._with_status(task) for task in base.tasks)
        notices = (*([Notice(None, self._message)] if self._message else ()), *self._note_changes(base.tasks))
        before = self._shown
        version = 0 if before is None else before.version + (tasks != before.tasks)
        self._base = base
        self._shown = replace(base, tasks=tasks, notices=(*notices, *base.notices), version=version)
        self._names |= {task.key: task for task in base.tasks}

    def _with_status(self, task: Task) -> Task:
        mark = self._marks.get(task.key)
        if mark is None:
            return task
        if self.goal is not None:
            return task if task.status is mark.status else replace(task, status=mark.status)
        counts = mark.status in _ENDS and not (self.traits.ticked and self._differs(mark, task))
        return replace(task, status=mark.status) if counts and task.status is TaskStatus.PENDING else task

    def _differs(self, mark: Completion, task: Task) -> bool:
        """Return whether a mark was made for another task with the same key."""
        if mark.digest is None or mark.digest == text_digest(task.text):
            return False
        return mark.digest != text_digest(self._redact(task.text))

    def _note_changes(self, tasks: Sequence[Task]) -> Iterator[Notice]:
        """Name the tasks that were changed after they were done."""
        if self.traits.numbered or self.goal is not None:
            return
        for task in tasks:
            mark = self._marks.get(task.key)
            if mark is None or mark.status is not TaskStatus.DONE or not self._differs(mark, task):
                continue
            if self.traits.ticked and task.status is TaskStatus.PENDING:
                text = f"{task.key} was done once but says something else now: it is pending again."
            else:
                text = (
                    f"Task {task.key} was changed after it was done, and stays done. "
                    f'Send it back: segue task say {task.key} "…"'
                )
            yield Notice(task.line, text)

    def _tick(self, listing: TaskList) -> Iterator[Notice]:
        """Tick the boxes of tasks that the journal knows as done, as after a crash."""
        assert self._base is not None
        for task, shown in zip(self._base.tasks, listing.tasks, strict=True):
            if task.status is TaskStatus.PENDING and shown.status is TaskStatus.DONE:
                text = f"{task.key} was recorded as done but its box was open: it has been ticked."
                try:
                    self.source.mark(task, self._marks[task.key])
                except SegueError as error:
                    text = f"{task.key} is done, but its box could not be ticked: {error.message}"
                yield Notice(task.line, text)

    def _write(self) -> None:
        if self._is_corrupt:
            self.progress.set_aside()
            self._is_corrupt = False
        place = (self.address, self._repo)
        self.progress.write(ProgressDocument.of(place, self._marks, self.head_branch(), self._steps))
