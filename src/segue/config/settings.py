"""Every setting with its type, default and one-line meaning. `segue config schema` prints this."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, field_validator

from segue.config.bridge import BridgeSettings
from segue.config.provider import ProviderSettings
from segue.domain.budget import Budget
from segue.domain.diagnostic import ALLOWED, parse
from segue.domain.finding import Severity
from segue.domain.job import Limits
from segue.domain.plan import BuildPhase
from segue.judges.options import JudgeSettings
from segue.judges.rls.options import RlsOptions
from segue.notify.options import NotifySettings
from segue.relay.options import RelaySettings
from segue.reviewers.triage import DismissRule
from segue.searchers.options import SearchSettings


class LimitSettings(BaseModel):
    """What a launch and a whole run may use."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    phase_timeout: float = Field(1800, gt=0, description="Seconds one launch of an agent may take.")
    idle_timeout: float = Field(900, gt=0, description="Seconds an agent may print nothing.")
    run_timeout: float | None = Field(None, gt=0, description="Seconds the whole run may take.")
    kill_grace: float = Field(
        3, ge=0, description="Seconds between the rungs of the ladder: interrupt, terminate, kill."
    )
    attempts: int = Field(1, ge=1, description="Launches per phase of a task before it needs a human.")
    resolutions: int | None = Field(
        None,
        ge=0,
        description="How often a task that fails verification is sent back to the agent; 2 if unset, 5 in "
        "the flow `build`.",
    )
    replans: int = Field(
        10, ge=0, description="How often a plan that an agent made may be looked at again in one run."
    )
    launches: int | None = Field(None, ge=1, description="Launches per run.")
    tokens: int | None = Field(None, ge=1, description="Tokens per run; needs an agent that reports them.")
    cost_usd: float | None = Field(
        None, gt=0, description="US dollars per run; needs an agent that reports cost."
    )
    output_bytes: int = Field(2 * 1024**3, ge=1, description="Bytes one launch may print before it is ended.")
    kept_bytes: int = Field(
        1024**2, ge=1024, description="Bytes of each output stream kept as events; the rest is counted."
    )

    def launch(self) -> Limits:
        """The limits of one launch."""
        return Limits(
            self.phase_timeout, self.idle_timeout, self.kill_grace, self.output_bytes, self.kept_bytes
        )

    def budget(self) -> Budget:
        """The caps of a whole run."""
        return Budget(self.launches, self.tokens, self.cost_usd)


class ReviewSettings(BaseModel):
    """Who reviews what the agent did, and what follows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reviewer: str | None = Field(
        None, description="`stet`, `ruff`, `semgrep`, `command` or `none`; stet if it is found, when unset."
    )
    max_address_rounds: int = Field(
        5, ge=0, description="How often the agent is sent back to address findings."
    )
    on_findings_remaining: Literal["warn", "fail"] = Field(
        "warn", description="What becomes of a task whose findings remain after the last round."
    )
    on_review_failure: Literal["fail", "retry_once", "skip"] = Field(
        "fail", description="What becomes of a task whose reviewer fails."
    )
    min_severity: Severity = Field(Severity.INFO, description="Milder findings are left out.")
    dismiss: tuple[DismissRule, ...] = Field(
        (), description="Findings that are dismissed without asking the agent."
    )


def _listed(value: Any) -> Any:
    return ",".join(value) if isinstance(value, list) and all(isinstance(v, str) for v in value) else value


Agents = Annotated[str | None, BeforeValidator(_listed)]
"""`NAME`, `NAME:MODEL`, or several in the order in which they are tried."""


class RoleSettings(BaseModel):
    """Who plays which role: `NAME`, `NAME:MODEL`, or a list of which the first that can work does."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    plan: Agents = Field(None, description="Who plans.")
    execute: Agents = Field(None, description="Who does the work, and mends it when it is sent back.")
    address: Agents = Field(None, description="Who addresses review findings; `execute` if unset.")
    verify: Agents = Field(None, description="Who judges, when an agent does.")
    research: Agents = Field(None, description="Who searches the web, when no search service does.")


class FinalSettings(BaseModel):
    """Commands run once after the last task; their output is stored and reported."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    review: tuple[tuple[str, ...], ...] = Field((), description="Commands of the final review.")
    audit: tuple[tuple[str, ...], ...] = Field((), description="Commands of the final audit.")
    timeout: float = Field(3600, gt=0, description="Seconds one of these commands may take.")


class LogSettings(BaseModel):
    """The structured log; prompts appear in it as length and hash only."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str | None = Field(None, description="Where the log goes; `-` is stderr; none if unset.")
    format: Literal["json", "text"] = Field("json", description="JSON lines or text.")


class DiagnosticSettings(BaseModel):
    """The commands that a judge may have run to find out more."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    allow: tuple[str, ...] = Field(
        ALLOWED, description="What allowed commands begin with; `*` stands for one plain word."
    )
    timeout: float = Field(300, gt=0, description="Seconds one of these commands may take.")
    output_bytes: int = Field(
        32 * 1024, ge=1024, description="Bytes of their output that are kept: the end, where errors stand."
    )

    @field_validator("allow")
    @classmethod
    def _can_be_split(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for rule in value:
            if parse(rule)[0] == "*":
                raise ValueError("`*` cannot stand for the program")
        return value


class GcSettings(BaseModel):
    """What `segue gc` removes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keep_days: float = Field(
        30, ge=0, description="Days for which the files of a run that is done or failed are kept."
    )


