"""The settings of one command, and the places that follow from them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from segue.config.load import LoadedSettings, load, refuse_unknown
from segue.config.trust import Untrusted, trust_command
from segue.domain.errors import ToolMissing, UsageError
from segue.domain.run import Run
from segue.runtime import registry
from segue.sources.recognise import recognise
from segue.store.address import check_address, is_postgres, sqlite_path
from segue.system.files import check_writable, private_folder, write_error
from segue.system.programs import keep_out
from segue.system.reach import tree_around
from segue.system.reading import work_tree
from segue.system.secrets import secret_folder

if TYPE_CHECKING:
    from segue.ports import Source, SourceRequest
    from segue.store.database import Database
    from segue.store.store import Store
    from segue.system.isolation.isolate import Isolation
    from segue.system.process.processes import Processes
    from segue.system.redact import Redactor
    from segue.system.services import Services


Need = Literal["all", "place", "nothing"]
"""Which settings of a project must be trusted: all, to run something; those that say where runs are stored,
to change one; none, to look."""
_PLACE = ("state_dir", "database_url", "repo")
_PLAIN = ("", ".md", ".markdown", ".txt")
"""How the names of plan files end, if nothing else says what they are."""


class App(Struct, frozen=True):
    """The settings of one command, and the places that follow from them."""

    loaded: LoadedSettings
    repo: Path
    """The folder the user is in or points to; not yet checked to be a repository."""
    config: Path | None = None
    """The configuration file the user named."""
    tell: Callable[[str], None] | None = None
    """Called when a command waits for the database; without it, only runs at work wait for theirs."""
    stands_for: Path | None = None
    """The user's repository, where `repo` is a copy of it: checks have what is installed there."""
    made_redactor: Redactor | None = None
    """What removes secrets, where that is made once; without it, each use looks for secrets again."""

    @classmethod
    def load(
        cls,
        repo: Path | None = None,
        config: Path | None = None,
        command_line: dict[str, Any] | None = None,
        stored: dict[str, Any] | None = None,
        need: Need = "all",
        parts: bool = True,
    ) -> App:
        """Read the settings for a repository; Untrusted is raised where those that are needed lack trust.

        Without `parts`, what is said about agents and other parts is not checked, which would import them.
        """
        from segue.runtime.flows import check_flows
        from segue.runtime.tables import check_tables, known_names

        start = (repo or Path.cwd()).absolute()
        named = config.absolute() if config else None
        loaded = load(start, config=named, command_line=command_line, stored=stored, known=known_names)
        if parts:
            check_tables(loaded)
        check_flows(loaded.settings.flows)
        _check_trust(loaded, need)
        app = cls(loaded, start if repo else (loaded.settings.repo or start), named)
        keep_out(app.written_by_agents())
        return app

    @classmethod
    def load_for(
        cls,
        run: Run,
        config: Path | None = None,
        command_line: dict[str, Any] | None = None,
        need: Need = "all",
    ) -> App:
        """Read the settings a run was started with; a configuration file named now takes the place of its."""
        named = config or (Path(run.spec.config) if run.spec.config else None)
        repo = Path(run.spec.repo) if run.spec.kind.has_tasks and run.spec.origin is None else None
        return cls.load(repo, named, command_line, stored=run.spec.settings, need=need)

    def place(self) -> dict[str, str]:
        """Return the settings that make another Segue use the same database and state folder."""
        return {"database_url": self.database(), "state_dir": str(self.state_dir)}

    @property
    def state_dir(self) -> Path:
        """Where Segue keeps its files."""
        if self.loaded.settings.state_dir is not None:
            return self.loaded.settings.state_dir
        import platformdirs

        return platformdirs.user_state_path("segue")

    @property
    def secret_dir(self) -> Path:
        """Where tokens, keys and approvals are: with the user, wherever a project keeps the rest."""
        return secret_folder(self.loaded.settings.state_dir)

    def database(self) -> str:
        """Return the database's URL or path."""
        url = self.loaded.settings.database_url
        return check_address(url.reveal()) if url else str(self.state_dir / "segue.db")

    def store(self, read_only: bool = False, buffered: bool = True, opened: Sequence[Database] = ()) -> Store:
        """Open the database; `buffered` keeps what cannot be written while it is away in files."""
        from segue.store import connect

        if not read_only:
            make_own_folder(self.state_dir)
            _make_private(self.database())
        settings = self.loaded.settings
        patience = settings.limits.patience
        redactor = None if read_only else self.redactor()
        spools = self.state_dir / "runs" if buffered else None
        return connect(self.database(), read_only, spools, patience, self.tell, redactor, opened)

    def check_writable(self) -> None:
        """Refuse a state folder and a database that could not be made or written; nothing is made."""
        database = self.database()
        places = [self.state_dir, *([] if is_postgres(database) else [sqlite_path(database)])]
        for place in places:
            check_writable(place)

    def run_folder(self, run_id: str) -> Path:
        """Return the private folder where the supervisor of a run keeps what its agents print."""
        return private_folder(private_folder(self.state_dir / "runs") / run_id)

    def guard_folder(self, run_id: str) -> Path:
        """Return where a run keeps what its agents must not touch."""
        return self.state_dir / "runs" / run_id / "guard"

    def exams(self) -> Path:
        """Return where independent tests are kept: no agent may read them, and later runs need them."""
        return self.state_dir.absolute() / "exams"

    def source(self, named: str | None, repo: Path, kind: str | None = None) -> Source:
        """Open the source that was named, or the one that is found; `kind` says which variant is meant."""
        request = self._request_source(named, repo)
        name = kind or self._find_source(request)
        return self._open_source(request, name)

    def past_source(self, run: Run) -> Source:
        """Open the source of a run, whatever options this command was given for another one."""
        request = self._request_source(run.spec.source, Path(run.spec.repo))
        return self._open_source(request, run.spec.source_kind)

    def _open_source(self, request: SourceRequest, name: str) -> Source:
        kind_of_source: type[Source] = registry.load("sources", name)
        return registry.check_members("sources", name, kind_of_source.open(self._with_options(request, name)))

    def plans_tasks(self, named: str | None) -> bool:
        """Return whether an agent plans the tasks of a source."""
        from segue.ports import Source

        return registry.load("sources", self.find_kind(named)).outline is not Source.outline

    def find_kind(self, named: str | None) -> str:
        """Return which variant of a source was named, or is found, without opening it."""
        return self._find_source(self._request_source(named, work_tree(self.repo)))

    def _request_source(self, named: str | None, repo: Path) -> SourceRequest:
        from segue.ports import SourceRequest

        source = self.loaded.settings.source if named is None else None
        return SourceRequest(
            named=named if source is None else str(source),
            repo=repo,
            state_dir=self.state_dir,
            here=Path.cwd(),
            configured=source is not None,
            redact=self.redactor().text,
        )

    def _find_source(self, request: SourceRequest) -> str:
        return self.loaded.settings.source_kind or recognise(request) or self._ask_plugins(request)

    def _ask_plugins(self, request: SourceRequest) -> str:
        """Return the plug-in that recognises what was named; what nobody recognises is a plan file."""
        broken: ToolMissing | None = None
        for name in registry.plugin_names("sources"):
            try:
                if registry.load("sources", name).matches(self._with_options(request, name)):
                    return name
            except ToolMissing as error:
                broken = broken or error
        if broken is not None and Path(request.named or "").suffix not in _PLAIN:
            raise broken  # it may be the one that was meant
        return "planfile"

    def _with_options(self, request: SourceRequest, name: str) -> SourceRequest:
        settings = self.loaded.settings
        own = {
            "github": settings.github,
        }
        return replace(request, options={**own, **settings.sources.get(name, {})})

    def services(self, processes: Processes, repo: Path | None = None) -> Services:
        """Return what Segue lends to the parts of a run."""
        from segue.system.services import Services

        return Services(
            repo or self.repo,
            self.state_dir,
            processes,
            self.redactor(),
            self.isolation(),
        )

    def isolation(self) -> Isolation:
        """Return the sandbox that the settings ask for; what works is found out when it is first needed."""
        import platformdirs

        from segue.system.isolation.isolate import Isolation, SandboxOptions
        from segue.system.isolation.policy import Places, Strength
        from segue.system.lane import top_of

        settings, database = self.loaded.settings, self.database()
        sandbox = settings.sandbox
        files = [] if is_postgres(database) else [Path(f"{database}{end}") for end in ("", "-wal", "-shm")]
        own = (platformdirs.user_config_path("segue"), platformdirs.user_state_path("segue"))
        return Isolation(
            SandboxOptions(
                isolation=settings.isolation,
                strength=Strength(sandbox.strength),
                given=Places(sandbox.write, sandbox.read),
                hide=(*files, *own, *sandbox.hide),
                runtime=sandbox.runtime,
                image=sandbox.image,
                state_dir=self.state_dir.absolute(),
                home=top_of(self.repo),
                shared=settings.lane_link,
            )
        )

    def written_by_agents(self) -> Iterator[Path]:
        """Yield the places that agents of this command can write: Segue starts no program from there."""
        from segue.system.isolation.places import CACHES

        tree, sandbox = tree_around(self.repo), self.loaded.settings.sandbox
        if tree is not None:
            yield Path(tree)
        yield self.state_dir / "worktrees"
        for place in sandbox.write:
            yield self.repo / Path(os.path.expandvars(place)).expanduser()
        if self.loaded.settings.isolation != "none":
            yield from (Path.home() / name for name in CACHES)

    def redactor(self) -> Redactor:
        """Return what removes this user's secrets."""
        if self.made_redactor is not None:
            return self.made_redactor
        from segue.system.redact import Redactor
        from segue.system.sensitive import secrets_of

        settings = self.loaded.settings
        tables = [*settings.agents.values(), *settings.acp.values(), *settings.reviewers.values()]
        given = [table["env"] for table in tables if isinstance(table.get("env"), dict)]
        known = [os.environ, {"DATABASE_URL": self.database()}, *given]
        found = [secret for variables in known for secret in secrets_of(variables)]
        return Redactor(found, later=self._secrets_in_files)

    def _secrets_in_files(self) -> list[str]:
        from segue.system.sensitive import project_secrets, repository_secrets, user_secrets

        return [*project_secrets(self.repo), *repository_secrets(self.repo), *user_secrets()]


