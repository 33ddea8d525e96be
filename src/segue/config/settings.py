"""Every setting with its type, default and one-line meaning. `segue config schema` prints this."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from msgspec import Meta

from segue.config.bridge import BridgeSettings
from segue.config.provider import ProviderSettings
from segue.domain.diagnostic import ALLOWED, parse
from segue.domain.finding import Severity
from segue.domain.options import Amount, Commands, Count, OptionError, Options, Seconds, Secret, Text
from segue.judges.options import JudgeSettings
from segue.judges.rls.options import RlsOptions
from segue.notify.options import NotifySettings
from segue.relay.options import RelaySettings
from segue.reviewers.triage import DismissRule
from segue.searchers.options import SearchSettings

if TYPE_CHECKING:
    from segue.domain.budget import Budget
    from segue.domain.job import Limits

BuildPhaseName = Literal["setup", "schema", "backend", "frontend", "testing", "deployment"]
"""The values of BuildPhase; importing it would cost more than all of these settings."""


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


class LimitSettings(Options, frozen=True):
    """What a launch and a whole run may use."""

    phase_timeout: Annotated[Seconds, Meta(description="Seconds one launch of an agent may take.")] = 1800
    idle_timeout: Annotated[Seconds, Meta(description="Seconds an agent may print nothing.")] = 900
    run_timeout: Annotated[Seconds | None, Meta(description="Seconds the whole run may take.")] = None
    kill_grace: Annotated[
        float, Meta(ge=0, description="Seconds to wait after interrupt, then after terminate, before kill.")
    ] = 3
    attempts: Annotated[
        Count, Meta(description="Launches per phase of a task before the task needs a human.")
    ] = 1
    resolutions: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description="How often a task that fails verification is sent back to the agent; "
            "2 if unset, 5 in the flow `build`."
        ),
    ] = None
    replans: Annotated[
        int, Meta(ge=0, description="How often a plan made by an agent may be revised in one run.")
    ] = 10
    launches: Annotated[Count | None, Meta(description="Launches per run.")] = None
    tokens: Annotated[Count | None, Meta(description="Tokens per run; needs an agent that reports them.")] = (
        None
    )
    cost_usd: Annotated[
        Amount | None, Meta(description="US dollars per run; needs an agent that reports cost.")
    ] = None
    output_bytes: Annotated[Count, Meta(description="Bytes one launch may print before it is stopped.")] = (
        2 * 1024**3
    )
    kept_bytes: Annotated[
        int, Meta(ge=1024, description="Bytes of each output stream kept as events; the rest is counted.")
    ] = 1024**2

    def launch(self) -> "Limits":
        """Return the limits of one launch."""
        from segue.domain.job import Limits

        return Limits(
            self.phase_timeout, self.idle_timeout, self.kill_grace, self.output_bytes, self.kept_bytes
        )

    def budget(self) -> "Budget":
        """Return the limits of a whole run."""
        from segue.domain.budget import Budget

        return Budget(self.launches, self.tokens, self.cost_usd)


class ReviewSettings(Options, frozen=True):
    """Who reviews the agent's changes, and what happens with the findings."""

    reviewer: Annotated[
        str | None,
        Meta(description="`stet`, `ruff`, `semgrep`, `command` or `none`; if unset, stet if it is found."),
    ] = None
    max_address_rounds: Annotated[
        int, Meta(ge=0, description="How often the agent is asked to address findings.")
    ] = 5
    on_findings_remaining: Annotated[
        Literal["warn", "fail"],
        Meta(description="What to do with a task that still has findings after the last round."),
    ] = "warn"
    on_review_failure: Annotated[
        Literal["fail", "retry_once", "skip"], Meta(description="What to do when the reviewer itself fails.")
    ] = "fail"
    min_severity: Annotated[Severity, Meta(description="Ignore findings that are less severe.")] = (
        Severity.INFO
    )
    dismiss: Annotated[
        tuple[DismissRule, ...], Meta(description="Findings to dismiss without asking the agent.")
    ] = ()


