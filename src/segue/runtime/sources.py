"""The sources in a repository that `segue run` could be given, and that of a stored run as it is now."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from msgspec import Struct

from segue.domain.errors import SegueError
from segue.domain.kinds import with_kinds
from segue.domain.run import Run
from segue.domain.task import Task, TaskStatus
from segue.plugins import find_call
from segue.runtime.app import App
from segue.runtime.plan import kind_rules
from segue.sources.recognise import FOLDERS, TASKS, find_features
from segue.system.reading import work_tree

_MOST_FILES = 200
_MOST_SOURCES = 50
_FOLDERS = ("", "docs", "plans", "specs")
"""Where plan files are looked for."""


class FoundSource(Struct, frozen=True):
    """A source that was found, and how much of it is done."""

    source: str
    """What `segue run` takes."""
    kind: str
    tasks: int
    done: int
    problem: str = ""
    """Why it cannot be run as it is; empty: it can."""


def find_sources(app: App) -> list[FoundSource]:
    """Return the configured source, the features and the plan files of a repository that have tasks."""
    repo = work_tree(app.repo)
    found: dict[str, FoundSource] = {}
    for named in islice(_candidates(app, repo), _MOST_FILES):
        read = _read(app, repo, named)
        if read is not None and len(found) < _MOST_SOURCES:
            found.setdefault(read.source, read)
    return list(found.values())


def _candidates(app: App, repo: Path) -> Iterator[str | None]:
    if app.loaded.settings.source is not None:
        yield None
    for feature in find_features(repo):
        yield str(feature)
    for other, table in FOLDERS.items():
        if (repo / other / table).is_file():
            yield str(repo / other / table)
    for folder in _FOLDERS:
        for path in sorted((repo / folder).glob("*.md")):
            if path.name != TASKS:
                yield str(path)


def _read(app: App, repo: Path, named: str | None) -> FoundSource | None:
    """Return the source with its tasks; None if it has none or cannot be read."""
    try:
        source = app.source(named, repo)
        listing = source.look()
    except (SegueError, OSError, ValueError):
        return None
    if not listing.tasks:
        return None
    address = Path(source.address)
    shown = str(address.relative_to(repo)) if address.is_relative_to(repo) else source.address
    done = sum(task.status is not TaskStatus.PENDING for task in listing.tasks)
    problem = listing.refusal.message if listing.refusal is not None else ""
    return FoundSource(shown, source.kind, len(listing.tasks), done, problem)


def load_run_app(app: App, run: Run) -> App:
    """Load the settings the run was started with, for the database that is looked at."""
    return App.load_for(run, command_line=app.place(), need="nothing")


def read_tasks(app: App, run: Run) -> tuple[list[Task], str]:
    """Return the tasks of a run's source, and why they cannot be read.

    The source of a run that was submitted to other machines is read as it was when the run began.
    """
    if run.spec.origin is None:
        return read_source(app, run)
    if run.spec.kind.is_planned:
        return [], ""  # they are in the journal
    try:
        return find_call("fleet.read_tasks")(app, run), ""
    except (SegueError, OSError, ValueError) as error:
        return [], str(error)


def read_source(app: App, run: Run) -> tuple[list[Task], str]:
    """Return the tasks the source contains now, and why it cannot be read."""
    try:
        own = load_run_app(app, run)
        source = own.source(run.spec.source, Path(run.spec.repo), run.spec.source_kind)
        return list(with_kinds(source.look(), kind_rules(own)).tasks), ""
    except (SegueError, OSError, ValueError) as error:
        return [], str(error)
