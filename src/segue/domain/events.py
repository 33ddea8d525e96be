"""Everything that can be observed, as one typed union. Store, terminal, page and log see the same values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec

from segue.domain.outcome import Failure, FailureKind, Outcome, Usage
from segue.domain.proof import BaseCheck, CheckResult, Level, Proof, Tampering
from segue.domain.task import Task, TaskKind
from segue.domain.verdict import Action, CriterionVerdict, Hit, Result, Verdict
from segue.plugins import EVENTS as FEATURE_EVENTS
from segue.plugins import import_name

NOT_ISOLATED = "not isolated"
"""What is said everywhere about agents that worked without a sandbox."""


def join_isolation(before: str, now: str) -> str:
    """Return the sandbox of a run after another session: one session without counts for the whole run."""
    return NOT_ISOLATED if before == NOT_ISOLATED else now


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing observed. Agents emit `agent.…`; features have kinds of their own."""

    type: ClassVar[str] = ""

    def describe(self) -> str | None:
        """Return one line for people; of the core's own events, `reports.event_text` has the words."""
        return None


class RunStarted(Event, frozen=True):
    """A new run begins."""

    type: ClassVar[str] = "run.started"
    source: str
    repo: str
    agent: str
    flow: str
    model: str | None = None
    tasks: tuple[str, ...] = ()
    """The keys the run is limited to; empty: all."""
    base: str = ""
    """The branch of the remote that cloud agents start from."""
    isolation: str = ""
    """The sandbox of the agents, such as `bwrap standard`, or `not isolated`; empty: not known, or they work
    elsewhere."""
    segue: str = ""
    """The version of Segue."""


class RunResumed(Event, frozen=True):
    """Another process continues a run."""

    type: ClassVar[str] = "run.resumed"
    source: str
    repo: str
    agent: str
    flow: str
    model: str | None = None
    tasks: tuple[str, ...] = ()
    last_seen: int | None = None
    """When the process before was last heard of, in milliseconds since the epoch."""
    isolation: str = ""
    """The sandbox of the agents in this session."""
    segue: str = ""
    """The version of Segue."""


class RunParked(Event, frozen=True):
    """The run waits for a usage limit to end."""

    type: ClassVar[str] = "run.parked"
    task: str
    until: float
    """Seconds since the epoch."""


class WaitBegan(Event, frozen=True):
    """A service is away and is waited for."""

    type: ClassVar[str] = "wait.began"
    service: str
    reason: str
    until: float
    """When the run is parked if it is still away, in seconds since the epoch."""


class WaitEnded(Event, frozen=True):
    """A service that was waited for is back."""

    type: ClassVar[str] = "wait.ended"
    service: str
    seconds: float
    """How long it was waited for."""


class RunEnded(Event, frozen=True):
    """A process ends its work on a run."""

    type: ClassVar[str] = "run.ended"
    state: str
    note: str = ""


class StateImported(Event, frozen=True):
    """The source and the journal disagreed about what is done; `text` says which of them was believed."""

    type: ClassVar[str] = "state.imported"
    text: str
    task: str | None = None
    """The one task that is pending again; None: `done` and `skipped` say all."""
    done: dict[str, str] | None = None
    """The tasks that are done from now on, with digests of their texts; None in events of older versions."""
    skipped: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    """Commits that are recorded but not in the repository, where a person said that their tasks are done."""


class NoticeGiven(Event, frozen=True):
    """Something a person should know."""

    type: ClassVar[str] = "notice"
    text: str
    line: int | None = None
    task: str | None = None


class BudgetPassed(Event, frozen=True):
    """A launch used more than a cap allows, because its agent did not report that in time."""

    type: ClassVar[str] = "budget.passed"
    task: str
    """Empty: the launch belongs to the whole run."""
    text: str
    """By how much."""


class TaskStarted(Event, frozen=True):
    """Work on a task begins, or continues after an interruption."""

    type: ClassVar[str] = "task.started"
    task: str
    title: str
    kind: TaskKind = TaskKind.BUILD
    lane: int = 0
    """The lane it is worked on in; 0: the run works on one task at a time."""
    after: str = ""
    """The task whose end let it begin, where several are worked on at once; `why` says why it waited."""
    why: str = ""
    text: str = ""
    """All that the task says beside its title, so that the record alone tells what was asked for."""