class RoleSettings(Options, frozen=True):
    """Which agent has which role: `NAME`, `NAME:MODEL`, or a list; the first that can work does."""

    plan: Annotated[AgentNames | None, Meta(description="Who plans.")] = None
    execute: Annotated[
        AgentNames | None, Meta(description="Who does the work, and fixes it when it is sent back.")
    ] = None
    address: Annotated[
        AgentNames | None, Meta(description="Who addresses review findings; `execute` if unset.")
    ] = None
    verify: Annotated[AgentNames | None, Meta(description="Who judges, when an agent does.")] = None
    research: Annotated[
        AgentNames | None, Meta(description="Who searches the web, when no search service does.")
    ] = None


class FinalSettings(Options, frozen=True):
    """Commands run once after the last task; their output is stored and reported."""

    review: Annotated[Commands, Meta(description="Commands of the final review.")] = Commands()
    audit: Annotated[Commands, Meta(description="Commands of the final audit.")] = Commands()
    timeout: Annotated[Seconds, Meta(description="Seconds one of these commands may take.")] = 3600


class LogSettings(Options, frozen=True):
    """The structured log; prompts appear in it as length and hash only."""

    file: Annotated[str | None, Meta(description="The log file; `-` is stderr; no log if unset.")] = None
    format: Annotated[Literal["json", "text"], Meta(description="JSON lines or text.")] = "json"


class DiagnosticSettings(Options, frozen=True):
    """The commands that a judge may ask for to find out more."""

    allow: Annotated[
        tuple[str, ...],
        Meta(description="The beginnings of allowed commands; `*` stands for one plain word."),
    ] = ALLOWED
    timeout: Annotated[Seconds, Meta(description="Seconds one of these commands may take.")] = 300
    output_bytes: Annotated[
        int, Meta(ge=1024, description="Bytes of their output to keep: the end, where errors are.")
    ] = 32 * 1024

    def __post_init__(self) -> None:
        for rule in self.allow if self.allow is not ALLOWED else ():
            try:
                program = parse(rule)[0]
            except ValueError as error:
                raise OptionError("allow", str(error)) from None
            if program == "*":
                raise OptionError("allow", "`*` cannot stand for the program")


class GcSettings(Options, frozen=True):
    """What `segue gc` removes."""

    keep_days: Annotated[
        float, Meta(ge=0, description="Days to keep the files of a run that is done or failed.")
    ] = 30


class StoreSettings(Options, frozen=True):
    """How runs deal with their database."""

    patience: Annotated[
        float,
        Meta(ge=0, description="Seconds a run continues while Postgres is unreachable; events are buffered."),
    ] = 300


class FlowSettings(Options, frozen=True):
    """A flow of your own: the table `[flows.NAME]`."""

    phases: Annotated[
        tuple[Text, ...], Meta(min_length=1, description="The phases of each task, in their order.")
    ]


