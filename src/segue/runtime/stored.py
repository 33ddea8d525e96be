"""What a stored run was started with: its settings, and the tasks of its source as they are now."""

from __future__ import annotations

from pathlib import Path

from segue.domain.errors import SegueError
from segue.domain.installed import find_variant
from segue.domain.kinds.recognise import with_kinds
from segue.domain.run import Run
from segue.domain.task import Task
from segue.runtime.app import App
from segue.runtime.plan import kind_rules


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
        return find_variant("submitted", "read_tasks", f"Run {run.id}")(app, run), ""
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