class TaskWaiting(Event, frozen=True):
    """A task cannot begin yet, because it waits for others; `why` says why."""

    type: ClassVar[str] = "task.waiting"
    task: str
    by: tuple[str, ...]
    why: str


class TaskMerged(Event, frozen=True):
    """The work of a task is on the branch of the run, together with that of all tasks before it."""

    type: ClassVar[str] = "task.merged"
    task: str
    commit: str
    """What the branch is at now."""
    before: str
    """What it was at before."""


class TaskCollided(Event, frozen=True):
    """The work of a task does not fit what others have merged meanwhile; `then` says what follows."""

    type: ClassVar[str] = "task.collided"
    task: str
    tasks: tuple[str, ...]
    """The tasks whose work it collides with."""
    files: tuple[str, ...]
    reason: str
    then: Literal["again", "resolve", "human"]


class TaskMarked(Event, frozen=True):
    """The end of a task is written to its source; `by` is set when a person decided."""

    type: ClassVar[str] = "task.marked"
    task: str
    done: bool
    by: str | None = None
    reason: str = ""
    skipped: bool = False
    digest: str = ""
    """Of the task's text, so that another task with the same key is not taken for it."""


class GateReached(Event, frozen=True):
    """The run waits for a person after a task; `text` is what should be true there."""

    type: ClassVar[str] = "gate.reached"
    task: str
    text: str


class GatePassed(Event, frozen=True):
    """A person has let the run continue."""

    type: ClassVar[str] = "gate.passed"
    task: str


PLAN_GATE = "plan"
"""Takes the place of a task where the plan of a build is meant."""


Delivery = Literal["session", "turn", "launch", "late"]
"""How words reach an agent: in its session, at its next turn, or with the prompt of its next launch; `late`:
when it was done."""
SEGUE = "Segue"
"""Who says something that counts for the agent at work alone."""


class TaskCommented(Event, frozen=True):
    """A person says something about a task, or about the plan; the agent gets the words."""

    type: ClassVar[str] = "task.commented"
    task: str
    text: str
    by: str
    id: str = ""
    """Under which it was sent to the process that drives the run, which takes it once."""
    how: Delivery = "launch"
    """How the agent gets it, as far as that could be known."""


class WordsDelivered(Event, frozen=True):
    """An agent has got what was said about its task."""

    type: ClassVar[str] = "words.delivered"
    words: tuple[int, ...]
    """The numbers of the events that said it."""
    how: Delivery


class TaskBlocked(Event, frozen=True):
    """A task is not begun, because others that it waits for are not done."""

    type: ClassVar[str] = "task.blocked"
    task: str
    title: str
    by: tuple[str, ...]
    why: str = ""
    """Why it waits for them."""


class TaskEnded(Event, frozen=True):
    """A task is done, skipped, planned again or needs a human."""

    type: ClassVar[str] = "task.ended"
    task: str
    done: bool
    reason: str = ""
    attempts: int = 0
    commit: str | None = None
    remaining: int = 0
    """Review findings that are still open."""
    branch: str | None = None
    skipped: bool = False
    replanned: bool = False
    proof: Proof | None = None
    """How it was proven, when it is done."""


class WorkKept(Event, frozen=True):
    """What a failed task left in the work tree was put aside for another task, or is back there."""

    type: ClassVar[str] = "work.kept"
    task: str
    ref: str = ""
    """The ref under which it is kept; empty: it is in the work tree again."""
    files: tuple[str, ...] = ()


class ContractMade(Event, frozen=True):
    """What the run set out to do. Agents have no say in it."""

    type: ClassVar[str] = "contract"
    base: str
    """The commit it starts from."""
    tasks: int
    digest: str
    """Of the text, the criteria and the kind of all tasks."""
    checks: tuple[str, ...] = ()
    require: Level | None = None
    files: dict[str, str] = {}
    """Digests of the files that agents must not change."""


class BaseChecked(Event, frozen=True):
    """The checks ran on what the run begins with, before an agent is launched: what fails is known."""

    type: ClassVar[str] = "base.checked"
    base: str
    """The commit."""
    checks: tuple[BaseCheck, ...]


class Tampered(Event, frozen=True):
    """An agent changed something that decides whether its work counts."""

    type: ClassVar[str] = "tampering"
    task: str
    findings: tuple[Tampering, ...]


