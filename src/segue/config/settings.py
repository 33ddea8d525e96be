"""Every setting with its type, default and one-line meaning. `segue config schema` prints this."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from msgspec import Meta

from segue.config.git import GitSettings
from segue.domain.diagnostic import ALLOWED, parse
from segue.domain.options import (
    Amount,
    Bytes,
    Commands,
    Count,
    NonNegative,
    NonNegativeFloat,
    OptionError,
    Options,
    Seconds,
    Secret,
    Text,
)
from segue.domain.proof import Level
from segue.domain.scenario import Scenario
from segue.judges.options import JudgeSettings
from segue.sources.github.options import GithubSettings

if TYPE_CHECKING:
    from segue.domain.job import Limits
    from segue.domain.outcome import Budget, Scope

T = TypeVar("T")

BuildPhaseName = Literal["setup", "schema", "backend", "frontend", "testing", "deployment"]
"""The values of BuildPhase; importing it would cost more than all of these settings."""


TaskKindName = Literal["build", "test-first", "verify-only", "docs", "human"]
"""The values of TaskKind, for the same reason."""


WorkKindName = Literal["build", "test-first", "verify-only", "docs"]
"""The kinds of tasks that agents do."""


class AgentNames(str):
    """`NAME`, `NAME:MODEL`, or several in the order in which they are tried: a list, or text with commas."""

    __slots__ = ()

    @classmethod
    def read_option(cls, value: Any) -> Self:
        """Read text or a list of texts."""
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise ValueError('expected an agent such as "claude:opus", or a list of agents')
        return cls(",".join(names))

    @staticmethod
    def option_schema() -> dict[str, Any]:
        """Return the JSON Schema of one agent or several."""
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


class AllowanceSettings(Options, frozen=True):
    """What agents may use together; caps on tokens and cost need agents that report them."""

    tokens: Count | None = None
    """Tokens."""
    cost_usd: Amount | None = None
    """US dollars."""

    def budget(self) -> "Budget":
        """Return these caps."""
        from segue.domain.outcome import Budget

        return Budget(None, self.tokens, self.cost_usd)


class LimitSettings(Options, frozen=True):
    """What a launch and a whole run may use."""

    phase_timeout: Seconds = 1800
    """Seconds one launch of an agent may take."""
    idle_timeout: Seconds = 900
    """Seconds an agent may print nothing."""
    stuck: NonNegativeFloat = 300
    """Seconds an agent may turn in circles after that was noticed, before it is ended; 0: it never is."""
    run_timeout: Seconds | None = None
    """Seconds a run may take until it is stopped; a resumed one has them again."""
    kill_grace: NonNegativeFloat = 3
    """Seconds to wait after interrupt, then after terminate, before kill."""
    attempts: Count = 1
    """Launches per phase of a task before the task needs a human."""
    resolutions: NonNegative | None = None
    """How often a task that fails verification is sent back to the agent; 2 if unset, 5 in the flow
    `build`."""
    replans: NonNegative = 10
    """How often a plan made by an agent may be revised in one run."""
    patience: NonNegativeFloat = 600
    """Seconds to wait for a service that is away (a cloud agent's API, a judge, Postgres) before the run
    is parked."""
    slots: Count | None = None
    """Launches of one agent at the same time, in all runs that share the database; the others wait."""
    launches: Count | None = None
    """Launches per run."""
    tokens: Count | None = None
    """Tokens per run; needs an agent that reports them."""
    cost_usd: Amount | None = None
    """US dollars per run; needs an agent that reports cost."""
    task: AllowanceSettings = AllowanceSettings()
    """The same for each task of a run."""
    day: AllowanceSettings = AllowanceSettings()
    """The same for each day, in all runs that share the database."""
    output_bytes: Count = 2 * 1024**3
    """Bytes one launch may print before it is stopped."""
    handover_bytes: NonNegative = 4096
    """Bytes of a prompt that tell what earlier tasks did; 0: nothing."""
    kept_bytes: Bytes = 1024**2
    """Bytes of each output stream kept as events; the rest is counted."""

    def launch(self) -> "Limits":
        """Return the limits of one launch."""
        from segue.domain.job import Limits

        return Limits(
            self.phase_timeout,
            self.idle_timeout,
            self.kill_grace,
            self.output_bytes,
            self.kept_bytes,
            self.patience,
            self.stuck,
        )

    def budget(self) -> "Budget":
        """Return the limits of a whole run."""
        from segue.domain.outcome import Budget

        return Budget(self.launches, self.tokens, self.cost_usd)

    def budgets(self) -> "dict[Scope, Budget]":
        """Return the limits of a run, of each of its tasks, and of a day."""
        return {"run": self.budget(), "task": self.task.budget(), "day": self.day.budget()}


class ReviewSettings(Options, frozen=True):
    """Who reviews the agent's changes, and what happens with the findings."""

    reviewer: str | None = None
    """`stet`, `ruff`, `semgrep`, `command` or `none`; if unset, stet if it is found."""
    max_address_rounds: NonNegative = 5
    """How often the agent is asked to address findings."""
    on_findings_remaining: Literal["warn", "fail"] = "warn"
    """What to do with a task that still has findings after the last round."""
    on_review_failure: Literal["fail", "retry_once", "skip"] = "fail"
    """What to do when the reviewer itself fails."""


class RoleSettings(Options, frozen=True):
    """Which agent has which role: `NAME`, `NAME:MODEL`, or a list; the first that can work does."""

    plan: AgentNames | None = None
    """Who plans."""
    execute: AgentNames | None = None
    """Who does the work, and fixes it when it is sent back."""
    address: AgentNames | None = None
    """Who addresses review findings; `execute` if unset."""
    test: AgentNames | None = None
    """Who writes independent tests; if unset, an agent of another vendor than the one of `execute` that is
    named anywhere in the settings, else the agents of `execute`, those to fall back on first."""
    verify: AgentNames | None = None
    """Who judges, when an agent does."""
    research: AgentNames | None = None
    """Who searches the web in a build."""


class FinalSettings(Options, frozen=True):
    """Commands run once after the last task; their output is stored and reported."""

    review: Commands = Commands()
    """Commands of the final review."""
    audit: Commands = Commands()
    """Commands of the final audit."""


class LogSettings(Options, frozen=True):
    """The structured log; prompts appear in it as length and hash only."""

    file: str | None = None
    """The log file; `-` is stderr; no log if unset."""
    format: Literal["json", "text"] = "json"
    """JSON lines or text."""


class DiagnosticSettings(Options, frozen=True):
    """The commands that a judge may ask for to find out more."""

    allow: tuple[str, ...] = ALLOWED
    """The beginnings of allowed commands; `*` stands for one plain word."""
    timeout: Seconds = 300
    """Seconds one of these commands may take."""

    def __post_init__(self) -> None:
        for rule in self.allow if self.allow is not ALLOWED else ():
            try:
                program = parse(rule)[0]
            except ValueError as error:
                raise OptionError("allow", str(error)) from None
            if program == "*":
                raise OptionError("allow", "`*` cannot stand for the program")


class FlowSettings(Options, frozen=True):
    """A flow of your own: the table `[flows.NAME]`."""

    phases: Annotated[tuple[Text, ...], Meta(min_length=1)]
    """The phases of each task, in their order."""


class ProofSettings(Options, frozen=True):
    """Evidence beyond the checks: see `docs/explanation/proof.md`."""

    independent: bool = False
    """Let an agent in the role `test` write tests from each task's text alone; the work must pass them."""
    exam_rounds: NonNegative = 2
    """How often more independent tests are asked for, after a failure or where mutants pass; 0: never."""
    exam_cost_usd: Amount | None = None
    """US dollars that the tests of a task may cost before no more are asked for."""
    mutants: NonNegative = 8
    """How many mutants of the changed lines to try beside those of whole results; 0: none, so no `tested`."""
    sharpness: Annotated[float, Meta(ge=0, le=1)] = 0.6
    """Which part of the mutants the tests that prove a task must notice."""
    mutant_seconds: NonNegativeFloat = 60
    """Seconds that mutants of one check may take; more only if the tests take more than a sixth of that."""
    scenarios: tuple[Scenario, ...] = ()
    """What the finished program must do: commands or HTTP requests, with what must come out."""


class SandboxSettings(Options, frozen=True):
    """What agents and checks may see and change: see `docs/guides/sandbox.md`."""

    strength: Literal["standard", "strict"] = "standard"
    """`strict` hides your whole home but for the agent's own configuration and your toolchains."""
    write: tuple[Path, ...] = ()
    """More places they may change; a relative one is in the work tree, and `.git` lets agents commit."""
    read: tuple[Path, ...] = ()
    """Places they may read although they are hidden otherwise."""
    hide: tuple[Path, ...] = ()
    """More places to hide."""
    runtime: str | None = None
    """The container runtime, for `isolation = "container"`: `docker` or `podman`."""
    image: str | None = None
    """The image, which has the agent's program on its PATH."""


class Settings(Options, frozen=True):
    """All settings."""

    agent: AgentNames | None = None
    """Who does the work: see `segue doctor --agents`; others take over when the first cannot."""
    model: str | None = None
    """The agent's model; its own default if unset."""
    escalate: bool = False
    """Let the next agent of the chain that does the work take over when checks or a judge refuse the work:
    name the cheapest first."""
    escalate_to: dict[WorkKindName, AgentNames] = {}
    """Who takes over then, by the kind of the task: `build`, `test-first`, `verify-only`, `docs`."""
    flow: str | None = None
    """The phases of each task: `execute`, `review`, `plan`, `spec`, `build`, or one of your own; the usual
    one for the source and the agent if unset."""
    source: Path | None = None
    """The plan, Spec Kit folder or other source that `segue run` uses when none is named."""
    source_kind: str | None = None
    """The kind of the source, where it is not recognised."""
    repo: Path | None = None
    """The repository to work in when none is named."""
    commit: Literal["task", "phase", "never"] = "task"
    """When Segue commits the agent's changes."""
    allow_dirty: bool = False
    """Start even if the work tree has uncommitted changes."""
    base: str | None = None
    """The branch of `origin` that cloud agents start from, and that a pull request is for; the upstream of
    your branch if unset."""
    jobs: Annotated[int, Meta(ge=1, le=64)] = 1
    """How many tasks to work on at once, each in a git worktree of its own."""
    lane_setup: Commands = Commands()
    """With `jobs`: commands that make a lane ready, e.g. `["npm ci"]`. They run when it is new, and again
    when a lock file differs at the start of a task."""
    lane_link: tuple[str, ...] = ()
    """With `jobs`: what the lanes share with your work tree, of files that git ignores (globs), such as
    `node_modules`."""
    worktree: bool = False
    """Give each run a git worktree of its own; yours is not touched."""
    worktree_end: Literal["keep", "merge"] = "keep"
    """What to do with the branch of such a run when it is done: keep it, or merge it into yours if there is
    no conflict."""
    delivery: str | None = None
    """What happens with the work of a run, which then has a branch of its own: `branch` keeps it there,
    `merge` merges it into yours, `pr` opens a pull request; or a plug-in."""
    follow_rounds: Count = 5
    """How often `segue follow` sends feedback on a pull request back to the agent."""
    allow_no_change: bool = False
    """Let a task succeed without changing anything."""
    judged_by: str | None = None
    """Who decides whether a task is done: a model (`llm`), an `agent` in the role `verify` (each with the
    checks), or the `checks` alone. If unset: an agent in the flow `build`; else a model if it is described or
    has a key, otherwise the agent."""
    require: Level | None = None
    """The least proof a task needs: `changed`, `checked`, `tested` or `independent`; if unset, nothing may
    speak against it."""
    kinds: dict[str, TaskKindName] = {}
    """The kinds of tasks, by key or pattern: `build`, `test-first`, `verify-only`, `docs`, `human`. Those of
    other tasks are recognised."""
    ignore_checklists: bool = False
    """Start a Spec Kit feature although its checklists have unchecked items."""
    checks: Commands = Commands()
    """Commands that must succeed before a task is done, e.g. `["pytest -q"]`."""
    control_files: tuple[str, ...] = ()
    """More files that decide whether checks pass (globs): checks use them as they were before the task."""
    known_failures: tuple[str, ...] = ()
    """Tests and checks that may fail (globs of test ids and commands), because they did before."""
    check_setup: Commands = Commands()
    """Commands that make a clean tree ready for the checks, e.g. `["npm ci"]`; they may use the network."""
    check_teardown: Commands = Commands()
    """Commands that run after each check."""
    check_network: bool = False
    """Let checks use the network."""
    check_timeout: Seconds = 1800
    """Seconds one run of a check, or a final command, may take."""
    smoke: dict[BuildPhaseName, Commands] = {}
    """More checks for the steps of a build phase: `setup`, `schema`, `backend`, `frontend`, `testing`,
    `deployment`."""
    replan: Literal["caveats", "always", "never"] = "caveats"
    """When to revise the rest of a plan made by an agent, after each step."""
    plan_changed: Literal["ask", "keep", "restart"] = "ask"
    """What to do when the plan has changed since one of its tasks was completed, when the repository does not
    contain the commits of completed tasks, or when another folder may be the same repository."""
    on_failure: Literal["continue", "stop"] | None = None
    """When a task needs a human: `continue` with those that do not depend on it, or `stop`. By default local
    agents continue, and cloud agents stop, because each starts from the branch of the one before. What the
    task left in the work tree is put aside, under a ref, and a retry begins with it."""
    max_consecutive_task_failures: Count | None = None
    """Stop after this many failed tasks in a row, whatever `on_failure` says."""
    gates: tuple[Literal["plan", "checkpoint", "task"], ...] = ()
    """Where a run waits until a person lets it continue: after the `plan` of a build was made, after each
    `checkpoint` of `tasks.md`, after each `task`."""
    isolation: Literal["auto", "bwrap", "namespaces", "landlock", "container", "none", "require"] = "auto"
    """The sandbox of agents and checks: `auto` takes the strongest that works here, and `require` starts
    nothing without one."""
    state_dir: Path | None = None
    """Where Segue keeps its files; the user's state folder if unset."""
    database_url: Secret | None = None
    """`postgresql://…`, or the path of a SQLite file; `segue.db` in state_dir if unset."""
    proof: ProofSettings = ProofSettings()
    sandbox: SandboxSettings = SandboxSettings()
    git: GitSettings = GitSettings()
    roles: RoleSettings = RoleSettings()
    limits: LimitSettings = LimitSettings()
    review: ReviewSettings = ReviewSettings()
    judge: JudgeSettings = JudgeSettings()
    final: FinalSettings = FinalSettings()
    log: LogSettings = LogSettings()
    diagnostics: DiagnosticSettings = DiagnosticSettings()
    github: GithubSettings = GithubSettings()
    sources: dict[str, dict[str, Any]] = {}
    """Options per source that is a plug-in."""
    judges: dict[str, dict[str, Any]] = {}
    """Options per judge that is a plug-in."""
    deliveries: dict[str, dict[str, Any]] = {}
    """Options per delivery: see `docs/guides/pull-requests.md`."""
    flows: dict[str, FlowSettings] = {}
    """Flows of your own, each a list of phases."""
    reviewers: dict[str, dict[str, Any]] = {}
    """Options per reviewer: see `docs/guides/reviewing.md`."""
    agents: dict[str, dict[str, Any]] = {}
    """Options per agent: see `docs/guides/agents.md`."""
    acp: dict[str, dict[str, Any]] = {}
    """More agents that speak the Agent Client Protocol: see `docs/guides/agents.md`."""

    def part(self, table: str, kind: type[T]) -> T:
        """Return the table of a feature as its type; the defaults if nobody has set any of it."""
        found: T | None = getattr(self, table, None)  # a field of `feature_tables.settings_kind`
        return kind() if found is None else found
