"""The agents of a run: who plays a role, what their launches may cost, and who cannot work now."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from segue.domain.errors import NeedsHuman
from segue.domain.events import Delivery
from segue.domain.job import AgentChoice, Limits
from segue.domain.outcome import Budget, Failure, FailureKind
from segue.domain.task import Task
from segue.flow.budgets import Budgets
from segue.flow.lanes import Seat
from segue.ports import Agent, HearingAgent
from segue.system.files import ensure_room
from segue.view.run import RunView

if TYPE_CHECKING:
    from segue.proof.guard import LaunchGuard
    from segue.store.journal import Journal

_REST = 900.0
"""Seconds for which an agent is passed over when it did not say until when it cannot work."""


class OverBudget(NeedsHuman):
    """A cap forbids one more launch; `reason` says which."""

    def __init__(self, reason: str, work: str, run: str) -> None:
        super().__init__(
            f"{work} was not started: {reason}.",
            kept="Everything done so far is kept.",
            hint=f"Raise the limit, then continue with: segue resume {run}",
        )
        self.reason = reason


class TaskOverBudget(OverBudget):
    """The cap of one task forbids one more launch for it; others may be done."""


class ChosenAgent(Struct, frozen=True):
    """An agent in a role, with the model it should use."""

    agent: Agent
    model: str | None = None

    @property
    def name(self) -> str:
        """`agent`, or `agent:model`."""
        return AgentChoice(self.agent.name, self.model).name


def vendor_of(agent: str) -> str:
    """Return whose an agent is, by its name: `cursor` and `cursor-cloud` are the same vendor's."""
    return agent.partition("-")[0]


AgentChain = Sequence[ChosenAgent]
"""Who plays a role: the preferred one first, then those to fall back on."""


def make_ladder(chain: AgentChain, stronger: AgentChain, escalates: bool) -> AgentChain:
    """Return who may do a task, the weakest first; nobody where nobody stronger takes over."""
    more = tuple(by for by in stronger if by not in chain)
    ladder = (*(chain if escalates else chain[:1]), *more)
    return ladder if len(ladder) > 1 else ()


def chain_from(ladder: AgentChain, chain: AgentChain, rung: int) -> AgentChain:
    """Return who makes the next attempt, and who takes over where that one cannot work now."""
    place = min(rung, len(ladder) - 1)
    return tuple(dict.fromkeys((*ladder[place:], *ladder[:place][::-1], *chain)))


class Series(Struct, frozen=True, kw_only=True):
    """The attempts at one piece of work: who makes them, and what their steps are called."""

    chain: AgentChain
    task: str
    """The task's key; empty for work that belongs to the whole run."""
    phase: str
    folder: str
    """Where its steps are in the journal: `task/3`."""
    kind: str = ""
    """The phase that the journal stores, where its steps are called otherwise."""
    label: str = ""
    """What the work is called, where it is no task."""
    about: Task | None = None
    """The task whose files its agent may change."""
    build_phase: str | None = None
    attempts: int = 1
    """How many failed attempts are allowed."""
    retry_recorded: bool = False
    """Whether a failure that another process recorded is tried once more."""

    @property
    def name(self) -> str:
        """What the work is called: a task by its key."""
        return self.task or self.label

    @property
    def stored_phase(self) -> str:
        """The phase that the journal stores."""
        return self.kind or self.phase

    def key(self, number: int) -> str:
        """Return the name of an attempt's step."""
        return f"{self.folder}/{self.phase}/{number}"

    def park_key(self, number: int) -> str:
        """Return the name of the step that waits after an attempt."""
        return f"{self.folder}/park/{self.phase}/{number}"


class Addressee(Struct, frozen=True):
    """A launch that is told what is said about its task."""

    agent: Agent
    token: str

    @property
    def how(self) -> Delivery:
        """How words reach its agent."""
        if isinstance(self.agent, HearingAgent):
            return "session"
        return "turn" if self.agent.can.follow_up else "launch"

    def tell(self, words: Mapping[int, str]) -> None:
        """Tell the agent, where that can be done now; what it was told before is not told again."""
        if isinstance(self.agent, HearingAgent):
            for number, text in words.items():
                self.agent.tell(self.token, number, text)


class Launcher(Struct):
    """What the launches of one run share: its budget, its guard, and which agents cannot work now."""

    journal: Journal
    view: RunView
    limits: Limits = Limits()
    budget: Budget = Budget()
    attempts: int = 1
    """How many failed attempts a phase allows."""
    budgets: Budgets = field(default_factory=lambda: Budgets({}))
    """The caps of tasks, days and repositories too, and what was spent of them."""
    guard: LaunchGuard | None = None
    """Watches over what agents must not touch; None where they have no work tree."""
    slots: int | None = None
    """How many launches of one agent are at work at once, in all runs that share the database."""
    seat: Seat | None = None
    """The seat of the task, where several are worked on at once."""
    lane: int = 0
    """The lane in which it works; 0: one task at a time."""
    longest_wait: float | None = None
    """Seconds for which a usage limit is waited for in this process; None: however long it takes."""
    is_elsewhere: Callable[[str], bool] | None = None
    """Whether the agent of a launch that another process began was at work on another machine."""
    forgotten: frozenset[str] = frozenset()
    """Conversations that only another machine could continue."""
    folders: tuple[Path, ...] = ()
    """Where launches leave something besides the work tree: without room there, nobody is launched."""
    resting: dict[str, float] = field(default_factory=dict)
    """Agents that cannot work, and until when: the others take over."""
    addressees: dict[str, Addressee] = field(default_factory=dict)
    """The launches that are told what is said about their tasks, by task."""
    _admitted: set[str] = field(default_factory=set)
    """Launches within the budget that the view does not count yet: several may begin at once."""

    def __post_init__(self) -> None:
        for name, until in self.view.limits.items():  # lanes share them, and may know better
            self.resting.setdefault(name, until)
        self.budgets.caps = {**self.budgets.caps, "run": self.budget}

    def admit(self, key: str, task: str) -> None:
        """Check every cap before money is spent; raise OverBudget."""
        found = self.budgets.exceeded(self.view, task, len(self._admitted))
        if found is not None:
            kind = TaskOverBudget if found[0] == "task" else OverBudget
            raise kind(found[1], f"Task {task}" if task else "The plan", self.journal.run.id)
        self._admitted.add(key)

    def ensure_room(self, workspace: Path) -> None:
        """Raise an error where a disk is full: an agent that is paid for must be able to leave its work."""
        ensure_room((*self.folders, workspace))

    def count(self, key: str) -> None:
        """Forget that a launch was admitted: the view counts it now, or it did not begin."""
        self._admitted.discard(key)

    def find_able(self, chain: AgentChain) -> ChosenAgent | None:
        """Return the first agent that can work now."""
        now = time.time()
        return next((by for by in chain if self.resting.get(by.name, 0) <= now), None)

    def rest(self, by: ChosenAgent, failure: Failure) -> None:
        """Pass an agent over that cannot work, until it can again."""
        forever = failure.kind in (FailureKind.AUTH, FailureKind.NOT_STARTED)
        self.resting[by.name] = float("inf") if forever else failure.until or time.time() + _REST
