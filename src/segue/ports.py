"""Every socket, on one page. Read this first.

Data flows one way: source → flow → agent → events → store → view.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar

from msgspec import Struct, field

from segue.domain.delivery import Delivered, Feedback, FeedbackItem, Target
from segue.domain.events import Event, Recorded
from segue.domain.job import Job
from segue.domain.notification import Notification
from segue.domain.outcome import Outcome
from segue.domain.results import Nothing, Output, StepResult
from segue.domain.run import Run, RunKind, RunSpec, RunState, Step, StepState
from segue.domain.source import SourceHistory, SourceHook
from segue.domain.task import Completion, Task, TaskList, text_digest
from segue.domain.verdict import DismissReason, Evidence, Finding, Hit, Review, Verdict
from segue.domain.workspace import Snapshot, WorkChanges


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
    unstoppable: bool = False
    """Keeps working when Segue stops waiting for it: only its own page can stop it."""


class Installation(Struct, frozen=True):
    """An agent as it is installed on this machine."""

    program: str | None = None
    """Where it was found; None if it was not, or if it is a cloud service."""
    version: str | None = None
    login: str | None = None
    """How it is logged in (`ANTHROPIC_API_KEY`, `logged in`); None: it is not, or needs no login."""


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
    uses: ClassVar[Collection[str]] = ()
    """Those of `plan_format`, `task_list`, `verify`, `criteria` and `ignore_checklists` that it uses."""

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
    def hooks(self) -> Sequence[SourceHook]:
        """What others want done before its first task and after its last one."""
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

    def context(self, task: Task) -> str:  # noqa: ARG002 - a source without context needs no task
        """Return what the agent should know beside the task's own text; untrusted, may be empty."""
        return ""

    def announce(self, task: Task, run: str) -> None:  # noqa: ARG002 - most sources have nobody to tell
        """Tell those who follow the source that work on a task begins. Telling twice is telling once."""
        return

    def record(self, task: Task, completion: Completion) -> None:  # noqa: ARG002
        """Store how a task failed; it stays pending."""
        return

    def fingerprint(self, task: Task) -> str:
        """Return what tells the task from another one with the same key."""
        return text_digest(task.text)

    def head_branch(self) -> str | None:
        """Return the branch the next task starts from, where branches are chained."""
        return None

    def rewritten(self) -> SourceChange | None:
        """Return what changed about tasks that are done, so that a person must decide; None: nothing."""
        return None

    def restart(self) -> None:
        """Forget what is done, so that all tasks are pending; must not look like a lost record afterwards."""
        return

    def restore(self, history: SourceHistory) -> str:  # noqa: ARG002 - a source without a record of its own
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


class Searcher(Protocol):
    """A web search service."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name it is configured by."""

    @abstractmethod
    async def search(self, query: str) -> list[Hit]:
        """Return what the service finds, best first; raises SearchFailed."""


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


class Workspace(Protocol):
    """The repository an agent works in: it provides the evidence, and results are committed to it."""

    @property
    def root(self) -> Path:
        """Its folder."""

    async def begin(self, key: str, head_branch: str | None) -> Snapshot:
        """Prepare for a task, on a branch of its own where branches are chained."""

    async def arrive(self, branches: Sequence[str], before: Snapshot) -> Snapshot:
        """Return what a launch left, here or on the branches that a cloud agent pushed."""

    async def snapshot(self) -> Snapshot:
        """Return what it looks like now."""

    async def diff(self, base: str, head: str) -> str:
        """Return what changed between two commits, as a unified diff."""

    def checkout(self, head: str) -> AbstractAsyncContextManager[Path]:
        """Provide a folder in which a commit can be inspected and tried out."""

    async def changes(self, base: Snapshot, now: Snapshot) -> WorkChanges:
        """Return what differs between two snapshots, and what of it must not be committed."""

    async def tree(self, now: Snapshot) -> str:
        """Return everything that is there now as the id of a git tree or commit."""

    async def patch(self, base: str, now: Snapshot) -> tuple[str, str]:
        """Return the same, and how it differs from a commit, as a unified diff."""

    async def tree_of(self, commit: str) -> str:
        """Return the id of what a commit contains, as `tree` would."""

    async def commit(self, message: str) -> str | None:
        """Commit everything and return the commit, or None if there was nothing to commit."""

    async def set_aside(self, message: str) -> str:
        """Take all uncommitted changes out of the work tree, keep them, and return where."""

    async def find_commit(self, base: str, mark: str) -> str | None:
        """Return the commit after `base` whose message contains the mark."""


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


class ReviewSubject(Struct, frozen=True):
    """What a reviewer reviews: the commits after `base` up to `head`."""

    repo: Path
    base: str
    head: str
    task: str
    token: str
    """Names this review for programs that are started through the supervisor."""


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
    async def dismiss(
        self, subject: ReviewSubject, dismissed: Sequence[tuple[Finding, DismissReason]]
    ) -> None:
        """Report to the reviewer which findings are not addressed, and why."""

    @abstractmethod
    async def finish(self, subject: ReviewSubject) -> str:
        """End the review of a task (or of the run); return a warning, or an empty text."""


