"""The wiring: the only file that knows concrete classes."""

from __future__ import annotations

import importlib
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segue.config.load import Loaded, load
from segue.domain.errors import UsageError
from segue.flow.kit import FLOWS
from segue.ports import Agent, Store
from segue.sources import planstate
from segue.sources.planfile import PlanFile
from segue.system.redact import Redactor, secrets_of

if TYPE_CHECKING:
    from segue.system.process import Processes

AGENTS = {
    "command": "segue.agents.command:CommandAgent",
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
        first = error.errors()[0]
        path = ".".join(["agents", name, *(str(part) for part in first["loc"])])
        raise UsageError(
            f"{path}: {first['msg']} (from {loaded.origin(path)})", hint=f"See: segue agent schema {name}"
        ) from None
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
        return connect(self.database(), read_only=read_only)

    def run_folder(self, run_id: str) -> Path:
        """Where the supervisor of a run keeps what its agents print."""
        return self.state_dir / "runs" / run_id

    def plan_path(self, named: str | None) -> Path:
        """The plan that was named on the command line or in the settings."""
        path = Path(named) if named else self.loaded.settings.source
        if path is None:
            raise UsageError("No plan was named.", hint="segue run plan.md   or set source in segue.toml")
        return path

    def planfile(self, path: Path, repo: Path) -> PlanFile:
        """The plan as a source of tasks."""
        lenient = self.loaded.settings.plan_format == "lenient"
        state = planstate.state_path(self.state_dir, path, repo)
        return PlanFile(path, repo, state, lenient=lenient)

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

    def flow_name(self) -> str:
        """The flow that was chosen, or the one the agent is usually used with."""
        name = self.loaded.settings.flow or getattr(agent_class(self.agent_name()), "usual_flow", "execute")
        if name not in FLOWS:
            raise UsageError(f"There is no flow {name!r}.", hint=f"Known flows: {', '.join(FLOWS)}")
        return name

    def redactor(self) -> Redactor:
        """Knows this user's secrets."""
        return Redactor([*secrets_of(os.environ), *secrets_of({"DATABASE_URL": self.database()})])


def own_folder(path: Path) -> None:
    """Make Segue's folder; inside a work tree it keeps itself out of git."""
    from segue.system.files import private_folder

    if not path.exists():
        private_folder(path)
        (path / ".gitignore").write_text("*\n")


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
