"""`segue status`: list runs, or show one run with its tasks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from segue.cli.options import CommandSettings, WholeNumber, join_task, options
from segue.cli.terminal.output import Printer
from segue.domain.question import is_question
from segue.domain.run import USUAL_RUNS, RunKind

if TYPE_CHECKING:
    from segue.domain.run import Run
    from segue.runtime.app import App
    from segue.runtime.budgets import Allowance
    from segue.store.store import Store
    from segue.view.run import RunView
    from segue.view.task import TaskView

_USUAL = ", ".join(USUAL_RUNS)
_OTHERS = "No runs of this kind. Choose another: segue status --kind KIND"
_SOURCE_CHARS = 24
_WAITING = 10
"""How many of the tasks that wait for others are printed with the reason."""
_AGENT_CHARS = 20
_LEAST = {"source": 10, "repository": 12}
"""The columns that shrink, and how far."""
_DROPPED = ("repository", "started", "agent", "kind")
"""The columns that a narrow terminal loses, in this order."""


_OPEN = ("running", "parked", "needs_human")
"""The states of tasks of which it is shown what is left of their caps."""


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.argument("key", metavar="[TASK]", required=False)
@click.option("--task", metavar="KEY", help="Show this task only.")
@click.option(
    "-n", "--limit", type=WholeNumber(min=1), default=20, show_default=True, help="How many runs to list."
)
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in RunKind]),
    help=f"List runs of this kind; default: {_USUAL}.",
)
@options("repo", "config", "database", "json", "color")
def status(
    run_id: str | None,
    key: str | None,
    task: str | None,
    limit: int,
    kind: str | None,
    settings: CommandSettings,
    output: Printer,
) -> None:
    """List the runs, or show the tasks of RUN (`last` for the newest), or one TASK.

    \b
    Examples:
      segue status
      segue status --kind trial
      segue status last
      segue status last 3
      segue status 20261115-0219 --json
    """
    from segue.cli.runs import find_run_and_task, unknown_task
    from segue.runtime.budgets import describe_left
    from segue.view.load import load_view

    task = join_task(key, task)
    app = settings.look_back()
    with app.store(read_only=True) as store:
        if run_id is None and task is None:
            runs = store.runs(limit=limit, kinds=(RunKind(kind),) if kind else USUAL_RUNS)
            _list(runs, output, others=not runs and bool(store.runs(limit=1)))
            left = _find_left(store, app, None, 0)
            if not output.json:
                _say(output, describe_left(left))
            return
        run, task = find_run_and_task(store, app, run_id, task)
        view = load_view(store, run)
        open_tasks = [one.key for one in view.tasks.values() if one.state in _OPEN]
        left = _find_left(store, app, run, view.launches, tasks=[task] if task else open_tasks)
    if task is not None and task not in view.tasks:
        raise unknown_task(run, task, view.tasks)
    if output.json:
        from segue.view.data import run_data

        data = run_data(run, view)
        tasks = [one for one in data["tasks"] if task in (None, one["key"])]
        output.data({**data, "tasks": tasks, "left": [one.data() for one in left]})
    else:
        _print_run(run, view, output, task)
        _say(output, describe_left(left))


def _find_left(
    store: Store,
    app: App,
    run: Run | None,
    launches: int,
    tasks: Sequence[str] = (),
) -> list[Allowance]:
    """Return what is left of the caps; nothing where the settings or the repository are gone."""
    from segue.domain.errors import SegueError
    from segue.runtime.budgets import find_left

    try:
        limits = _load_app(app, run).loaded.settings.limits
    except (SegueError, OSError):
        return []
    return find_left(store, limits.budgets(), run, launches, tasks)


def _load_app(app: App, run: Run | None) -> App:
    if run is None:
        return app
    from segue.runtime.sources import load_run_app

    return load_run_app(app, run)


def _say(output: Printer, text: str) -> None:
    if text:
        output.text(text)


def _print_run(run: Run, view: RunView, output: Printer, only: str | None = None) -> None:
    from segue.cli.runs import describe_wait, state_of
    from segue.cli.terminal.progress import describe_waits
    from segue.cli.terminal.task_table import print_tasks
    from segue.domain.events import NOT_ISOLATED
    from segue.domain.run import RunState

    state = state_of(run, view)
    parts = (state, run.spec.agent, NOT_ISOLATED if view.isolation == NOT_ISOLATED else "", run.place)
    title = f"Run {run.id}: {' · '.join(filter(None, parts))}"
    if state is RunState.QUEUED and not view.tasks:
        output.text(title)
    else:
        print_tasks(output, view, title, only=only)
    if state is RunState.QUEUED:
        output.text(describe_wait(run))
    elif run.note:
        output.text(run.note)
    for words in view.before.words:
        output.text(words)
    for task in view.tasks.values():
        if only in (None, task.key):
            _print_reason(run, task, output)
    for words in describe_waits(view, time.time()):
        output.text(words)
    if cached := view.describe_cached():
        output.text(f"Read: {cached}.")
    if view.delivery is not None and view.delivery.url:
        output.text(f"Pull request: {view.delivery.url}")
    _print_lanes(view, output)


def _print_reason(run: Run, task: TaskView, output: Printer) -> None:
    """Print why a task waits, how a question of its agent is answered, and which cap it passed."""
    if task.over_budget:
        output.text(f"Task {task.key} used {task.over_budget}.")
    if task.state not in ("needs_human", "blocked"):
        return
    output.text(f"Task {task.key}: {task.reason}")
    if is_question(task.reason):
        output.text(f'  Answer: segue task say {task.key} "…"   then: segue resume {run.id}')
    if task.cloud_agent:
        output.text(f"  {task.cloud_agent}")
    if task.kept:
        output.text(f"  What it left is kept as {task.kept}; segue resume begins with it.")
        output.text(f"  By hand: git -C {run.place} stash apply {task.kept}")


def _print_lanes(view: RunView, output: Printer) -> None:
    """Print what each lane works on, what the first of the other tasks wait for, and what serialised them."""
    from segue.view.lanes import describe_lanes

    for task in view.lanes.values():
        parts = (task.key, task.phase, task.agent, "parked" if task.state == "parked" else "")
        output.text(f"Lane {task.lane}: {' · '.join(filter(None, parts))}")
    for task in list(view.waiting.values())[:_WAITING]:
        output.text(f"Task {task.key} {task.waits}")
    if len(view.waiting) > _WAITING:
        output.text(f"… and {len(view.waiting) - _WAITING} more wait; --json names all.")
    for words in describe_lanes(view, time.time()):
        output.text(words)


def _list(runs: list[Run], output: Printer, *, others: bool) -> None:
    from segue.cli.runs import NO_RUNS

    if output.json:
        from segue.view.data import run_data
        from segue.view.run import RunView

        known = [run_data(run, RunView()).items() for run in runs]
        output.data([{name: value for name, value in one if name not in ("tasks", "lanes")} for one in known])
    elif runs:
        _print_runs(runs, output)
    else:
        output.text(_OTHERS if others else NO_RUNS)


def _print_runs(runs: list[Run], output: Printer) -> None:
    """Print a line per run. Ids are never cut: a narrow terminal shortens and drops other columns."""
    from segue.cli.runs import moment, state_of
    from segue.cli.terminal.output import cut_start, one_line, short_paths, terminal_width
    from segue.cli.terminal.table import draw

    several = len({run.spec.kind for run in runs}) > 1
    columns = ["run", *(["kind"] if several else []), "state", "agent", "source", "started", "repository"]
    rows = [
        {
            "run": run.id,
            "kind": str(run.spec.kind),
            "state": str(state_of(run)),
            "agent": one_line(run.spec.agent, _AGENT_CHARS),
            "source": one_line(run.source_name, _SOURCE_CHARS),
            "started": moment(run.created),
            "repository": short_paths(run.spec.repo),
        }
        for run in runs
    ]
    width = terminal_width()
    if width is not None:
        sizes = _fit(columns, rows, width)
        columns = list(sizes)
        for row in rows:
            row["source"] = one_line(row["source"], sizes["source"])
            row["repository"] = cut_start(row["repository"], sizes.get("repository", 0))
    cells = [[row[name] for name in columns] for row in rows]
    output.painted("\n".join(draw(columns, cells, output.colored())))


def _fit(columns: list[str], rows: list[dict[str, str]], width: int) -> dict[str, int]:
    """Return the columns that fit, with their widths: the source gets what is left, then the repository."""
    from segue.cli.terminal.table import fit_columns

    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in columns}
    least = {name: min(_LEAST[name], widths[name]) for name in _LEAST}
    sizes, left = fit_columns(widths, least, _DROPPED, width)
    for name in (name for name in _LEAST if name in sizes):
        more = max(0, min(left, widths[name] - sizes[name]))
        sizes[name], left = sizes[name] + more, left - more
    return sizes
