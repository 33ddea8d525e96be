"""The wiring: the only file that knows concrete classes."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from segue.config.load import LoadedSettings, load
from segue.domain.errors import UsageError
from segue.domain.options import OptionError, read_options
from segue.domain.role import Part, Role, parts_of
from segue.flow.context import FLOWS
from segue.ports import Agent, Store
from segue.sources.plan import state as planstate
from segue.sources.plan.source import PlanFile
from segue.system.files import private_folder
from segue.system.redact import Redactor, secrets_of

if TYPE_CHECKING:
    from segue.config.settings import Settings
    from segue.sources.prompt import PromptSource
    from segue.sources.speckit.source import SpecKit
    from segue.system.process.processes import Processes

AnySource: TypeAlias = "PlanFile | SpecKit | PromptSource"

AGENTS = {
    "claude": "segue.agents.claude.agent:ClaudeAgent",
    "codex": "segue.agents.codex.agent:CodexAgent",
    "command": "segue.agents.command:CommandAgent",
    "copilot": "segue.agents.acp.agent:COPILOT",
    "cursor": "segue.agents.cursor.agent:CursorAgent",
    "cursor-acp": "segue.agents.acp.agent:CURSOR",
    "cursor-cloud": "segue.agents.cursor_cloud.agent:CursorCloudAgent",
    "gemini": "segue.agents.acp.agent:GEMINI",
    "opencode": "segue.agents.acp.agent:OPENCODE",
    "qwen": "segue.agents.acp.agent:QWEN",
    "scripted": "segue.agents.scripted.agent:ScriptedAgent",
    "vibe": "segue.agents.acp.agent:VIBE",
}
"""Agents by name; further ones come from the settings `acp` and the entry-point group `segue.agents`."""


def agent_class(name: str, settings: Settings | None = None) -> Any:
    """Import an agent's class; the settings may define further agents."""
    if settings is not None and name in settings.acp:
        from segue.agents.acp.agent import AcpKind
        from segue.agents.acp.profiles import Profile

        return AcpKind(name, read_options(Profile, settings.acp[name]))
    where = AGENTS.get(name) or _entry_points().get(name)
    if where is None:
        from difflib import get_close_matches

        known = agent_names(settings)
        near = get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise UsageError(f"There is no agent {name!r}.", hint=f"{hint}Known agents: {', '.join(known)}")
    module, _, attribute = where.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _entry_points() -> dict[str, str]:
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group="segue.agents")}


def agent_names(settings: Settings | None = None) -> list[str]:
    """Every agent that can be named."""
    return sorted({*AGENTS, *_entry_points(), *(settings.acp if settings else ())})


def _known_names(table: str) -> Iterator[str]:
    """Yield the names a table of settings may have, the built-in ones first: plug-ins are slow to find."""
    if table == "agents":
        yield from AGENTS
        yield from _entry_points()
    elif table == "reviewers":
        from segue.reviewers.options import PRESETS

        yield from (*PRESETS, "command")


def _check_profiles(loaded: LoadedSettings) -> None:
    for name, table in loaded.settings.acp.items():
        from segue.agents.acp.profiles import check_profile

        path = f"acp.{name}"
        inside = (known for known in loaded.origins if known == path or known.startswith(f"{path}."))
        check_profile(name, table, loaded.origin(next(inside, path)), name in {*AGENTS, *_entry_points()})


def make_agent(name: str, loaded: LoadedSettings, processes: Processes, redactor: Redactor) -> Agent:
    """Build an agent from its options."""
    kind = agent_class(name, loaded.settings)
    values = loaded.settings.agents.get(name, {})
    try:
        options = read_options(kind.Options, values)
    except OptionError as error:
        raise wrong_option(error, f"agents.{name}", loaded, f"See: segue agent schema {name}") from None
    agent: Agent = kind(options, processes, redactor)
    return agent


