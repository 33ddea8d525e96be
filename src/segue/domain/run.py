"""A run: one execution of a flow over a source, and the steps it is made of."""

from __future__ import annotations

from enum import StrEnum
from pathlib import PurePath
from typing import Any

from msgspec import Struct, field


class RunState(StrEnum):
    """The state of a run."""

    QUEUED = "queued"
    """Submitted; a worker of the fleet will take it."""
    RUNNING = "running"
    PARKED = "parked"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    NEEDS_HUMAN = "needs_human"


class StepState(StrEnum):
    """The state of a step: intent recorded, or outcome recorded."""

    STARTED = "started"
    DONE = "done"
    FAILED = "failed"


class RunKind(StrEnum):
    """What a run is about. Lists, `last`, reports and comparisons never mix them."""

    PLAN = "plan"
    FEATURE = "feature"
    BUILD = "build"
    TASKS = "tasks"
    """Tasks of any other source, such as a plug-in's."""
    CONVERSATION = "conversation"
    INBOX = "inbox"
    MODEL_CALL = "model_call"
    TRIAL = "trial"

    @property
    def has_tasks(self) -> bool:
        """True for runs that work on tasks of a source."""
        return self in TASK_RUNS

    @property
    def is_planned(self) -> bool:
        """True for runs whose tasks an agent plans."""
        return self in (RunKind.BUILD, RunKind.TRIAL)


USUAL_RUNS = (RunKind.PLAN, RunKind.FEATURE, RunKind.BUILD, RunKind.TASKS)
"""The kinds of people's own work: lists and `last` mean these, reports one of these, if none is chosen."""

TASK_RUNS = (*USUAL_RUNS, RunKind.TRIAL)
"""The kinds that work on tasks: these can be resumed, proven and reported on."""


class Origin(Struct, frozen=True):
    """Where a run that any machine may work on comes from, and who submitted it."""

    url: str
    """The repository's URL."""
    commit: str
    """The commit it begins with."""
    branch: str = ""
    """The branch that commit was taken from."""
    needs: tuple[str, ...] = ()
    """What a worker must have, such as `gpu` or `has:claude`."""
    priority: int = 0
    submitter: str = ""
    files: dict[str, str] = field(default_factory=dict)
    """The text of a source that is not part of the repository, by file name."""


class TrialSpec(Struct, frozen=True):
    """The trial of an experiment that a run is."""

    experiment: str
    """The name of the experiment: that of its file."""
    arm: str = ""
    """The name of its arm; empty if the experiment compares agents alone."""
    digest: str = ""
    """A hash of its settings: trials made with others are not compared as the same."""


class RepositoryMark(Struct, frozen=True):
    """What a repository is recognised by when its folder is moved, mounted elsewhere or cloned again."""

    id: str
    """What its git folder says; a copy of the folder says the same."""
    host: str
    """The machine it was on."""
    roots: str = ""
    """A digest of its first commits; empty if there are none, or if the history is not all here."""
    remotes: tuple[str, ...] = ()
    """A digest of the address of `origin`, or of each remote if there is none of that name."""


class RunSpec(Struct, frozen=True):
    """What was asked for: enough to run it again from another process."""

    source_kind: str
    source: str
    repo: str
    agent: str
    flow: str
    model: str | None = None
    tasks: tuple[str, ...] = ()
    """The keys this run is limited to (`--task`, `--from`); empty means all."""
    titles: dict[str, str] = field(default_factory=dict)
    """The tasks that were pending when the run began, in order."""
    config: str | None = None
    """The configuration file named with `--config`."""
    settings: dict[str, Any] = field(default_factory=dict)
    """The settings given on the command line or in the environment, so that `resume` uses them too."""
    worktree: str | None = None
    """The folder in which the run has a work tree of its own, named after it; None: it works in `repo`."""
    lanes: bool = False
    """Whether its tasks are worked on in lanes, several at once, and merged into a branch of its own."""
    onto: str = ""
    """The branch the user was on when a run with its own work tree began; empty when on none."""
    base: str = ""
    """The branch of the remote that cloud agents start from; empty: its default branch."""
    into: str = ""
    """The branch of the remote that a pull request is opened against; empty: there is none."""
    remote: str = ""
    """The address of that remote when the run began, without passwords: nothing is pushed elsewhere."""
    kind: RunKind = RunKind.TASKS
    phases: tuple[str, ...] = ()
    """The phases of its flow when it began; empty in runs of version 1."""
    origin: Origin | None = None
    """For a run that was submitted to a fleet: `repo` is a URL then, and `source` is relative to it."""
    trial: TrialSpec | None = None
    """For a trial of an experiment."""
    repository: RepositoryMark | None = None
    """What `repo` is recognised by elsewhere; None in runs of older versions and of a fleet."""
    title: str = ""
    """What people call the work; empty: only its source says it."""
    branch: str = ""
    """The branch that `repo` was on when it began; empty when on none, and in runs of older versions."""


class Run(Struct, frozen=True):
    """One row of `orchestrator_runs`."""

    id: str
    source_key: str
    """Names the (source, repository) pair, so that the same command finds its unfinished run."""
    spec: RunSpec
    state: RunState
    owner: str | None
    created: int
    updated: int
    wake: int | None = None
    note: str = ""

    @property
    def place(self) -> str:
        """Where the work is done: the user's work tree, or the run's own."""
        return self.spec.repo if self.spec.worktree is None else str(PurePath(self.spec.worktree) / self.id)

    @property
    def title(self) -> str:
        """What people call the work: its title, else the name of its source."""
        return self.spec.title or self.source_name

    @property
    def source_name(self) -> str:
        """The name of its source: the last part of a path, anything else as it is."""
        path = PurePath(self.spec.source)
        if self.spec.kind is RunKind.FEATURE and path.suffix:
            path = path.parent
        is_path = path.is_absolute() or self.spec.kind is RunKind.FEATURE
        return path.name if is_path else self.spec.source


class Step(Struct, frozen=True):
    """One row of `orchestrator_steps`: one attempt at one phase of one task."""

    run: str
    key: str
    gen: int
    state: StepState
    token: str
    task: str | None
    phase: str | None
    attempt: int
    input: dict[str, Any]
    output: dict[str, Any]
    started: int
    ended: int | None
    agent: str | None = None
    model: str | None = None
    build_phase: str | None = None