class Handover(Struct, frozen=True, kw_only=True):
    """The finished work of a run, and the only two ways in which a delivery may move it."""

    run: str
    branch: str
    """The branch that has the work and nothing else; in the user's repository."""
    head: str
    """The commit it is at."""
    target: Target
    title: str
    text: str
    """What is known about the work, as Markdown: the proof card. Words of others in it link to nobody."""
    level: str = ""
    """The weakest level of proof of its tasks; empty: not all of them are done."""
    ready: bool = True
    """Whether everything that the run was asked for is done and proven."""
    token: str = ""
    """Names this delivery: a second try after a crash has the same one."""
    push: Callable[[], Awaitable[None]]
    """Pushes the branch to the remote under its own name, never by force; raises WorkspaceError."""
    merge: Callable[[], Awaitable[str]]
    """Merges the branch into the one the user is on; returns why that is not possible, or nothing."""


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

    async def check(self, target: Target) -> list[Problem]:  # noqa: ARG002 - a local one has nothing to check
        """Return what keeps it from delivering there, before any work is done; empty if it is ready."""
        return []

    @abstractmethod
    async def deliver(self, work: Handover) -> Delivered:
        """Deliver the work. What an earlier call for the same run has made is found again and updated.

        Raises Unavailable if a service cannot be reached now, and SegueError for what a person must fix.
        """

    async def feedback(self, target: Target, delivered: Delivered) -> Feedback | None:  # noqa: ARG002
        """Return what others say about delivered work; None: nobody can say anything there."""
        return None

    async def answer(
        self,
        target: Target,  # noqa: ARG002
        delivered: Delivered,  # noqa: ARG002
        item: FeedbackItem,  # noqa: ARG002
        text: str,  # noqa: ARG002
        mark: str,  # noqa: ARG002
    ) -> None:
        """Answer where the item came from, once: an answer with this mark is not given again."""
        return


class StepFacts(Struct, frozen=True):
    """What the journal stores of a step before it begins."""

    task: str | None = None
    phase: str | None = None
    attempt: int = 1
    agent: str | None = None
    model: str | None = None
    build_phase: str | None = None
    input: Output = field(default_factory=Nothing)


R = TypeVar("R", bound=Output)
T = TypeVar("T")

Work = Callable[[str], Awaitable[StepResult[R]]]
"""The effect of a step. It gets the step's token and must pass it on to the outside world."""

Reconcile = Callable[[str], Awaitable[StepResult[R] | None]]
"""Looks the token of an interrupted step up in the outside world; None: it never happened."""


Statement = tuple[str, Sequence[object]]
"""One change to the database, and its values."""

Pack = Callable[[Step], Awaitable[Statement | None]]
"""Returns what stores the work as a step has left it; None: it has not changed."""


class Carrier(Protocol):
    """Takes the work of a run along that any machine may continue."""

    moved: bool
    """Whether another machine has worked on the run before this one."""
    slots: Mapping[str, int]
    """How many launches of an agent may be at work at once on all machines."""

    def confirm(self) -> Statement:
        """Make sure that nobody has driven the run since its work was brought here; raises Locked.

        Returns what writes down that this machine drives it from now on.
        """

    def disconnect(self) -> None:
        """Close the connection to the database: agents may work for hours, and connections are few."""

    def stored(self, spec: RunSpec) -> RunSpec:
        """Return what other machines read: nothing in it is a path of this one."""

    async def pack(self, step: Step) -> Statement | None:
        """Return what stores the work as a step has left it; None: it has not changed."""

    async def deliver(self) -> str:
        """Hand the work over to the people who asked for it; say where it is."""