class StepStarted(Event, frozen=True):
    """The intent of a step is recorded. `base` and `end` have none: repeating them does no harm."""

    type: ClassVar[str] = "step.started"
    gen: int
    token: str
    task: str | None = None
    phase: str | None = None
    attempt: int = 1
    agent: str | None = None
    model: str | None = None
    build_phase: str | None = None
    proves: bool = False
    """Whether it runs checks: its time counts as proving."""


class StepAdopted(Event, frozen=True):
    """An interrupted step is entered again."""

    type: ClassVar[str] = "step.adopted"
    gen: int
    token: str


class StepEnded(Event, frozen=True):
    """The outcome of a step is recorded."""

    type: ClassVar[str] = "step.ended"
    gen: int
    ok: bool
    ms: int = 0


class PromptSent(Event, frozen=True):
    """An agent is about to get a prompt; its text is in `orchestrator_prompts`, under the digest."""

    type: ClassVar[str] = "prompt"
    digest: str
    length: int
    text: str | None = None
    """Set while the event is on its way; stored once under the digest."""


class VerdictGiven(Event, frozen=True):
    """The conclusion from an attempt, or from a judge."""

    type: ClassVar[str] = "verdict"
    task: str
    result: Result
    action: Action
    reason: str = ""
    criteria: tuple[CriterionVerdict, ...] = ()
    request: str = ""
    caveats: tuple[str, ...] = ()
    checks: tuple[CheckResult, ...] = ()

    @classmethod
    def of(cls, task: str, verdict: Verdict, checks: tuple[CheckResult, ...] = ()) -> VerdictGiven:
        """Return the event for a verdict."""
        return cls(task, checks=checks, **msgspec.structs.asdict(verdict))


class ErrorSeen(Event, frozen=True):
    """A failure, in the same form whoever had it: most questions to the dataset are about these."""

    type: ClassVar[str] = "error"
    kind: str
    message: str
    signature: str
    task: str | None = None
    phase: str | None = None
    build_phase: str | None = None
    failure: FailureKind | None = None
    exit_code: int | None = None
    stderr_tail: str = ""
    commands_run: tuple[str, ...] = ()
    tool: str | None = None
    command: str | None = None


class CheckRun(Event, frozen=True):
    """A check has run on the work."""

    type: ClassVar[str] = "check"
    task: str
    command: str
    exit_code: int | None
    output: str = ""
    seconds: float = 0.0
    build_phase: str | None = None
    found: dict[str, Any] | None = None
    """The full report, of checks that have one."""
    result: CheckResult | None = None
    """What the check says about the task, without the output above; None: only its exit code is known."""


class SearchDone(Event, frozen=True):
    """Something was looked up on the web."""

    type: ClassVar[str] = "search"
    task: str
    query: str
    source: str
    results: tuple[Hit, ...] = ()
    number: int = 1
    failure: str = ""
    build_phase: str | None = None


class DiagnosticRun(Event, frozen=True):
    """A command that a judge asked for was run or refused."""

    type: ClassVar[str] = "diagnostic"
    task: str
    command: str
    allowed: bool
    reason: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    output: str = ""
    build_phase: str | None = None


class PlanRevised(Event, frozen=True):
    """An agent has planned the steps, or planned them again."""

    type: ClassVar[str] = "plan.revised"
    task: str
    reason: str
    titles: dict[str, str]
    old: tuple[Task, ...] = ()
    new: tuple[Task, ...] = ()


class AgentChosen(Event, frozen=True):
    """Who does a task was decided, and why: at its beginning, or after its work was refused."""

    type: ClassVar[str] = "agent.chosen"
    task: str
    kind: TaskKind
    agent: str
    """`agent`, or `agent:model`."""
    reason: str
    rung: int = 0
    """Its place among those who may do the task, the weakest first."""
    before: str = ""
    """Whose work was refused; empty: the task begins."""


class AgentReplaced(Event, frozen=True):
    """An agent cannot work and another one takes over."""

    type: ClassVar[str] = "fallback"
    task: str
    phase: str
    agent: str
    next: str
    kind: FailureKind
    reason: str
    until: float | None = None


class Committed(Event, frozen=True):
    """Segue has committed."""

    type: ClassVar[str] = "commit"
    task: str
    commit: str


