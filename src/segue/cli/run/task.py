"""`segue task`: list the tasks of a source, decide about one, say something to its agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.domain.run import Run
    from segue.runtime.app import App

_RUN = click.option(
    "--run", "run_id", metavar="RUN", help="The run the task belongs to (default: the newest)."
)


@click.group()
def task() -> None:
    """List the tasks of a source, decide about one, say something to its agent.

    \b
    Examples:
      segue task list plan.md
      segue task accept 3
      segue task skip 4 --reason "no longer needed"
      segue task say 3 "Use the helper in dates.py"
    """


@task.command("list")
@click.argument("source", required=False)
@options("repo", "config", "json", "color")
def list_(source: str | None, settings: CommandSettings, output: Printer) -> None:
    """List the tasks that Segue reads from SOURCE, with warnings about what it could not read.

    \b
    Examples:
      segue task list plan.md
      segue task list plan.md --json
      segue task list "github:acme/shop?label=ready"
    """
    from segue.cli.terminal.output import one_line
    from segue.domain.kinds import with_kinds
    from segue.runtime.past import foresee
    from segue.runtime.plan import kind_rules
    from segue.system.reading import work_tree

    app = settings.look()
    plan = app.source(source, work_tree(app.repo))
    listing = with_kinds(foresee(app, plan), kind_rules(app))
    if output.json:
        if listing.refusal is not None:
            raise listing.refusal
        names = ("key", "title", "status", "kind", "line", "story")
        tasks = [{name: getattr(task, name) for name in names} for task in listing.tasks]
        warnings = [{"line": notice.line, "text": notice.text} for notice in listing.notices]
        read_as = listing.read_as or None
        output.data({"source": plan.kind, "tasks": tasks, "warnings": warnings, "read_as": read_as})
        return
    if listing.read_as:
        output.note(listing.read_as)
    planned = any(task.build_phase for task in listing.tasks)
    rows = [
        (
            task.key,
            one_line(task.title, 70),
            task.status,
            task.kind,
            task.build_phase if planned else task.line or "",
        )
        for task in listing.tasks
    ]
    output.table(["task", "title", "status", "kind", "build phase" if planned else "line"], rows)
    for notice in listing.notices:
        output.warn(notice.show(plan.address))
    if listing.refusal is not None:
        raise listing.refusal


@task.command("graph", hidden=True)
@click.argument("source", required=False)
@options("repo", "config")
def graph(source: str | None, settings: CommandSettings, output: Printer) -> None:
    """Show which tasks of SOURCE wait for which, and why, when several are worked on at once."""
    from segue.cli.runs import read_past
    from segue.domain.amounts import list_some
    from segue.domain.kinds import with_kinds
    from segue.domain.waits import plan_waits
    from segue.flow.earlier import read_touched
    from segue.runtime.past import foresee
    from segue.runtime.plan import kind_rules
    from segue.system.reading import work_tree

    app = settings.look()
    plan = app.source(source, work_tree(app.repo))
    listing = with_kinds(foresee(app, plan), kind_rules(app))
    if listing.refusal is not None:
        raise listing.refusal
    touched = read_past(app, plan, read_touched)
    waits = plan_waits(listing.tasks, touched=touched)
    for task in listing.tasks:
        output.text(f"{task.key} {task.title} ({task.status})")
        for wait in waits[task.key]:
            output.text(f"  waits for {list_some(wait.keys, 6)}: {wait.why}")


@task.command("accept")
@click.argument("key")
@click.option("--reason", default="accepted by a person", help="Why it counts as done.")
@_RUN
@options("repo", "config", "database", "json")
def accept(key: str, reason: str, run_id: str | None, settings: CommandSettings, output: Printer) -> None:
    """Mark task KEY as done although Segue could not prove it.

    \b
    Examples:
      segue task accept 3
      segue task accept T012 --reason "asked the customer" && segue resume
    """
    _decide(key, run_id, reason, False, settings, output)


@task.command("skip")
@click.argument("key")
@click.option("--reason", required=True, help="Why it is skipped.")
@_RUN
@options("repo", "config", "database", "json")
def skip(key: str, reason: str, run_id: str | None, settings: CommandSettings, output: Printer) -> None:
    """Skip task KEY; the run continues without it.

    \b
    Examples:
      segue task skip 3 --reason "done by hand"
    """
    _decide(key, run_id, f"skipped: {reason}", True, settings, output)


@task.command("say")
@click.argument("key", metavar="TASK")
@click.argument("text")
@_RUN
@options("repo", "config", "database", "json", "quiet")
def say(key: str, text: str, run_id: str | None, settings: CommandSettings, output: Printer) -> None:
    """Say TEXT to the agent of TASK: answer its question, or say what should be different.

    An agent at work gets your words now, at its next turn, or with its next launch, as is said. They add to
    the task: checks, the level of its proof and its scope stay as they are. A task that is done is open again
    after `segue resume`. TASK `plan` means the plan of a build that waits for your word: another one is made.

    \b
    Examples:
      segue task say 3 "Use the helper in dates.py"
      segue task say T012 "Take Postgres" && segue resume
      segue task say plan "Start with the database, and leave out the login" && segue resume
    """
    import asyncio

    from segue.runtime.comments import comment, describe_way

    run, app = find(run_id, settings)
    way = asyncio.run(comment(app, run, key, text))
    output.result({"run": run.id, "task": key, "said": text, "how": way}, describe_way(key, way))
    if way is None:
        output.note(f"Continue with: segue resume {run.id}")


def find(run_id: str | None, settings: CommandSettings) -> tuple[Run, App]:
    """Return the run that is meant, with the settings to change what is stored of it."""
    from segue.cli.runs import find_run

    app = settings.find()
    with app.store(read_only=True) as store:
        run = find_run(store, app, run_id)
    return run, settings.find_for(run)


def _decide(
    key: str, run_id: str | None, reason: str, skip: bool, settings: CommandSettings, output: Printer
) -> None:
    import asyncio

    from segue.runtime.overrides import decide, describe_later

    run, app = find(run_id, settings)
    is_running = asyncio.run(decide(app, run, key, reason, skip=skip))
    state = "skipped" if skip else "done"
    if is_running:
        data = {"run": run.id, "task": key, "state": "pending", "reason": reason}
        output.result(data, describe_later(key, skip=skip))
        return
    data = {"run": run.id, "task": key, "state": state, "reason": reason}
    output.result(data, f"Task {key} is {state} ({reason}).")
    if ref := _find_kept(app, run, key):
        output.note(f"What its agent left is not in the work tree: git -C {run.place} stash apply {ref}")
    output.note(f"Continue with: segue resume {run.id}")


def _find_kept(app: App, run: Run, key: str) -> str | None:
    """Return the ref under which the work of a task was put aside."""
    from segue.view.load import load_view

    with app.store(read_only=True) as store:
        task = load_view(store, run).tasks.get(key)
    return task.kept if task is not None else None
