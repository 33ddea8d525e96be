"""The loop in this process: a real repository, a real SQLite file, and agents that are functions."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, Self

from segue.domain.events import AgentStarted, Event, Recorded
from segue.domain.job import Job, Limits, Role
from segue.domain.outcome import Budget, Failure, FailureKind, Outcome, Scope, Usage
from segue.domain.proof import BaseCheck, BaseState, CheckResult, CheckState, KnownFailures, Seal
from segue.domain.run import Run, RunSpec
from segue.domain.scenario import Scenario
from segue.domain.task import Completion, Task, TaskKind, TaskList, TaskStatus
from segue.domain.verdict import Verdict
from segue.flow.agents import ChosenAgent, Launcher
from segue.flow.budgets import Budgets
from segue.flow.context import (
    Checking,
    Judging,
    Policy,
    ReadVerdict,
    Reviewing,
    RunContext,
    Survey,
)
from segue.flow.phase import PHASES, PRESETS, make_flow
from segue.flow.scheduler import run_tasks
from segue.flow.survey import end_survey
from segue.ports import Capabilities, Installation, Judge, Observer, Problem, Reviewer, Source, SourceRequest
from segue.proof.execute import SealOptions
from segue.proof.independent import DetachedTests
from segue.proof.repo_hooks import CommitHooks
from segue.proof.seal import Sealer
from segue.runtime.budgets import read_usage
from segue.store import connect
from segue.store.store import Store
from segue.system.git.aside import WorkAside
from segue.system.git.repository import Repository
from segue.view.run import FOLDED, RunView
from tests.templates import copy_template

Behaviour = Callable[[Job], Outcome]


class FunctionAgent:
    """An agent whose launches are calls of a function; it counts them."""

    def __init__(self, name: str, behave: Behaviour, can: Capabilities | None = None) -> None:
        self.name = name
        self.can = can or Capabilities(plan_mode=True, ask_mode=True, reports_usage=True, reports_cost=True)
        self.jobs: list[Job] = []
        self._behave = behave

    def check(self) -> list[Problem]:
        """It always works."""
        return []

    def installation(self) -> Installation:
        """It needs no installation."""
        return Installation()

    async def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Call the function."""
        self.jobs.append(job)
        yield AgentStarted("function")
        yield self._behave(job)

    def forget(self, token: str) -> None:
        """Nothing is kept."""


def edit(name: str = "work.txt") -> Behaviour:
    """An agent that changes a file in every launch."""

    def behave(job: Job) -> Outcome:
        path = job.workspace / name
        path.write_text((path.read_text() if path.exists() else "") + f"{job.labels['task']}\n")
        return Outcome("Done.", usage=Usage(10, 5, 0.25))

    return behave


def fail(kind: FailureKind, until: float | None = None) -> Behaviour:
    """An agent that fails in every launch."""
    return lambda _job: Outcome(failure=Failure(kind, f"{kind}!", until=until), usage=Usage(1, 1))


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """An agent that does one thing after the other, and the last one for ever."""
    rest = list(behaviours)
    return lambda job: (rest.pop(0) if len(rest) > 1 else rest[0])(job)


class ListSource(Source):
    """Tasks in memory."""

    kind = "list"
    key = "list"

    def __init__(self, *keys: str) -> None:
        self.found = {key: Task(key, f"Title {key}", f"Do {key}.") for key in keys}
        self.completions: list[tuple[str, Completion]] = []
        self.changes = 0

    @property
    def address(self) -> str:
        """Its only name."""
        return "list"

    @classmethod
    def matches(cls, request: SourceRequest) -> bool:
        """Never: it is made by tests."""
        return False

    @classmethod
    def open(cls, request: SourceRequest) -> Self:
        """Never opened by name."""
        raise NotImplementedError

    def tasks(self) -> TaskList:
        """All tasks."""
        return TaskList(tuple(self.found.values()))

    def stamp(self) -> object:
        """Changes when a test says so."""
        return self.changes

    def mark(self, task: Task, completion: Completion) -> None:
        """Remember it."""
        from msgspec.structs import replace

        self.completions.append((task.key, completion))
        self.found[task.key] = replace(self.found[task.key], status=completion.status)

    def record(self, task: Task, completion: Completion) -> None:
        """Remember it."""
        self.completions.append((task.key, completion))

    def restart(self) -> None:
        """Nothing is kept."""

    def reopen(self, key: str) -> None:
        """Make a task pending again."""
        from msgspec.structs import replace

        self.found[key] = replace(self.found[key], status=TaskStatus.PENDING)
        self.changes += 1


