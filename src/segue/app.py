"""The wiring: the only file that knows concrete classes."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from segue.config.load import Loaded, load
from segue.domain.errors import ToolMissing, UsageError
from segue.domain.finding import DismissReason, Finding
from segue.flow.kit import FLOWS, Reviewing, RunCheck, Verifying
from segue.flow.start import raise_problems
from segue.ports import Agent, Judge, Reviewer, Store, Workspace
from segue.reviewers.triage import at_least, triage
from segue.sources import planstate
from segue.sources.planfile import PlanFile
from segue.system.branches import LocalBranches, RemoteBranches
from segue.system.files import private_folder
from segue.system.git import Repository
from segue.system.redact import Redactor, secrets_of

if TYPE_CHECKING:
    from pydantic import ValidationError

    from segue.sources.speckit import SpecKit
    from segue.system.process import Processes

AnySource: TypeAlias = "PlanFile | SpecKit"

AGENTS = {
    "claude": "segue.agents.claude:ClaudeAgent",
    "codex": "segue.agents.codex:CodexAgent",
    "command": "segue.agents.command:CommandAgent",
    "cursor": "segue.agents.cursor:CursorAgent",
    "cursor-cloud": "segue.agents.cursor_cloud:CursorCloudAgent",
    "scripted": "segue.agents.scripted:ScriptedAgent",
}
"""Agents by name; further ones come from the entry-point group `segue.agents`."""


def agent_class(name: str) -> Any:
    """Import an agent's class."""
    where = AGENTS.get(name) or _entry_points().get(name)
    if where is None:
        known = ", ".join(sorted([*AGENTS, *_entry_points()]))
        raise UsageError(f"There is no agent {name!r}.", hint=f"Known agents: {known}")
    module, _, attribute = where.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _entry_points() -> dict[str, str]:
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group="segue.agents")}


def agent_names() -> list[str]:
    """Every agent that can be named."""
    return sorted({*AGENTS, *_entry_points()})


def make_agent(name: str, loaded: Loaded, processes: Processes, redactor: Redactor) -> Agent:
    """Build an agent from its options."""
    from pydantic import ValidationError

    kind = agent_class(name)
    values = loaded.settings.agents.get(name, {})
    try:
        options = kind.Options.model_validate(values)
    except ValidationError as error:
        raise _wrong_option(error, f"agents.{name}", loaded, f"See: segue agent schema {name}") from None
    agent: Agent = kind(options, processes, redactor)
    return agent


