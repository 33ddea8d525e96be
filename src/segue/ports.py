"""Every socket that others may fill, on one page. Read this first.

Data flows one way: source → flow → agent → events → store → view.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from msgspec import Struct, field

from segue.domain.delivery import Delivered, Feedback, FeedbackItem, Target
from segue.domain.delivery import Handover as Handover
from segue.domain.events import Event, Recorded
from segue.domain.job import Job
from segue.domain.notification import Notification
from segue.domain.outcome import Outcome
from segue.domain.run import RunKind
from segue.domain.source import SourceHistory
from segue.domain.task import Completion, Task, TaskList, text_digest
from segue.domain.verdict import Evidence, Review, Verdict
from segue.domain.verdict import ReviewSubject as ReviewSubject


class Problem(Struct, frozen=True):
    """Something that keeps a part from working, and the command or setting that fixes it."""

    message: str
    fix: str = ""
    exit_code: int = 2


class Capabilities(Struct, frozen=True):
    """What an agent can do. Caps on usage are refused for agents that do not report it."""

    edits: bool = True
    plan_mode: bool = False
    ask_mode: bool = False
    follow_up: bool = False
    cloud: bool = False
    streams: bool = False
    reports_usage: bool = False
    reports_cost: bool = False
    marks_prompt: bool = False
    """Adds a last line to the first prompt of a task, by which its launch is found again."""


class Installation(Struct, frozen=True):
    """An agent as it is installed on this machine."""

    program: str | None = None
    """Where it was found; None if it was not, or if it is a cloud service."""
    version: str | None = None
    login: str | None = None
    """How it is logged in (`ANTHROPIC_API_KEY`, `logged in`); None: it is not, or needs no login."""
    untold: str = ""
    """What it does not tell, such as `when its model refuses`: it then looks as if nothing was to be done."""


class Agent(Protocol):
    """A program or service that does the work."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name it is configured by."""

    @property
    @abstractmethod
    def can(self) -> Capabilities:
        """What it can do."""

    @abstractmethod
    def check(self) -> list[Problem]:
        """Return what keeps it from working here; empty if it is ready."""

    @abstractmethod
    def installation(self) -> Installation:
        """Return where it was found, in which version, and how it is logged in."""

    @abstractmethod
    def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Do the job and yield what is seen, and at last how it ended.

        A second call with the same token adopts the first launch; it never starts another one.
        Closing the iterator early ends the agent with all its children.
        """

    @abstractmethod
    def forget(self, token: str) -> None:
        """Delete what was kept for an adoption: the outcome is recorded."""


@runtime_checkable
class HearingAgent(Protocol):
    """An agent that can be told more while it works; it yields `WordsDelivered` once it has read it."""

    @abstractmethod
    def tell(self, token: str, number: int, text: str) -> None:
        """Tell the agent of this job more. The same number again is the same words: they are told once."""


class SourceRequest(Struct, frozen=True):
    """What `segue run` was given, for a source to recognise and open."""

    named: str | None
    """What the user named: a path, an address, a sentence; None: nothing."""
    repo: Path
    """The repository to work in."""
    state_dir: Path
    """Where Segue keeps its files."""
    here: Path
    """The folder the user is in: relative paths start here."""
    configured: bool = False
    """Whether the name comes from the settings, not from the command line."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The table `[sources.NAME]`; of built-in sources the settings that concern them."""
    redact: Callable[[str], str] = str
    """Removes secrets from a text that will be stored."""