def no_verdict(*_: object) -> Verdict:
    """Stands where no agent judges."""
    raise AssertionError("no agent judges here")


def _make_repository(folder: Path) -> None:
    for words in (
        ("init", "--quiet", "-b", "main"),
        ("config", "user.email", "a@example.com"),
        ("config", "user.name", "A"),
        ("commit", "--quiet", "--allow-empty", "-m", "Start"),
    ):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


RunSurvey = Callable[[Sequence[str], str], Awaitable[BaseCheck]]
"""Runs a check on a tree that nobody has worked on."""


class OpenSealer(Sealer):
    """Runs checks in the work tree itself: most of these tests are not about the seal."""

    before: RunSurvey | None = None
    """Says what is red before the first launch; None: nothing is."""

    async def check(
        self,
        argv: Sequence[str],
        base: str,
        head: str,
        *,
        kind: TaskKind = TaskKind.BUILD,
        expected_red: Collection[str] = (),
        before: KnownFailures | None = None,
        measured: bool = False,
        watched: Collection[str] = (),
        words: str = "",
        unseen: Collection[str] = (),
    ) -> CheckResult:
        """Run a check where the agent has worked, on what is there now."""
        done = subprocess.run(list(argv), cwd=self._root, capture_output=True, text=True, check=False)
        state = CheckState.FAILED if done.returncode else CheckState.PASSED
        reason = f"exit code {done.returncode}" if done.returncode else ""
        said = done.stdout + done.stderr
        noticed = state is CheckState.PASSED  # nobody sabotages anything here
        command = " ".join(argv)
        return CheckResult(command, done.returncode, said, state, reason, noticed=noticed, seal=Seal.WEAK)

    async def survey(self, argv: Sequence[str], base: str) -> BaseCheck:
        """Answer without running anything."""
        if self.before is None:
            return BaseCheck(" ".join(argv), BaseState.GREEN)
        return await self.before(argv, base)


