"""A task: one piece of work, and what a source understood of its file."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.errors import SegueError
from segue.domain.graph import Dependency
from segue.domain.verdict import Criterion, Verdict


class TaskStatus(StrEnum):
    """What the source says about a task."""

    PENDING = "pending"
    DONE = "done"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class TaskKind(StrEnum):
    """What a task asks for decides what proves it."""

    BUILD = "build"
    TEST_FIRST = "test-first"
    """Write a test that fails now."""
    VERIFY_ONLY = "verify-only"
    """Run something and look at the result; nothing needs to change."""
    DOCS = "docs"
    """Documentation or configuration."""
    HUMAN = "human"
    """A person must do or decide it."""


class Task(Struct, frozen=True):
    """One piece of work."""

    key: str
    title: str
    text: str
    status: TaskStatus = TaskStatus.PENDING
    line: int | None = None
    story: str | None = None
    criteria: tuple[Criterion, ...] = ()
    story_tasks: tuple[str, ...] = ()
    """Where a story ends with this task: the keys of all its tasks, in order, this one included."""
    independent_test: str = ""
    """How that story is tried out on its own, in its author's words."""
    kind: TaskKind = TaskKind.BUILD
    kind_is_given: bool = False
    """Whether somebody has decided the kind; until then it is recognised by the words of the task."""
    section: str = ""
    """The headings and notes above it, where they help to understand it."""
    depends_on: tuple[Dependency, ...] = ()
    """What must be done before it."""
    parallel: bool = False
    """Whether its author says that it can be done beside its neighbours: `[P]`."""
    phase: str = ""
    """The heading of the phase it belongs to."""
    checkpoint: str = ""
    """What must be true after it, where the source has a checkpoint there."""
    build_phase: str | None = None
    """setup, schema, backend, frontend, testing or deployment, where an agent has planned the task."""


def text_digest(text: str) -> str:
    """Return a short digest of the text of a task."""
    import hashlib  # loads OpenSSL

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def without_secrets(task: Task, redact: Callable[[str], str]) -> Task:
    """Return the task with all its words redacted."""
    criteria = tuple(replace(criterion, text=redact(criterion.text)) for criterion in task.criteria)
    return replace(
        task,
        title=redact(task.title),
        text=redact(task.text),
        criteria=criteria,
        independent_test=redact(task.independent_test),
        section=redact(task.section),
    )


class Notice(Struct, frozen=True):
    """Something in the source that a person should know about."""

    line: int | None
    """Where it is, in a source that has lines."""
    text: str

    def show(self, address: str) -> str:
        """Return the notice with its place."""
        return f"{address}: {self.text}" if self.line is None else f"{address}:{self.line}: {self.text}"


class TaskList(Struct, frozen=True):
    """The tasks of a source in the order in which they are run, and the notices."""

    tasks: tuple[Task, ...]
    notices: tuple[Notice, ...] = ()
    read_as: str = ""
    """One line that says in which form the tasks were found, where there are several."""
    refusal: SegueError | None = None
    """Why the source cannot be worked on as it is, although it can be shown."""


class Completion(Struct, frozen=True):
    """What is written back to the source when a task ends."""

    status: TaskStatus
    run: str
    seq: int
    commit: str | None = None
    plan: str | None = None
    branch: str | None = None
    session: str | None = None
    agent_id: str | None = None
    """The vendor's own id of a cloud agent."""
    url: str | None = None
    """Its page."""
    verdict: Verdict | None = None
    error: str | None = None
    attempts: int = 0
    digest: str | None = None
    """Of the task's text when it ended; None where older versions did not record it."""