@dataclass(frozen=True, slots=True)
class App:
    """The settings of one command, and the parts made from them."""

    loaded: Loaded
    repo: Path
    """Where the user stands or points; not yet checked to be a repository."""
    config: Path | None = None
    """The configuration file the user named."""

    @classmethod
    def load(
        cls,
        repo: Path | None = None,
        config: Path | None = None,
        command_line: dict[str, Any] | None = None,
        stored: dict[str, Any] | None = None,
    ) -> App:
        """Read the settings that hold for a repository."""
        start = (repo or Path.cwd()).absolute()
        named = config.absolute() if config else None
        loaded = load(start, config=named, command_line=command_line, stored=stored)
        return cls(loaded, start if repo else (loaded.settings.repo or start), named)

    @property
    def state_dir(self) -> Path:
        """Where Segue keeps its files."""
        if self.loaded.settings.state_dir is not None:
            return self.loaded.settings.state_dir
        import platformdirs

        return platformdirs.user_state_path("segue")

    def database(self) -> str:
        """The database's URL or path."""
        url = self.loaded.settings.database_url
        return url.get_secret_value() if url else str(self.state_dir / "segue.db")

    def store(self, read_only: bool = False) -> Store:
        """Open the database."""
        from segue.store import connect

        if not read_only:
            own_folder(self.state_dir)
            _private_file(self.database())
        return connect(self.database(), read_only=read_only)

    def run_folder(self, run_id: str) -> Path:
        """Where the supervisor of a run keeps what its agents print; nobody else may read it."""
        return private_folder(private_folder(self.state_dir / "runs") / run_id)

    def source(self, named: str | None, repo: Path) -> AnySource:
        """The plan file or Spec Kit feature that was named, or that is found as Spec Kit finds it."""
        given = named or (str(self.loaded.settings.source) if self.loaded.settings.source else None)
        has_features = any((place / ".specify").is_dir() for place in (repo, *repo.parents))
        if given is not None and not _is_feature(given, has_features):
            return self._planfile(Path(given), repo)
        from segue.sources.speckit import SpecKit, find_feature

        if given is None and not has_features:
            raise UsageError("No plan was named.", hint="segue run plan.md   or set source in segue.toml")
        folder = find_feature(given, repo if given is None else Path.cwd(), os.environ)
        return SpecKit(folder, repo, self.loaded.settings.verify)

    def _planfile(self, path: Path, repo: Path) -> PlanFile:
        lenient = self.loaded.settings.plan_format == "lenient"
        return PlanFile(path, repo, planstate.state_path(self.state_dir, path, repo), lenient=lenient)

    def agent_name(self) -> str:
        """The agent that was chosen."""
        name = self.loaded.settings.agent
        if name is None:
            raise UsageError(
                "No agent was chosen.",
                hint='Use --agent NAME or set agent = "NAME" in segue.toml; see `segue agent list`',
            )
        agent_class(name)
        return name

    def flow_name(self, source_kind: str = "planfile") -> str:
        """The flow that was chosen, or the one that source and agent are usually used with."""
        usual = getattr(agent_class(self.agent_name()), "usual_flow", "execute")
        if source_kind == "speckit":
            usual = "spec"
        if usual == "execute" and self.loaded.settings.review.reviewer not in (None, "none"):
            usual = "review"
        name = self.loaded.settings.flow or usual
        if name not in FLOWS:
            raise UsageError(f"There is no flow {name!r}.", hint=f"Known flows: {', '.join(FLOWS)}")
        return name

    def redactor(self) -> Redactor:
        """Knows this user's secrets."""
        settings = self.loaded.settings
        tables = [*settings.agents.values(), *settings.reviewers.values()]
        given = [table["env"] for table in tables if isinstance(table.get("env"), dict)]
        known = [os.environ, {"DATABASE_URL": self.database()}, *given]
        return Redactor([secret for variables in known for secret in secrets_of(variables)])


def _is_feature(given: str, has_features: bool) -> bool:
    """A folder, its tasks.md, or the bare name of a feature; everything else is a plan file."""
    path = Path(given)
    if path.is_dir() or path.name == "tasks.md":
        return True
    return has_features and not path.suffix and not path.exists()


def make_reviewing(app: App, flow: str, repo: Path, cloud: bool) -> Reviewing | None:
    """The reviewer that was asked for, or stet if it is there; None when nobody reviews."""
    settings = app.loaded.settings
    wanted = settings.review.reviewer
    if "review" not in FLOWS[flow] or wanted == "none" or (cloud and wanted is None):
        return None
    if cloud:
        raise UsageError(
            f"The reviewer {wanted} looks at the work tree here, but cloud agents work elsewhere.",
            hint="Leave --review out; checks run on the agent's branch: see checks in docs/judging.md",
        )
    reviewer = _make_reviewer(app, wanted or "stet", repo)
    problems = reviewer.check()
    if wanted is None and (problems or settings.commit == "never"):
        return None
    if problems:
        raise ToolMissing(problems[0].message, hint=problems[0].fix)
    if reviewer.needs_commit and settings.commit == "never":
        raise UsageError(
            f'The reviewer {wanted} sees commits only, but commit = "never".', hint='Set commit = "phase"'
        )
    review = settings.review

    def parted(findings: Sequence[Finding]) -> tuple[list[Finding], list[tuple[Finding, DismissReason]]]:
        sorted_out = triage(at_least(findings, review.min_severity), review.dismiss)
        return list(sorted_out.kept), list(sorted_out.dismissed)

    return Reviewing(
        reviewer, parted, review.max_address_rounds, review.on_findings_remaining, review.on_review_failure
    )