@dataclass(frozen=True, slots=True)
class App:
    """The settings of one command, and the parts made from them."""

    loaded: LoadedSettings
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
        loaded = load(start, config=named, command_line=command_line, stored=stored, known=_known_names)
        _check_profiles(loaded)
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
        return url.reveal() if url else str(self.state_dir / "segue.db")

    def store(self, read_only: bool = False) -> Store:
        """Open the database."""
        from segue.store import connect

        if not read_only:
            own_folder(self.state_dir)
            _private_file(self.database())
        patience = self.loaded.settings.store.patience
        return connect(self.database(), read_only, spools=self.state_dir / "runs", patience=patience)

    def run_folder(self, run_id: str) -> Path:
        """Where the supervisor of a run keeps what its agents print; nobody else may read it."""
        return private_folder(private_folder(self.state_dir / "runs") / run_id)

    def source(self, named: str | None, repo: Path) -> AnySource:
        """The plan file, Spec Kit feature or prompt that was named, or what is found as Spec Kit finds it."""
        given = named or (str(self.loaded.settings.source) if self.loaded.settings.source else None)
        if named is not None and is_prompt(named):
            from segue.sources.prompt import PromptSource, state_path

            goal = self.redactor().text(named)  # it stands in files, in the database and in names
            return PromptSource(goal, repo, state_path(self.state_dir, goal, repo))
        has_features = any((place / ".specify").is_dir() for place in (repo, *repo.parents))
        if given is not None and not _is_feature(given, has_features):
            return self._planfile(Path(given), repo)
        from segue.sources.speckit.source import SpecKit, find_feature

        if given is None and not has_features:
            raise UsageError("No plan was named.", hint="segue run plan.md   or set source in segue.toml")
        folder = find_feature(given, repo if given is None else Path.cwd(), os.environ)
        return SpecKit(folder, repo, self.loaded.settings.verify)

    def _planfile(self, path: Path, repo: Path) -> PlanFile:
        lenient = self.loaded.settings.plan_format == "lenient"
        return PlanFile(path, repo, planstate.state_path(self.state_dir, path, repo), lenient=lenient)

    def agent_name(self) -> str:
        """Who was chosen for everything that no role is named for."""
        settings = self.loaded.settings
        name = settings.agent or settings.roles.execute
        if name is None:
            raise UsageError(
                "No agent was chosen.",
                hint='Use --agent NAME or set agent = "NAME" in segue.toml; see `segue agent list`',
            )
        for part in self.parts(Role.EXECUTE, name):
            agent_class(part.agent, settings)
        return name

    def parts(self, role: Role, default: str) -> tuple[Part, ...]:
        """Who plays a role: the preferred one first, then those to fall back on."""
        settings = self.loaded.settings
        instead = settings.roles.execute if role is Role.ADDRESS else None
        text = getattr(settings.roles, role) or instead or default
        try:
            return parts_of(text, settings.model)
        except ValueError as error:
            raise UsageError(f"The role {role}: {error}") from None

    def flow_name(self, source_kind: str = "planfile") -> str:
        """The flow that was chosen, or the one that source and agent are usually used with."""
        first = self.parts(Role.EXECUTE, self.agent_name())[0].agent
        usual = getattr(agent_class(first, self.loaded.settings), "usual_flow", "execute")
        usual = {"speckit": "spec", "prompt": "build"}.get(source_kind, usual)
        if usual == "execute" and self.loaded.settings.review.reviewer not in (None, "none"):
            usual = "review"
        name = self.loaded.settings.flow or usual
        if name not in FLOWS:
            raise UsageError(f"There is no flow {name!r}.", hint=f"Known flows: {', '.join(FLOWS)}")
        if (name == "build") != (source_kind == "prompt"):
            raise UsageError(
                f"The flow {name} does not fit: `build` is for prompts, the others for plans and features."
            )
        return name

    def redactor(self) -> Redactor:
        """Knows this user's secrets."""
        settings = self.loaded.settings
        tables = [*settings.agents.values(), *settings.acp.values(), *settings.reviewers.values()]
        given = [table["env"] for table in tables if isinstance(table.get("env"), dict)]
        known = [os.environ, {"DATABASE_URL": self.database()}, *given]
        return Redactor([secret for variables in known for secret in secrets_of(variables)])


def is_prompt(given: str) -> bool:
    """Several words that are no file: a sentence that says what to build."""
    words = given.split()
    return len(words) > 1 and not given.rstrip().endswith(".md") and not _exists(given)


def _exists(given: str) -> bool:
    try:
        return Path(given).exists()
    except OSError:  # too long for a path
        return False


def _is_feature(given: str, has_features: bool) -> bool:
    """A folder, its tasks.md, or the bare name of a feature; everything else is a plan file."""
    path = Path(given)
    if path.is_dir() or path.name == "tasks.md":
        return True
    return has_features and not path.suffix and not path.exists()


def wrong_option(error: OptionError, table: str, loaded: LoadedSettings, hint: str) -> UsageError:
    """Say which option of a part is wrong, and where it was set."""
    path = f"{table}.{error.path}" if error.path else table
    return UsageError(f"{path}: {error.message} (from {loaded.where(path)})", hint=hint)


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