class PatchMade(Event, frozen=True):
    """What an attempt left, compared with what its task began with."""

    type: ClassVar[str] = "patch"
    task: str
    base: str
    """The commit the task began with."""
    head: str
    """The commit the attempt left; what is not committed is part of the diff too."""
    tree: str
    """Everything that was there, as a git tree or commit."""
    diff: str
    """A unified diff; binary files are named only."""
    files: int = 0
    cut: int = 0
    """How many characters of the diff were left out at its end; a last line says so."""


class ReviewerRan(Event, frozen=True):
    """A reviewer called a program."""

    type: ClassVar[str] = "review.command"
    task: str
    command: str
    exit_code: int
    seconds: float
    stdout: str = ""
    """The end of what it printed."""
    stderr: str = ""
    failure: str = ""
    """Why it did not finish on its own."""


class Reviewed(Event, frozen=True):
    """A reviewer has reported."""

    type: ClassVar[str] = "review"
    task: str
    round: int
    findings: int = 0
    failure: str = ""


class WorkDelivered(Event, frozen=True):
    """The work of a run was delivered: merged, or proposed as a pull request."""

    type: ClassVar[str] = "work.delivered"
    delivery: str
    """`branch`, `merge`, `pr` or a plug-in."""
    text: str
    head: str
    branch: str
    base: str = ""
    number: int = 0
    """The pull request; 0: there is none."""
    url: str = ""
    draft: bool = False
    label: str = ""
    merged: bool = False
    """Whether the user's branch contains it."""


class FeedbackReceived(Event, frozen=True):
    """CI, a reviewer or a conflict asks for more work on a pull request: it becomes a task of the run."""

    type: ClassVar[str] = "feedback.received"
    task: str
    kind: str
    """`ci`, `review` or `conflict`."""
    item: str
    """What tells it from other feedback."""
    title: str
    text: str
    """The words of others; untrusted."""
    round: int
    url: str = ""
    author: str = ""
    thread: str = ""
    """Where the answer goes."""


class FeedbackAnswered(Event, frozen=True):
    """Feedback was answered where it came from."""

    type: ClassVar[str] = "feedback.answered"
    task: str
    item: str
    text: str


class FinalCommandRun(Event, frozen=True):
    """A command of the user that runs after the last task has ended, or for a hook."""

    type: ClassVar[str] = "final"
    label: str
    command: str
    exit_code: int | None
    bytes: int = 0
    output: str = ""


class AgentStarted(Event, frozen=True):
    """An agent is launched or adopted."""

    type: ClassVar[str] = "agent.started"
    argv0: str = ""
    agent_id: str | None = None
    run_id: str | None = None
    url: str | None = None
    adopted: bool = False


class AgentText(Event, frozen=True):
    """Something the agent says."""

    type: ClassVar[str] = "agent.text"
    text: str
    subagent: bool = False


class AgentThought(Event, frozen=True):
    """Something the agent thinks, where its vendor prints that."""

    type: ClassVar[str] = "agent.thought"
    text: str
    """Empty: only that it thought is known."""


class AgentTool(Event, frozen=True):
    """Something the agent does."""

    type: ClassVar[str] = "agent.tool"
    name: str
    input: Any = None
    id: str = ""
    state: str = ""
    """`started` or `completed`, where the agent reports both."""
    status: str = ""
    result: Any = None
    details: dict[str, Any] = {}


class AgentOutput(Event, frozen=True):
    """Plain output, or how much of it was not kept."""

    type: ClassVar[str] = "agent.output"
    stream: str
    text: str = ""
    cut_bytes: int = 0


class AgentUsage(Event, frozen=True):
    """What the agent used so far, as it reports it; the cache is not part of `input_tokens`."""

    type: ClassVar[str] = "agent.usage"
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    live: bool = False
    """Whether the agent reports it in the middle of its work."""

    def count(self) -> Usage:
        """Return what it reports, with the cache in the tokens that were read."""
        parts = (self.input_tokens, self.cache_read_tokens, self.cache_write_tokens)
        read = sum(part or 0 for part in parts)
        return Usage(read, self.output_tokens or 0, self.cost_usd, self.cache_read_tokens)


class AgentRaw(Event, frozen=True, rename={"kind": "type"}):
    """A line of an agent that nothing else describes."""

    type: ClassVar[str] = "agent.raw"
    kind: str = ""
    line: Any = None
    text: str | None = None
    chars: int | None = None
    data: Any = None