def _check_trust(loaded: LoadedSettings, need: Need) -> None:
    """Refuse to work without settings that the project's file has and nobody has allowed.

    Leaving out a check would make the result dishonest.
    """
    if need == "nothing":
        return
    if need == "all" and loaded.found.refused is not None:
        raise UsageError(
            f"{loaded.found.refused} belongs to another user, so its settings do not count.",
            kept="Nothing was started.",
            hint="Make it yours (chown), or name a file of your own with --config",
        )
    project = loaded.project
    if project is None or project.is_trusted:
        return
    if need == "all" or any(name in _PLACE for name in (*project.held, *project.removed)):
        refuse_unknown(project)
        raise Untrusted(project)


def notes_on_settings(loaded: LoadedSettings) -> list[str]:
    """Say which settings do not count where a command only looks, and which have another name now."""
    notes = [
        *loaded.old_names,
        *(
            f"{path} belongs to another user, so its settings do not count."
            for path in (*loaded.found.foreign, loaded.found.refused)
            if path is not None
        ),
    ]
    project = loaded.project
    if project is not None and not project.is_trusted:
        notes.append(f"{project.describe_briefly()} Next: {trust_command(project.path)}")
    return notes


def make_own_folder(path: Path) -> None:
    """Make Segue's folder; inside a work tree it keeps itself out of git."""
    if path.exists():
        return
    ignore = private_folder(path) / ".gitignore"
    try:
        ignore.write_text("*\n")
    except OSError as error:
        with contextlib.suppress(OSError):  # or it would be taken for a folder that needs no .gitignore
            ignore.unlink(missing_ok=True)
            path.rmdir()
        raise write_error(error, ignore) from error


def _make_private(database: str) -> None:
    """Make a new SQLite file the user's alone, whatever the folder it is in."""
    if not is_postgres(database):
        from segue.store.sqlite import create_file

        create_file(sqlite_path(database))