@dataclass
class Loop:
    """One run that tests drive session by session."""

    root: Path
    source: ListSource
    agents: Sequence[FunctionAgent]
    flow: str = "execute"
    phases: tuple[str, ...] | None = None
    attempts: int = 1
    slots: int | None = None
    policy: Policy = field(default_factory=Policy)
    resumed_by_person: bool = False
    budget: Budget = field(default_factory=Budget)
    caps: Mapping[Scope, Budget] = field(default_factory=dict)
    """Caps of tasks and days."""
    checks: tuple[tuple[str, ...], ...] = ()
    sealed: bool = False
    hooks: bool = False
    """Whether the repository's own hooks run before commits."""
    means: Literal["auto", "copy"] = "auto"
    """How sealed checks and hooks are kept apart."""
    survey: RunSurvey | None = None
    """Says what is red before the first launch, where checks are not sealed."""
    patience: float = 30.0
    """How long the first launch waits for that."""
    timed: bool = True
    """Whether the checks are known to end."""
    scenarios: tuple[Scenario, ...] = ()
    reviewer: Reviewer | None = None
    judge: Judge | None = None
    agent_judge: ReadVerdict | None = None
    """Reads the answers of an agent that judges."""
    roles: Mapping[Role, Sequence[FunctionAgent]] = field(default_factory=dict)
    stronger: Mapping[TaskKind, Sequence[FunctionAgent]] = field(default_factory=dict)
    """Who takes over when the work is refused."""
    events: list[Recorded] = field(default_factory=list)
    observers: Sequence[Observer] = ()
    view: RunView = field(default_factory=RunView)
    run_id: str = ""

    def __post_init__(self) -> None:
        self.repo = self.root / "repo"
        copy_template(_make_repository, self.repo)

    def git(self, *words: str) -> str:
        """Run git in the repository."""
        done = subprocess.run(["git", *words], cwd=self.repo, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def store(self) -> Store:
        """Open the database."""
        return connect(self.root / "segue.db")

    def session(self, chosen: Sequence[str] = ()) -> None:
        """Work on the run as one process would, until its end or an error."""
        asyncio.run(self._session(chosen))

    async def _session(self, chosen: Sequence[str]) -> None:
        async with self.context() as context:
            try:
                if (hooks := context.checking.hooks) is not None and await hooks.keep():
                    await context.checking.sealer().prepare()
                await run_tasks(context, chosen)
            finally:
                await end_survey(context)

    @asynccontextmanager
    async def context(self) -> AsyncGenerator[RunContext, None]:
        """Open the run, and close it whatever happens."""
        with self.store() as store:
            run = self._row(store)
            self.view = RunView.of(run.spec.titles, store.events(run.id, kinds=FOLDED))
            journal = await store.open(run.id, [self.view.apply, self.events.append, *self.observers])
            try:
                chain = tuple(ChosenAgent(agent) for agent in self.agents)
                own = {role: tuple(map(ChosenAgent, agents)) for role, agents in self.roles.items()}
                repo = await Repository.open(self.repo)
                yield RunContext(
                    flow=make_flow(self.flow, self.phases or PRESETS[self.flow], PHASES),
                    journal=journal,
                    source=self.source,
                    agents={**dict.fromkeys(Role, chain), **own},
                    stronger={kind: tuple(map(ChosenAgent, them)) for kind, them in self.stronger.items()},
                    workspace=repo,
                    policy=self.policy,
                    launcher=Launcher(
                        *(journal, self.view, Limits(patience=600)),
                        budget=self.budget,
                        budgets=Budgets(self.caps, partial(read_usage, store, "day")),
                        attempts=self.attempts,
                        slots=self.slots,
                    ),
                    view=self.view,
                    checking=self.checking(repo),
                    reviewing=Reviewing(self.reviewer, 2, "fail", "fail") if self.reviewer else None,
                    judging=self.judging(),
                    testing=DetachedTests(repo, self.root / "apart", self.root / "exams"),
                    resumed_by_person=self.resumed_by_person,
                    survey=Survey(self.patience, self.timed),
                    aside=WorkAside(repo, journal.run.id),
                )
            finally:
                await store.close(journal)

    def judging(self) -> Judging | None:
        """Who judges."""
        if self.agent_judge is not None:
            return Judging(None, self.agent_judge)
        return Judging(self.judge, no_verdict) if self.judge else None

    def checking(self, repo: Repository) -> Checking:
        """Checks in the work tree itself, or sealed."""
        options = SealOptions(timeout=300, means=self.means, exams=self.root / "exams")
        kind = Sealer if self.sealed else OpenSealer
        sealer = kind(self.repo, self.repo / ".git", self.root / "scratch", options)
        if isinstance(sealer, OpenSealer):
            sealer.before = self.survey
        return Checking(
            self.checks,
            lambda: sealer,
            scenarios=self.scenarios if self.sealed else (),
            hooks=CommitHooks(repo, self.root / "hooks", lambda: sealer) if self.hooks else None,
        )

    def _row(self, store: Store) -> Run:
        if not self.run_id:
            titles = {task.key: task.title for task in self.source.tasks().tasks}
            spec = RunSpec("list", "list", str(self.repo), "function", self.flow, titles=titles)
            self.run_id = store.create("list", spec).id
        run = store.run(self.run_id)
        assert run is not None
        return run

    def step_keys(self) -> list[str]:
        """The steps of the run, all generations."""
        with self.store() as store:
            return [f"{step.key}#{step.gen}" for step in store.steps(self.run_id)]