class StoreSettings(BaseModel):
    """How runs get along with their database."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    patience: float = Field(
        300,
        ge=0,
        description="Seconds a run goes on while its Postgres database is away; what happens is buffered.",
    )


class Settings(BaseModel):
    """All settings."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent: Agents = Field(
        None, description="Who does the work: see `segue agent list`; further ones take over when it cannot."
    )
    model: str | None = Field(None, description="The model the agent should use; its own default if unset.")
    flow: str | None = Field(
        None,
        description="How each task is carried: `execute`, `review`, `plan`, `spec`, `build`; the usual one "
        "if unset.",
    )
    source: Path | None = Field(
        None, description="The plan or Spec Kit folder that `segue run` takes when none is named."
    )
    repo: Path | None = Field(None, description="The repository to work in when none is named.")
    commit: Literal["task", "phase", "never"] = Field(
        "task", description="When Segue commits what the agent changed."
    )
    allow_dirty: bool = Field(False, description="Start although the work tree has uncommitted changes.")
    worktree: bool = Field(
        False, description="Work in a git worktree of the run's own; yours is not touched."
    )
    worktree_end: Literal["keep", "merge"] = Field(
        "keep",
        description="What becomes of the branch of such a run when it is done: it stays, or it is merged "
        "into yours if that goes without a conflict.",
    )
    allow_no_change: bool = Field(False, description="A task may succeed without changing anything.")
    plan_format: Literal["strict", "lenient"] = Field(
        "strict", description="`lenient` also reads headings such as `### Task 3: Title`."
    )
    verify: Literal["task", "strict"] = Field(
        "task",
        description="`strict` judges every task of a story by all of its scenarios; `task` does so at the "
        "story's last open task.",
    )
    judged_by: Literal["llm", "agent", "checks"] | None = Field(
        None,
        description="Who decides whether a task is done: a model, an agent in the role `verify` (each with "
        "the checks), or the checks alone; an agent in the flow `build`, else a model, if unset.",
    )
    checks: tuple[tuple[str, ...], ...] = Field(
        (), description='Commands whose failure keeps a task from being done, e.g. `[["pytest", "-q"]]`.'
    )
    smoke: dict[BuildPhase, tuple[tuple[str, ...], ...]] = Field(
        default_factory=dict,
        description="Further checks for the steps of a build phase: `setup`, `schema`, `backend`, "
        "`frontend`, `testing`, `deployment`.",
    )
    replan: Literal["caveats", "always", "never"] = Field(
        "caveats", description="When the rest of a plan that an agent made is looked at again after a step."
    )
    plan_changed: Literal["ask", "keep", "restart"] = Field(
        "ask", description="What to do when the plan has changed since a task of it was completed."
    )
    continue_with_remaining_tasks: bool = Field(
        False, description="Go on with the next task when one needs a human."
    )
    max_consecutive_task_failures: int | None = Field(
        None, ge=1, description="Stop after so many failed tasks in a row, even when going on is allowed."
    )
    state_dir: Path | None = Field(
        None, description="Where Segue keeps its files; the user's state folder if unset."
    )
    database_url: SecretStr | None = Field(
        None, description="`postgresql://…`, or the path of a SQLite file; `segue.db` in state_dir if unset."
    )
    roles: RoleSettings = RoleSettings()  # type: ignore[call-arg]
    store: StoreSettings = StoreSettings()  # type: ignore[call-arg]
    gc: GcSettings = GcSettings()  # type: ignore[call-arg]
    limits: LimitSettings = LimitSettings()  # type: ignore[call-arg]
    review: ReviewSettings = ReviewSettings()  # type: ignore[call-arg]
    judge: JudgeSettings = JudgeSettings()  # type: ignore[call-arg]
    final: FinalSettings = FinalSettings()  # type: ignore[call-arg]
    log: LogSettings = LogSettings()  # type: ignore[call-arg]
    rls: RlsOptions = RlsOptions()  # type: ignore[call-arg]
    search: SearchSettings = SearchSettings()  # type: ignore[call-arg]
    diagnostics: DiagnosticSettings = DiagnosticSettings()  # type: ignore[call-arg]
    provider: ProviderSettings = ProviderSettings()  # type: ignore[call-arg]
    notify: NotifySettings = NotifySettings()  # type: ignore[call-arg]
    relay: RelaySettings = RelaySettings()  # type: ignore[call-arg]
    bridge: BridgeSettings = BridgeSettings()  # type: ignore[call-arg]
    reviewers: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Options per reviewer: see docs/reviewing.md."
    )
    profiles: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Models made of several models: see docs/litellm.md."
    )
    agents: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Options per agent: see `segue agent schema NAME`."
    )
    acp: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Further agents that speak the Agent Client Protocol: see docs/agents.md.",
    )