class Journal(Protocol):
    """Durable execution of one run: what was done once is not done again."""

    @property
    def run(self) -> Run:
        """The run this journal belongs to."""

    def steps(self, prefix: str = "") -> list[Step]:
        """Return the current steps whose key starts with the prefix, in the order they started."""

    def state(self, key: str) -> StepState | None:
        """Return the state of a step; None if it never began."""

    def recorded(self, key: str, kind: type[R]) -> StepResult[R] | None:
        """Return the result of a step that has ended; None when there is still something to do."""

    async def step(
        self,
        key: str,
        kind: type[R],
        work: Work[R],
        reconcile: Reconcile[R] | None = None,
        facts: StepFacts | None = None,
    ) -> StepResult[R]:
        """Return the recorded result, or record the intent, do the work and record its result.

        A step that was interrupted is entered again with the same token: first `reconcile`, if
        given; if that finds nothing, `work`. Events emitted inside are committed with the result.
        `kind` is the type of the step's output.
        """

    async def record(self, key: str, result: StepResult[R], facts: StepFacts | None = None) -> StepResult[R]:
        """Store a step that needs no intent, because repeating it after a crash does no harm.

        Returns what was recorded first. It is stored with the next transaction, at the latest soon after.
        """

    def once_stored(self, call: Callable[[], None]) -> None:
        """Call as soon as everything up to now is stored."""

    async def emit(self, event: Event, step: str | None = None) -> Recorded:
        """Append an event. Events are stored in order, in batches, at the latest with the step's result."""

    def redact(self, value: T) -> T:
        """Return a typed value as it would be stored: without control sequences and secrets."""

    async def respec(self, spec: RunSpec) -> None:
        """Record that the run continues with other options."""

    def begin(self, spec: RunSpec) -> None:
        """Record, with the next event, that the run is at work, with these options."""

    def carry(self, pack: Pack, first: Statement) -> None:
        """Write the state of the work with the outcome of every step from now on; `first` before all that."""

    async def redo(self, prefix: str) -> None:
        """Start a new generation of the steps under the prefix; the old rows are kept."""

    async def sleep(self, name: str, until: float) -> None:
        """Sleep until the instant (seconds since the epoch), across restarts."""

    async def wait(self, topic: str, timeout: float | None = None) -> dict[str, Any] | None:
        """Wait for a signal on the topic, also one sent before; None after the timeout."""

    async def set_state(self, state: RunState, note: str = "", wake: float | None = None) -> None:
        """Set the state of the run."""

    def slot(self, backend: str, limit: int) -> AbstractAsyncContextManager[None]:
        """Hold one of the slots of a backend, counted across all processes that share the store."""


class Observer(Protocol):
    """Sees events as they happen: the live table, the log, JSON lines."""

    def __call__(self, event: Recorded, /) -> None:
        """See one event. Must return quickly and never raise."""


class QueryLimits(Struct, frozen=True):
    """How much a question to the dataset may cost, when a program asks it on behalf of others."""

    rows: int
    seconds: float


class Store(Protocol):
    """Where runs, steps and events are stored."""

    def __enter__(self) -> Store:
        """Use the store in a `with` block, which closes it."""

    def __exit__(self, *exc: object) -> None:
        """Close the connections."""

    def version(self) -> int:
        """Return the number of the newest migration that was applied."""

    def create(self, source_key: str, spec: RunSpec) -> Run:
        """Add a run."""

    def discard(self, run_id: str) -> None:
        """Remove a run that could not start: one without a step."""

    def enqueue(self, wanted: Mapping[str, tuple[str, RunSpec]], at: float | None = None) -> int:
        """Add runs that others will drive, each with its id and source key; return how many are new.

        They begin at an instant, if one is given.
        """

    async def open(self, run_id: str, observers: Sequence[Observer] = ()) -> Journal:
        """Claim the run and open its journal. Raises Locked while its owner lives."""

    async def close(self, journal: Journal) -> None:
        """Flush, release the run."""

    def send(self, run_id: str, topic: str, payload: dict[str, Any], signal_id: str | None = None) -> bool:
        """Send a signal to a run; return False if one with this id was sent before."""

    def wait_for_change(self, timeout: float) -> bool:
        """Wait until somebody writes to the store, or the timeout; return whether somebody did."""

    def run(self, run_id: str) -> Run | None:
        """Return a run by its id or a unique prefix of it."""

    def runs(
        self, source_key: str | None = None, limit: int | None = None, kinds: Collection[RunKind] = ()
    ) -> list[Run]:
        """Return the runs, newest first; of one source or of some kinds only."""

    def steps(self, run_id: str) -> list[Step]:
        """Return all steps of a run, of all generations, in the order they started."""

    def events(
        self,
        run_id: str,
        after: int = 0,
        limit: int | None = None,
        kinds: Collection[type[Event]] = (),
    ) -> Iterable[Recorded]:
        """Return the events of a run with a number above `after`, in order; of some kinds, or all."""

    def query(
        self, sql: str, arguments: Sequence[object] = (), limits: QueryLimits | None = None
    ) -> list[dict[str, Any]]:
        """Ask the dataset a question, in SQL that both databases understand, with `?` for arguments.

        With limits, it is a single SELECT, the first rows are returned, and StoreError is raised if it takes
        too long.
        """

    def answer(
        self, sql: str, arguments: Sequence[object] = (), limits: QueryLimits | None = None
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Answer like `query`, with the names of the columns and the rows as they are."""

    def table(
        self, name: str, as_text: bool = False, runs: Sequence[str] | None = None
    ) -> Iterable[list[dict[str, Any]]]:
        """Return all rows of `runs`, `steps`, `events`, `signals` or `prompts`, in batches.

        A view such as `segue_attempts` is typed: instants are dates, flags booleans. JSON is decoded, or
        left `as_text`; `runs` leaves out the rows of others.
        """
