"""One plug-in of each kind for Segue, each as small as it can be. It imports the public interface only."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Self

from segue import (
    Action,
    Capabilities,
    Completion,
    CriterionVerdict,
    Delivered,
    Delivery,
    Event,
    Evidence,
    Finding,
    Handover,
    Installation,
    Job,
    Notification,
    Options,
    Outcome,
    Problem,
    Result,
    Review,
    ReviewSubject,
    Services,
    Severity,
    Source,
    SourceError,
    SourceRequest,
    Task,
    TaskList,
    TaskStatus,
    Verdict,
    run_program,
)


class NotebookOptions(Options, frozen=True):
    """The table `[agents.notebook]`."""

    file: str = "notebook.md"


class NotebookAgent:
    """An agent that appends every prompt to a file in the work tree."""

    Options = NotebookOptions
    name = "notebook"
    can = Capabilities(streams=True)

    def __init__(self, options: NotebookOptions, services: Services) -> None:
        self._options, self._services = options, services

    def check(self) -> list[Problem]:
        """Return what keeps it from working here."""
        return []

    def installation(self) -> Installation:
        """Return where it was found, in which version, and how it is logged in."""
        return Installation(version="1.0")

    def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Launch or adopt the program; the last item is the outcome."""
        return run_program(self._services, job, ["tee", "-a", self._options.file])

    def forget(self, token: str) -> None:
        """Delete what was kept for an adoption: the outcome is recorded."""
        self._services.processes.forget(token)


class TodoSource(Source):
    """A text file with a task per line; a line that starts with `x ` is done."""

    kind = "todo"

    def __init__(self, path: Path) -> None:
        self._path = path
        self.key = "todo-" + hashlib.sha256(str(path).encode()).hexdigest()[:20]

    @property
    def address(self) -> str:
        """The path of the file."""
        return str(self._path)

    @property
    def own_files(self) -> Sequence[Path]:
        """Segue writes the file, so it is not evidence of an agent's work."""
        return (self._path,)

    @classmethod
    def matches(cls, request: SourceRequest) -> bool:
        """Return whether a todo.txt was named."""
        return request.named is not None and request.named.endswith("todo.txt")

    @classmethod
    def open(cls, request: SourceRequest) -> Self:
        """Open the file that was named."""
        path = (request.here / (request.named or "todo.txt")).resolve()
        if not path.is_file():
            raise SourceError(f"There is no file {path}.", hint="Write a task per line")
        return cls(path)

    def tasks(self) -> TaskList:
        """Return a task for every line that says something."""
        lines = enumerate(self._path.read_text(encoding="utf-8").splitlines(), 1)
        return TaskList(tuple(_task(number, line) for number, line in lines if line.strip()))

    def mark(self, task: Task, completion: Completion) -> None:
        """Put an x before a line that is done."""
        lines = self._path.read_text(encoding="utf-8").splitlines()
        number = int(task.key) if task.key.isdigit() else 0
        if not 0 < number <= len(lines) or _task(number, lines[number - 1]).title != task.title:
            raise SourceError(f"There is no task {task.key} in {self._path}.")
        if completion.status is TaskStatus.DONE and not lines[number - 1].startswith("x "):
            lines[number - 1] = f"x {lines[number - 1]}"
            scratch = self._path.with_suffix(".new")
            scratch.write_text("\n".join(lines) + "\n", encoding="utf-8")
            scratch.replace(self._path)


def _task(number: int, line: str) -> Task:
    status = TaskStatus.DONE if line.startswith("x ") else TaskStatus.PENDING
    title = line.removeprefix("x ").strip()
    return Task(str(number), title, title, status, line=number)


class MarkerReviewer:
    """A reviewer that reports every FIXME in the Markdown files of a repository."""

    name = "markers"
    needs_commit = False

    def __init__(self, _options: Options, services: Services) -> None:
        self._repo = services.repo

    def check(self) -> list[Problem]:
        """Return what keeps it from working here."""
        return []

    async def review(self, subject: ReviewSubject, again: bool) -> Review:  # noqa: ARG002
        """Look at every Markdown file of the repository."""
        return Review(tuple(self._findings(subject.repo)))

    def _findings(self, repo: Path) -> list[Finding]:
        found = []
        for path in sorted(repo.glob("*.md")):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if "FIXME" in line:
                    name = path.name
                    found.append(Finding(f"{name}:{number}", name, number, Severity.WARNING, "FIXME", line))
        return found

    async def finish(self, subject: ReviewSubject) -> str:  # noqa: ARG002
        """End the review of a task."""
        return ""


class NonEmptyJudge:
    """A judge that is satisfied when the task changed something."""

    name = "nonempty"

    def __init__(self, _options: Options, services: Services) -> None:
        self._services = services

    def check(self) -> list[Problem]:
        """Return what keeps it from working here."""
        return []

    async def judge(self, task: Task, evidence: Evidence) -> Verdict:
        """Return one entry per criterion."""
        keys = [criterion.key for criterion in task.criteria] or ["task"]
        met = bool(evidence.diff.strip())
        criteria = tuple(CriterionVerdict(key, met, evidence.diff[:200]) for key in keys)
        if met:
            return Verdict(Result.PASS, Action.PROCEED, "Something was changed.", criteria)
        return Verdict(Result.FAIL, Action.RETRY, "Nothing was changed.", criteria)


class LogbookOptions(Options, frozen=True):
    """The table `[notifiers.logbook]`."""

    file: str


class LogbookNotifier:
    """A notifier that appends every notification to a file."""

    Options = LogbookOptions
    name = "logbook"
    timeout = 5.0

    def __init__(self, options: LogbookOptions, _services: Services) -> None:
        self._file = Path(options.file)

    async def send(self, notification: Notification) -> None:
        """Append a line."""
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"{notification.kind}: {notification.title}\n")


class ShelfOptions(Options, frozen=True):
    """The table `[deliveries.shelf]`."""

    file: str


class ShelfDelivery(Delivery):
    """A delivery that leaves the work on its branch and lists it in a file."""

    Options = ShelfOptions
    name = "shelf"

    def __init__(self, options: ShelfOptions, _services: Services) -> None:
        self._file = Path(options.file)

    async def deliver(self, work: Handover) -> Delivered:
        """Add a line for the run, once."""
        line = f"{work.branch}: {work.title}"
        listed = self._file.read_text("utf-8").splitlines() if self._file.exists() else []
        if line not in listed:
            self._file.write_text("\n".join([*listed, line]) + "\n", encoding="utf-8")
        words = f"The work is on branch {work.branch}, listed in {self._file}."
        return Delivered(words=words, kind=self.name, head=work.head, branch=work.branch)