class Source(Protocol):
    """Where tasks come from, and where completion is written back.

    Subclass it and define what has no default: `kind`, `key`, `address`, `matches`, `open`, `tasks`, `mark`.
    """

    kind: str
    """The name it is registered under."""
    key: str
    """A stable name of this source in this repository: the same command finds its unfinished run by it."""

    @property
    @abstractmethod
    def address(self) -> str:
        """What opens it again: a path, a URL, a sentence."""

    @classmethod
    @abstractmethod
    def matches(cls, request: SourceRequest) -> bool:
        """Return whether this kind of source is meant."""

    @classmethod
    @abstractmethod
    def open(cls, request: SourceRequest) -> Self:
        """Open what was named; raises SourceError or UsageError."""

    @abstractmethod
    def tasks(self) -> TaskList:
        """Read the source again; raises SourceError when it cannot be worked on as it is."""

    @abstractmethod
    def mark(self, task: Task, completion: Completion) -> None:
        """Write completion back, atomically. Marking twice is the same as marking once."""

    def batch(self) -> AbstractContextManager[None]:
        """Allow marks inside the block to be written together, a moment later; all are written at its end."""
        return nullcontext()

    @property
    def run_kind(self) -> RunKind:
        """The kind of the runs that work on it."""
        return RunKind.TASKS

    @property
    def usual_flow(self) -> str | None:
        """The flow it is usually run with; None: the agent's."""
        return None

    @property
    def title(self) -> str:
        """How lists call it."""
        return self.address

    @property
    def outline(self) -> Outline | None:
        """Itself, when its tasks are planned by an agent."""
        return None

    @property
    def own_files(self) -> Sequence[Path]:
        """Files in the work tree that Segue writes: never evidence of an agent's work, never committed."""
        return ()

    @property
    def kept_out(self) -> Sequence[Path]:
        """More files and folders that are neither evidence nor committed; other tools write them."""
        return ()

    @property
    def contract_files(self) -> Sequence[Path]:
        """Files that say what is to be done; the first one lists the tasks. Agents have no say in them."""
        return ()

    @property
    def documents(self) -> Sequence[Path]:
        """Files and folders that prompts point to instead of quoting them; agents must see them."""
        return ()

    @property
    def open_checklists(self) -> Sequence[str]:
        """What people have not checked yet that should be before the first task, a sentence each."""
        return ()

    @property
    def next_step(self) -> str:
        """What a person may do when all tasks are done, in a sentence; empty: nothing."""
        return ""

    @property
    def branch_prefix(self) -> str | None:
        """Where each task gets a branch of its own, what their names start with; None: the user's branch."""
        return None

    def look(self) -> TaskList:
        """Read the source for showing: nothing is refused, nothing is written."""
        return self.tasks()

    def stamp(self) -> object:
        """Return the same value as long as reading again would show nothing new but this object's marks."""
        return object()

    def context(self, task: Task) -> str:
        """Return what the agent should know beside the task's own text; untrusted, may be empty."""
        return ""

    def announce(self, task: Task, run: str) -> None:
        """Tell those who follow the source that work on a task begins. Telling twice is telling once."""
        return

    def record(self, task: Task, completion: Completion) -> None:
        """Store how a task failed; it stays pending."""
        return

    def fingerprint(self, task: Task) -> str:
        """Return what tells the task from another one with the same key."""
        return text_digest(task.text)

    def head_branch(self) -> str | None:
        """Return the branch the next task starts from, where branches are chained."""
        return None

    def head_commit(self) -> str | None:
        """Return the commit that this branch was at when its task was done."""
        return None

    def rewritten(self) -> SourceChange | None:
        """Return what changed about tasks that are done, so that a person must decide; None: nothing."""
        return None

    def foresee(self, history: SourceHistory) -> TaskList:
        """Return the tasks as a run would find them after `restore`; from then on it is for looking only."""
        return self.look()

    def recorded(self) -> Collection[str] | None:
        """Return the tasks that its own record counts as done or skipped; None: its marks are the record."""
        return None

    def restart(self) -> None:
        """Forget what is done, so that all tasks are pending; must not look like a lost record afterwards."""
        return

    def restore(self, history: SourceHistory) -> str:
        """Compare the source's own record of what is done with the journal's, before a run starts or resumes.

        A record that is missing, unreadable or older is rebuilt from the journal; one that a person edited,
        or that another machine wrote, is believed. Returns what to say about that, or nothing; raises
        SourceError when the record is unusable and the journal knows no run of the source.
        """
        return ""


