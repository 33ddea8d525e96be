"""Tasks from a Spec Kit feature: those of tasks.md, ticked when done."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from segue.domain.errors import SourceError
from segue.domain.run import RunKind
from segue.domain.task import Completion, Notice, Task, TaskList, TaskStatus
from segue.ports import Source, SourceFiles, SourceRequest, SourceTraits
from segue.sources.markdown import decode
from segue.sources.progress import pair_key
from segue.sources.recognise import TASKS, is_feature
from segue.sources.speckit.context import list_documents, make_tasks, note_stories, write_context
from segue.sources.speckit.feature import (
    describe_next_step,
    find_feature,
    find_unchecked,
    name_in,
    project_root,
)
from segue.sources.speckit.spec import Spec, parse_plan, parse_spec
from segue.sources.speckit.tasks import BoxTask, ParsedTasks, parse_tasks, tick
from segue.sources.waits import note_waits
from segue.sources.watched import WatchedFile
from segue.system.reading import check_inside, work_tree, write_inside

_KEPT = "Nothing was changed."


class SpecKit(Source):
    """A Spec Kit feature that is run in one repository."""

    kind = "speckit"
    in_files = True

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
        return cls(folder, request.repo)

    def __init__(self, folder: Path, repo: Path) -> None:
        self.folder = Path(os.path.realpath(folder))
        self.repo = Path(os.path.realpath(repo))
        tree = Path(os.path.realpath(work_tree(self.repo)))
        self._inside = tree if self.folder.is_relative_to(tree) else self.folder
        self.path = self.folder / TASKS
        self.key = pair_key(self.kind, str(self.folder), repo)
        self._root = Path(os.path.realpath(project_root(self.folder, {})))
        names = (TASKS, "spec.md", "plan.md")
        self._watched = {name: WatchedFile(self.folder / name, self._inside) for name in names}
        self._seen: tuple[bytes | None, ...] = ()
        self._listing = TaskList(())
        self._parsed = ParsedTasks(())
        self._spec, self._plan = Spec(), ""

    @property
    def address(self) -> str:
        """The folder of the feature."""
        return str(self.folder)

    @property
    def title(self) -> str:
        """The name of the folder."""
        return self.folder.name

    @property
    def traits(self) -> SourceTraits:
        """Each task has a branch of its own, named after the feature."""
        prefix = f"segue/{self.folder.name}"
        return SourceTraits(RunKind.FEATURE, usual_flow="spec", branch_prefix=prefix, ticked=True)

    @property
    def files(self) -> SourceFiles:
        """The documents of the feature, its ticks and progress, and the journal of Spec Kit's own engine."""
        progress = self.folder / "state.json"
        return SourceFiles(
            contract=(self.path, self.folder / "spec.md", self.folder / "plan.md"),
            written=(self.path, progress),
            ignored=(self._root / ".specify" / "workflows" / "runs",),
            documents=(self.folder, self._law),
            progress=progress,
        )

    @property
    def _law(self) -> Path:
        return self._root / ".specify" / "memory" / "constitution.md"

    def tasks(self) -> TaskList:
        """Return the tasks of the file, with criteria from spec.md."""
        seen = tuple(self._read(name) for name in self._watched)
        if not self._seen or any(new is not old for new, old in zip(seen, self._seen, strict=True)):
            self._parse(*seen)
            self._seen = seen
        return self._listing

    def context(self, task: Task) -> str:
        """Return what an agent must know around the task, and where it can read the rest."""
        self.tasks()
        place = name_in(self.repo, self.folder)
        documents = [*list_documents(self.folder, place, self._inside)]
        documents += [name_in(self.repo, self._law)] if self._law.is_file() else []
        return write_context(task, place, self._spec, self._plan, documents)

    def mark(self, task: Task, completion: Completion) -> None:
        """Tick the box of a task that is done, or open that of one which is to be done again."""
        if completion.status is TaskStatus.SKIPPED or completion.error is not None:
            return
        wanted = completion.status
        self.tasks()
        box = self._find_box(task)
        if box.status is wanted:
            return
        if wanted is TaskStatus.DONE and box.status is not TaskStatus.PENDING:
            raise SourceError(
                f"{box.key} is {box.status} in {self.path} (line {box.line}): it cannot become done.",
                kept=_KEPT,
                hint="Write `[ ]` in its box if it is to be done.",
            )
        data = self._seen[0] or b""
        text = tick(decode(data, str(self.path)), box, done=wanted is TaskStatus.DONE)
        write_inside(self.path, self._inside, text.encode())

    def _find_box(self, task: Task) -> BoxTask:
        """Return the box of a task; raises SourceError if its line says something else by now."""
        boxes = {box.key: box for box in self._parsed.tasks}
        words = _first_line(task.text)
        box = boxes.get(task.key)
        if box is not None and (box.status is TaskStatus.DONE or _first_line(box.text) == words):
            return box
        moved = [one for one in boxes.values() if _first_line(one.text) == words]
        if len(moved) == 1:
            return moved[0]
        message, hint = f"There is no task {task.key} in {self.path}.", "See: segue task list"
        if box is not None:
            message = f"Line {box.line} of {self.path} has changed: {box.key} says something else now."
            hint = "Tick its box yourself if the task is done all the same."
        raise SourceError(message, kept=_KEPT, hint=hint)

    def _parse(self, tasks: bytes | None, spec: bytes | None, plan: bytes | None) -> None:
        if tasks is None:
            message = f"There is no {TASKS} in {self.folder}."
            raise SourceError(message, kept=_KEPT, hint="Make it with /speckit.tasks.")
        self._parsed = parsed = parse_tasks(decode(tasks, str(self.path)))
        self._spec = parse_spec(decode(spec, "spec.md")) if spec is not None else Spec()
        self._plan = parse_plan(decode(plan, "plan.md")) if plan is not None else ""
        listed = make_tasks(parsed, self._spec)
        notices = [*note_waits(listed), *parsed.notices, *note_stories(parsed.tasks, self._spec)]
        if spec is None:
            text = "There is no spec.md beside tasks.md: tasks are judged by their own texts."
            notices.append(Notice(1, text))
        is_over = all(task.status is not TaskStatus.PENDING for task in listed)
        refusal = None
        if not listed:
            refusal = SourceError(
                f"No tasks were found in {self.path}: it has no box at the left margin.",
                kept=_KEPT,
                hint="Write each task as `- [ ] T001 What to do`, or run /speckit.tasks again.",
            )
        self._listing = TaskList(
            listed,
            tuple(notices),
            refusal=refusal,
            unchecked=tuple(find_unchecked(self.folder, self._inside)),
            next_step=describe_next_step(self._root) if is_over else "",
        )

    def _read(self, name: str) -> bytes | None:
        try:
            return self._watched[name].read()
        except FileNotFoundError:
            return None
        except OSError as error:
            message = f"Cannot read {self.folder / name}: {error.strerror or error}."
            raise SourceError(message, kept=_KEPT, hint="Check who may read it.") from error


def _first_line(text: str) -> str:
    return " ".join(text.split("\n", 1)[0].split())