class Settings(Options, frozen=True):
    """All settings."""

    agent: Annotated[
        AgentNames | None,
        Meta(
            description="Who does the work: see `segue agent list`; others take over when the first cannot."
        ),
    ] = None
    model: Annotated[str | None, Meta(description="The agent's model; its own default if unset.")] = None
    flow: Annotated[
        str | None,
        Meta(
            description="The phases of each task: `execute`, `review`, `plan`, `spec`, `build`, or one of "
            "your own; the usual one for the source and the agent if unset."
        ),
    ] = None
    source: Annotated[
        Path | None, Meta(description="The plan or Spec Kit folder that `segue run` uses when none is named.")
    ] = None
    repo: Annotated[Path | None, Meta(description="The repository to work in when none is named.")] = None
    commit: Annotated[
        Literal["task", "phase", "never"], Meta(description="When Segue commits the agent's changes.")
    ] = "task"
    allow_dirty: Annotated[bool, Meta(description="Start even if the work tree has uncommitted changes.")] = (
        False
    )
    worktree: Annotated[
        bool, Meta(description="Give each run a git worktree of its own; yours is not touched.")
    ] = False
    worktree_end: Annotated[
        Literal["keep", "merge"],
        Meta(
            description="What to do with the branch of such a run when it is done: keep it, or merge it into "
            "yours if there is no conflict."
        ),
    ] = "keep"
    allow_no_change: Annotated[bool, Meta(description="Let a task succeed without changing anything.")] = (
        False
    )
    plan_format: Annotated[
        Literal["strict", "lenient"],
        Meta(description="`lenient` also reads headings such as `### Task 3: Title`."),
    ] = "strict"
    verify: Annotated[
        Literal["task", "strict"],
        Meta(
            description="`strict` judges every task of a story by all of its scenarios; `task` does so at "
            "the story's last open task."
        ),
    ] = "task"
    judged_by: Annotated[
        Literal["llm", "agent", "checks"] | None,
        Meta(
            description="Who decides whether a task is done: a model, an agent in the role `verify` (each "
            "with the checks), or the checks alone. If unset: an agent in the flow `build`, else a model."
        ),
    ] = None
    checks: Annotated[
        Commands,
        Meta(description='Commands that must succeed before a task is done, e.g. `["pytest -q"]`.'),
    ] = Commands()
    smoke: Annotated[
        dict[BuildPhaseName, Commands],
        Meta(
            description="More checks for the steps of a build phase: `setup`, `schema`, `backend`, "
            "`frontend`, `testing`, `deployment`."
        ),
    ] = {}
    replan: Annotated[
        Literal["caveats", "always", "never"],
        Meta(description="When to revise the rest of a plan made by an agent, after each step."),
    ] = "caveats"
    plan_changed: Annotated[
        Literal["ask", "keep", "restart"],
        Meta(description="What to do when the plan has changed since one of its tasks was completed."),
    ] = "ask"
    continue_with_remaining_tasks: Annotated[
        bool, Meta(description="Continue with the next task when one needs a human.")
    ] = False
    max_consecutive_task_failures: Annotated[
        Count | None,
        Meta(description="Stop after this many failed tasks in a row, even if the run may continue."),
    ] = None
    state_dir: Annotated[
        Path | None, Meta(description="Where Segue keeps its files; the user's state folder if unset.")
    ] = None
    database_url: Annotated[
        Secret | None,
        Meta(description="`postgresql://…`, or the path of a SQLite file; `segue.db` in state_dir if unset."),
    ] = None
    roles: RoleSettings = RoleSettings()
    store: StoreSettings = StoreSettings()
    gc: GcSettings = GcSettings()
    limits: LimitSettings = LimitSettings()
    review: ReviewSettings = ReviewSettings()
    judge: JudgeSettings = JudgeSettings()
    final: FinalSettings = FinalSettings()
    log: LogSettings = LogSettings()
    rls: RlsOptions = RlsOptions()
    search: SearchSettings = SearchSettings()
    diagnostics: DiagnosticSettings = DiagnosticSettings()
    provider: ProviderSettings = ProviderSettings()
    notify: NotifySettings = NotifySettings()
    relay: RelaySettings = RelaySettings()
    bridge: BridgeSettings = BridgeSettings()
    flows: Annotated[
        dict[str, FlowSettings], Meta(description="Flows of your own, each a list of phases.")
    ] = {}
    reviewers: Annotated[
        dict[str, dict[str, Any]], Meta(description="Options per reviewer: see docs/reviewing.md.")
    ] = {}
    profiles: Annotated[
        dict[str, dict[str, Any]],
        Meta(description="Models composed of several models: see docs/litellm.md."),
    ] = {}
    agents: Annotated[
        dict[str, dict[str, Any]], Meta(description="Options per agent: see `segue agent schema NAME`.")
    ] = {}
    acp: Annotated[
        dict[str, dict[str, Any]],
        Meta(description="More agents that speak the Agent Client Protocol: see docs/agents.md."),
    ] = {}