def _make_reviewer(app: App, name: str, repo: Path) -> Reviewer:
    from pydantic import ValidationError

    from segue.reviewers.command import CommandReviewer
    from segue.reviewers.options import PRESETS, CommandReviewOptions, StetOptions, preset
    from segue.reviewers.stet import StetReviewer

    values, redactor = app.loaded.settings.reviewers.get(name, {}), app.redactor()
    try:
        if name == "stet":
            state = app.state_dir / "stet" / hashlib.sha256(str(repo).encode()).hexdigest()[:16]
            return StetReviewer(StetOptions.model_validate(values), repo, redactor, state)
        if name == "command":
            return CommandReviewer(CommandReviewOptions.model_validate(values), repo, redactor)
        if name in PRESETS:
            return CommandReviewer(preset(name, values), repo, redactor, name)
    except ValidationError as error:
        raise _wrong_option(error, f"reviewers.{name}", app.loaded, "See docs/reviewing.md") from None
    known = ", ".join(sorted({*PRESETS, "command", "none"}))
    raise UsageError(f"There is no reviewer {name!r}.", hint=f"Known reviewers: {known}")


def _wrong_option(error: ValidationError, table: str, loaded: Loaded, hint: str) -> UsageError:
    first = error.errors()[0]
    path = ".".join([table, *(str(part) for part in first["loc"])])
    return UsageError(f"{path}: {first['msg']} (from {loaded.origin(path)})", hint=hint)


def make_verifying(app: App, flow: str, run_check: RunCheck) -> Verifying | None:
    """The judge of the flows that verify; raises what keeps it from working."""
    if "verify" not in FLOWS[flow]:
        return None
    settings = app.loaded.settings
    if settings.commit == "never":
        raise UsageError(
            'The judge looks at commits, but commit = "never".', hint='Set commit = "task" or "phase"'
        )
    judge: Judge
    if settings.judged_by == "checks":
        from segue.judges.checks import ChecksJudge

        judge = ChecksJudge(settings.checks)
    else:
        from segue.judges.llm import LlmJudge

        judge = LlmJudge(settings.judge, app.redactor())
    raise_problems(judge.check())
    return Verifying(judge, settings.checks, run_check, settings.limits.resolutions)


def make_workspace(app: App, source: AnySource, agent: Agent, repo: Repository) -> Workspace:
    """Where the work happens: on remote branches, on a local branch per task, or where the user stands."""
    if agent.can.cloud:
        return RemoteBranches(repo, "origin", app.state_dir / "worktrees")
    if isinstance(source, PlanFile):
        return repo
    return LocalBranches(repo, f"segue/{source.folder.name}")


def own_folder(path: Path) -> None:
    """Make Segue's folder; inside a work tree it keeps itself out of git."""
    if not path.exists():
        private_folder(path)
        (path / ".gitignore").write_text("*\n")


def _private_file(database: str) -> None:
    """A new SQLite file is the user's alone, whatever the folder it lies in."""
    if "://" not in database:
        with contextlib.suppress(OSError):
            os.close(os.open(database, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def agent_report(app: App) -> list[dict[str, Any]]:
    """For every agent: is it ready here, what can it do, what is missing."""
    return [_report(app, name) for name in agent_names()]


def _report(app: App, name: str) -> dict[str, Any]:
    from segue.domain.errors import SegueError
    from segue.ports import Problem
    from segue.system.process import Processes

    can: list[str] = []
    try:
        agent = make_agent(name, app.loaded, Processes(app.state_dir), Redactor([]))
        can = [ability for ability, has in asdict(agent.can).items() if has]
        problems = agent.check()
    except SegueError as error:
        problems = [Problem(error.message, error.hint, error.exit_code)]
    return {
        "name": name,
        "ready": not problems,
        "can": can,
        "problems": [problem.message for problem in problems],
        "fix": problems[0].fix if problems else "",
        "exit_code": problems[0].exit_code if problems else 0,
    }
