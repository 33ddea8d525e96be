"""`segue task`: list the tasks of a source, show what they wait for, decide about one, comment on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from segue.cli.options import CommandSettings, IssueChoice, issue_options, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.domain.run import Run
    from segue.runtime.app import App

_RUN = click.option(
    "--run", "run_id", metavar="RUN", help="The run the task belongs to (default: the newest)."
)


@click.group()
def task() -> None:
    """List the tasks of a source, show what they wait for, decide about one, comment on it.

    \b
    Examples:
      segue task list plan.md
      segue task graph specs/001-login
      segue task accept 3
      segue task skip 4 --reason "no longer needed"
      segue task comment 3 "Use the helper in dates.py"
    """


@task.command("list")
@click.argument("source", required=False)
@issue_options
@options("plan_format", "task_list", "repo", "config", "json", "color")
def list_(source: str | None, issues: IssueChoice, settings: CommandSettings, output: Printer) -> None:
    """List the tasks that Segue reads from SOURCE, with warnings about what it could not read.

    \b
    Examples:
      segue task list plan.md
      segue task list plan.md --plan-format strict --json
      segue task list github:acme/shop --label ready
    """
    from segue.cli.terminal.output import one_line
    from segue.domain.kinds import with_kinds
    from segue.runtime.past import foresee
    from segue.runtime.plan import kind_rules
    from segue.system.reading import work_tree

    app = settings.look()
    plan = app.source(issues.name(source, settings), work_tree(app.repo))
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


@task.command("graph")
@click.argument("source", required=False)
@issue_options
@click.option("--mermaid", is_flag=True, help="Print a Mermaid diagram.")
@options("plan_format", "task_list", "repo", "config", "json")
def graph(
    source: str | None,
    mermaid: bool,
    issues: IssueChoice,
    settings: CommandSettings,
    output: Printer,
) -> None:
    """Show which tasks of SOURCE wait for which, and why, when several are worked on at once.

    \b
    Examples:
      segue task graph specs/001-login
      segue task graph plan.md --json | jq '.tasks[] | {key, footprint, waits_for}'
      segue task graph specs/001-login --mermaid > graph.mmd
    """
    from segue.cli.runs import read_past
    from segue.domain.graph import describe_cycle
    from segue.domain.kinds import with_kinds
    from segue.flow.earlier import read_touched
    from segue.runtime.past import foresee
    from segue.runtime.plan import kind_rules
    from segue.system.reading import work_tree
    from segue.view.graph import TaskGraph, describe_graph, draw_mermaid, graph_data

    app = settings.look()
    plan = app.source(issues.name(source, settings), work_tree(app.repo))
    listing = with_kinds(foresee(app, plan), kind_rules(app))
    if listing.refusal is not None:
        raise listing.refusal
    touched = read_past(app, plan, read_touched)
    found = TaskGraph.of(listing.tasks, touched, app.loaded.settings.merge_union)
    if output.json:
        output.data(graph_data(found))
        return
    output.text(draw_mermaid(found) if mermaid else describe_graph(found))
    for cycle in found.cycles:
        output.warn(f"{describe_cycle(cycle)}.")


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


@task.command("answer")
@click.argument("key")
@click.argument("text")
@_RUN
@options("repo", "config", "database", "json")
def answer(key: str, text: str, run_id: str | None, settings: CommandSettings, output: Printer) -> None:
    """Answer what the agent of task KEY asked, or decide what to do where it says that it cannot.

    The agent continues its conversation with your answer, where it can continue one.

    \b
    Examples:
      segue task answer 3 "Take Postgres" && segue resume
    """
    _say(key, text, run_id, settings, output, answers=True)


@task.command("comment")
@click.argument("key")
@click.argument("text")
@_RUN
@options("repo", "config", "database", "json")
def comment(key: str, text: str, run_id: str | None, settings: CommandSettings, output: Printer) -> None:
    """Say what should be different about task KEY; its agent tries again with these words.

    An agent at work on it gets them as with `segue say`. A task that is done is open again. KEY `plan` means
    the plan of a build that waits for your word: another one is made. Nothing is launched before
    `segue resume`, so that you can comment on several tasks.

    \b
    Examples:
      segue task comment 3 "Use the helper in dates.py" && segue resume
      segue task comment plan "Start with the database, and leave out the login" && segue resume
    """
    _say(key, text, run_id, settings, output)


@task.command("edit")
@_RUN
@options("repo", "config", "database", "json")
def edit(run_id: str | None, settings: CommandSettings, output: Printer) -> None:
    """Edit the steps of a build that are still to be done, in $EDITOR.

    \b
    Examples:
      segue task edit
      EDITOR=nano segue task edit --run 20261115-0219
    """
    import asyncio

    from segue.cli.run.session import edit_in_editor

    run, app = find(run_id, settings)
    changed = asyncio.run(edit_in_editor(app, run))
    output.result({"run": run.id, "changed": changed}, "The plan was changed." if changed else "No changes.")


def _say(
    key: str,
    text: str,
    run_id: str | None,
    settings: CommandSettings,
    output: Printer,
    *,
    answers: bool = False,
) -> None:
    import asyncio

    from segue.cli.runs import refuse_swapped
    from segue.runtime.comments import comment as store_comment
    from segue.runtime.comments import describe_way

    what = "answer" if answers else "comment"
    refuse_swapped(f"task {what}", key, text)
    run, app = find(run_id, settings)
    way = asyncio.run(store_comment(app, run, key, text, answers=answers))
    output.result({"run": run.id, "task": key, what: text, "how": way}, f"The {what} on {key} is stored.")
    output.note(describe_way(key, way) if way else f"Send it to the agent: segue resume {run.id}")


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