class SourceChange(Struct, frozen=True):
    """Completed tasks that changed afterwards, in words."""

    message: str
    kept: str = ""


class Outline(Protocol):
    """A source whose tasks an agent plans: one sentence goes in, steps come out."""

    @property
    def goal(self) -> str:
        """What the user asked for; untrusted."""

    def is_planned(self) -> bool:
        """Return whether there is a plan."""

    def tasks(self) -> TaskList:
        """Return the steps of the plan, all of them."""

    def last_number(self) -> int:
        """Return the highest number a step has ever had: new ones are counted from there."""

    def revise(self, steps: Sequence[Task], run: str) -> None:
        """Replace all steps that are not completed, atomically; those that are stay as they are."""


class Notifier(Protocol):
    """A way to reach people who are not watching."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name it is configured by."""

    @property
    @abstractmethod
    def timeout(self) -> float:
        """Seconds that sending may take."""

    @abstractmethod
    async def send(self, notification: Notification) -> None:
        """Send it; raises NotifyError with a sentence for people that contains no secret.

        Title, text and link are bounded, free of control characters and redacted; they are still untrusted.
        """


class Judge(Protocol):
    """Decides from the evidence whether a task is done.

    One that looks at nothing but the checks says so with `by_checks = True`: then there must be checks, and
    whether one that was contested counts is for others to decide. One that asks the model of `[judge]` says
    `by_model = True` and gets that table as its options.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name it is configured by."""

    @abstractmethod
    def check(self) -> list[Problem]:
        """Return what keeps it from working here; empty if it is ready."""

    @abstractmethod
    async def judge(self, task: Task, evidence: Evidence) -> Verdict:
        """Return a verdict with one entry per criterion.

        Raises Unavailable if it cannot be reached now, which is waited for, and JudgeFailed if there is no
        usable answer.
        """


class Reviewer(Protocol):
    """Reviews what an agent did."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name it is configured by."""

    @property
    @abstractmethod
    def needs_commit(self) -> bool:
        """True if it sees commits only."""

    @abstractmethod
    def check(self) -> list[Problem]:
        """Return what keeps it from working here; empty if it is ready."""

    @abstractmethod
    async def review(self, subject: ReviewSubject, again: bool) -> Review:
        """Review the subject; `again` after the agent has addressed earlier findings."""

    @abstractmethod
    async def finish(self, subject: ReviewSubject) -> str:
        """End the review of a task (or of the run); return a warning, or an empty text."""


class Delivery(Protocol):
    """What happens with the work of a run when it ends. Subclass it and define `name` and `deliver`."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name it is configured by."""

    merges: ClassVar[bool] = False
    """Whether it brings the work into the user's own branch, so that the run's is not needed any more."""
    leaves: ClassVar[bool] = False
    """Whether it does nothing with the branch, so that nothing is missing when it cannot be called."""

    @property
    def needs_remote(self) -> bool:
        """Whether it pushes: then the target is a branch of the remote."""
        return False

    async def check(self, target: Target) -> list[Problem]:
        """Return what keeps it from delivering there, before any work is done; empty if it is ready."""
        return []

    @abstractmethod
    async def deliver(self, work: Handover) -> Delivered:
        """Deliver the work. What an earlier call for the same run has made is found again and updated.

        Raises Unavailable if a service cannot be reached now, and SegueError for what a person must fix.
        """

    async def feedback(self, target: Target, delivered: Delivered) -> Feedback | None:
        """Return what others say about delivered work; None: nobody can say anything there."""
        return None

    async def answer(
        self, target: Target, delivered: Delivered, item: FeedbackItem, text: str, mark: str
    ) -> None:
        """Answer where the item came from, once: an answer with this mark is not given again."""
        return


class Observer(Protocol):
    """Sees events as they happen: the live table, the log, JSON lines."""

    def __call__(self, event: Recorded, /) -> None:
        """See one event. Must return quickly and never raise."""