class AgentEnded(Event, frozen=True):
    """The launch has ended. `facts` are counts and ids that only some agents report."""

    type: ClassVar[str] = "agent.ended"
    ok: bool
    exit_code: int | None = None
    duration: float = 0.0
    failure: Failure | None = None
    usage: Usage | None = None
    """Tokens and cost of this launch."""
    facts: dict[str, Any] = {}

    @property
    def was_adopted(self) -> bool:
        """Whether the launch was begun by a process that is gone."""
        return bool(self.facts.get("adopted"))

    @classmethod
    def of(cls, outcome: Outcome) -> AgentEnded:
        """Return the event for an outcome."""
        return cls(
            ok=outcome.failure is None,
            exit_code=outcome.exit_code,
            duration=round(outcome.duration, 3),
            failure=outcome.failure,
            usage=outcome.usage,
            facts=dict(outcome.facts),
        )


class AgentStuck(Event, frozen=True):
    """An agent is busy but turns in circles, or waits for an answer; without a reason: it has moved on."""

    type: ClassVar[str] = "agent.stuck"
    task: str
    reason: str = ""
    told: bool = False
    """Whether the agent was told."""
    ends: float | None = None
    """Seconds after which it is ended if nothing new comes of it; None: it is not."""


class UnknownEvent(Event, frozen=True):
    """An event that cannot be read here: of a newer Segue or of something that is gone, or damaged."""

    name: str
    data: Any = None

    def describe(self) -> str:
        """Return the record as it is stored."""
        return f"{self.name}: {msgspec.json.encode(self.data).decode()}"


EVENTS: Mapping[str, type[Event]] = {kind.type: kind for kind in Event.__subclasses__() if kind.type}
"""Every kind of event of the core, by its name in the store."""


def all_events() -> dict[str, type[Event]]:
    """Return every kind of event by its name, those of features too."""
    return {**EVENTS, **{name: import_name(where) for name, where in FEATURE_EVENTS.items()}}


@cache
def _find_kind(name: str) -> type[Event] | None:
    if name not in FEATURE_EVENTS:
        return EVENTS.get(name)
    kind: type[Event] = import_name(FEATURE_EVENTS[name])
    return kind


class Recorded(NamedTuple):
    """An event with its place in the log: what observers see and the store contains."""

    run: str
    seq: int
    ts: int
    """Milliseconds since the epoch."""
    step: str | None
    event: Event

    @property
    def type(self) -> str:
        """The name of the event's kind."""
        return self.event.name if isinstance(self.event, UnknownEvent) else self.event.type

    @property
    def data(self) -> dict[str, Any]:
        """All fields of the event as JSON values, for programs that read our output."""
        known = {} if isinstance(self.event, UnknownEvent) else _defaults(type(self.event))
        return {**known, **event_data(self.event)}


@cache
def _defaults(kind: type[Event]) -> Mapping[str, Any]:
    """Return the fields that are not stored while they have their default, with that default."""
    fields = (field for field in msgspec.structs.fields(kind) if field.default is not msgspec.NODEFAULT)
    return {field.encode_name: msgspec.to_builtins(field.default) for field in fields}


def event_data(event: Event) -> dict[str, Any]:
    """Return the fields of an event as JSON values, without those that have their default."""
    if isinstance(event, UnknownEvent):
        return dict(event.data) if isinstance(event.data, Mapping) else {"value": event.data}
    data: dict[str, Any] = msgspec.to_builtins(event)
    return data


def parse_event(name: str, text: str) -> Event | None:
    """Decode an event, three times as fast as `read_event`; None if that is not possible."""
    decoder = _find_decoder(name)
    try:
        return None if decoder is None else decoder.decode(text)
    except msgspec.DecodeError:
        return None


@cache
def _find_decoder(name: str) -> msgspec.json.Decoder[Event] | None:
    kind = _find_kind(name)
    return None if kind is None else msgspec.json.Decoder(kind)


def read_event(name: str, data: Any) -> Event:
    """Return the event that was stored under a name; one that cannot be read is an UnknownEvent."""
    kind = _find_kind(name)
    if kind is not None:
        try:
            return msgspec.convert(data, kind)
        except msgspec.ValidationError:
            pass
    return UnknownEvent(name, data)
