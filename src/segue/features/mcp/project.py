"""The repository that a server is for, and what its callers may do there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from segue.domain.errors import UsageError
from segue.domain.run import TASK_RUNS, Run
from segue.runtime.app import App
from segue.runtime.find import find_run
from segue.system.git.folders import git_dirs
from segue.system.reading import work_tree

if TYPE_CHECKING:
    from segue.store.store import Store


class ServedProject(Struct, frozen=True):
    """One repository with its settings, which are read again for every call."""

    repo: Path
    config: Path | None = None
    place: dict[str, Any] = {}
    """The database, where the command line names it."""
    in_run: bool = False
    """Whether an agent of a run started the server: it may look, and must not decide about its own work."""

    def look(self) -> App:
        """Load the settings to look at something; those that lack trust are not in force."""
        return App.load(self.repo, self.config, dict(self.place), need="nothing")

    def load(self, **chosen: Any) -> App:
        """Load the settings to run something; raises Untrusted where a person must allow them first."""
        return App.load(self.repo, self.config, {**self.place, **chosen})

    def load_for(self, run: Run, *, resume: bool = False) -> App:
        """Load the settings of a run, to change what is stored of it or to resume it."""
        return App.load_for(run, self.config, dict(self.place), need="all" if resume else "place")

    def find(self, store: Store, app: App, name: str) -> Run:
        """Return the run with this id or unique prefix; `last` is the newest one of the repository."""
        run = find_run(store, app, name.strip() or "last")
        if run.spec.kind not in TASK_RUNS:
            raise UsageError(f"Run {run.id} has no tasks: its kind is {run.spec.kind}.")
        return run

    def find_own(self, name: str) -> tuple[App, Run]:
        """Return a run that may be changed from here: one of this repository."""
        self.refuse_agents()
        app = App.load(self.repo, self.config, dict(self.place), need="place")
        with app.store(read_only=True) as store:
            run = self.find(store, app, name)
        here, there = git_dirs(self.repo), git_dirs(Path(run.spec.repo))
        same = self.repo == Path(run.spec.repo) if here is None or there is None else here[1] == there[1]
        if not same:
            raise UsageError(
                f"Run {run.id} belongs to another repository, {run.spec.repo}.",
                kept="Nothing was changed.",
                hint=f"Use a server for that one: segue mcp --repo {run.spec.repo}",
            )
        return app, run

    def check_source(self, name: str) -> None:
        """Refuse what is outside of the repository: a caller may have been tricked into naming it."""
        root = work_tree(self.repo).resolve()
        try:
            path = (self.repo / Path(name).expanduser()).resolve()
            is_outside = path.exists() and not path.is_relative_to(root)
        except (OSError, RuntimeError, ValueError):
            return  # a sentence, not a path
        if is_outside:
            raise UsageError(
                f"{name} is outside of the repository {root}.",
                kept="Nothing was read or started.",
                hint="Name a source that list_sources lists, or let the user run it: segue run PATH",
            )

    def refuse_agents(self) -> None:
        """Refuse to change anything for an agent that works in a run itself."""
        if self.in_run:
            raise UsageError(
                "This server was started by an agent of a Segue run, so it only answers questions: a run "
                "starts no further runs and does not decide about itself.",
                kept="Nothing was changed.",
                hint="Do the task yourself, and say what a person has to decide",
            )
