"""`segue label`: say whether recorded work was right, so that verification can be measured."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from segue.cli.options import FILE, CommandSettings, options
from segue.cli.terminal.output import Printer
from segue.domain.amounts import format_count

if TYPE_CHECKING:
    from segue.parts.lab.labels.give import Labelled
    from segue.parts.lab.labels.history import RecordedWork
    from segue.store.store import Store

_GOOD = click.Choice(["good", "bad"])


@click.group()
def label() -> None:
    """Say whether recorded work was right: `segue report verification` compares it with what was believed.

    \b
    Examples:
      segue label add last 3 bad --reason "rounds the wrong way"
      segue label csv labels.csv
      segue label git
      segue label tests last -- pytest -q ~/hidden/test_shop.py
    """


@label.command("add")
@click.argument("run_id", metavar="RUN")
@click.argument("task")
@click.argument("good", metavar="good|bad", type=_GOOD)
@click.option("--step", default="", help="Of this attempt (task/3/execute/1); default: the final work.")
@click.option("--reason", default="", help="Why.")
@options("repo", "config", "database", "json")
def add(
    run_id: str, task: str, good: str, step: str, reason: str, settings: CommandSettings, output: Printer
) -> None:
    """Say whether the work of TASK was good or bad.

    \b
    Examples:
      segue label add last 3 good
      segue label add 20261115-0219 3 bad --reason "accepts negative prices"
    """
    from segue.cli.runs import find_run
    from segue.parts.lab.labels.events import Label, LabelOrigin
    from segue.parts.lab.labels.give import Labelled

    app = settings.look(parts=False)
    with app.store() as store:
        run = find_run(store, app, run_id)
        said = Label(task, good == "good", LabelOrigin.PERSON, getpass.getuser(), reason, step)
        _give(store, [Labelled(run.id, said)], output)


@label.command("csv")
@click.argument("file", type=FILE)
@options("repo", "config", "database", "json")
def from_csv(file: Path, settings: CommandSettings, output: Printer) -> None:
    """Read labels from a CSV file with the columns run_id, task, good, and if you like step, by, reason.

    All lines are compared with the runs before the first is written. What is known already is left out.

    \b
    Examples:
      segue label csv labels.csv
    """
    from segue.domain.errors import UsageError
    from segue.parts.lab.labels.give import read_csv
    from segue.system.reading import explain_unreadable, read_file

    try:
        text = read_file(file).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(explain_unreadable(file, error)) from None
    with settings.look(parts=False).store() as store:
        _give(store, read_csv(text, getpass.getuser()), output)


@label.command("git")
@options("repo", "config", "database", "json")
def from_git(settings: CommandSettings, output: Printer) -> None:
    """Look in this repository's later history for work that was reverted or fixed, and label it as bad.

    A fix is a commit that says so and replaces lines that the work wrote. Silence is no label: work that
    nobody touched is not known to be right.

    \b
    Examples:
      segue label git
    """
    from segue.parts.lab.labels.history import find_wrong
    from segue.system.git.repository import Repository

    app = settings.look(parts=False)
    with app.store() as store:
        repo = asyncio.run(Repository.open(app.repo))
        _give(store, asyncio.run(find_wrong(repo, _list_works(store, repo.root))), output)


@label.command("tests")
@click.argument("run_id", metavar="RUN")
@click.argument("command", nargs=-1, required=True)
@click.option("--task", default="", help="Of this task only; default: of every task that is done.")
@options("repo", "config", "trust", "database", "json")
def from_tests(
    run_id: str, command: tuple[str, ...], task: str, settings: CommandSettings, output: Printer
) -> None:
    """Run COMMAND, such as hidden tests, on a copy of each task's commit: exit code 0 is good, any other bad.

    It runs in the sandbox, with the project's commit as its folder; name the hidden tests by absolute path.

    \b
    Examples:
      segue label tests last -- pytest -q /home/me/hidden/test_shop.py
      segue label tests last --task 3 -- make hidden-check
    """
    from segue.cli.runs import find_run
    from segue.parts.lab.labels.hidden import run_hidden

    app = settings.load()
    with app.store() as store:
        run = find_run(store, app, run_id)
        found = asyncio.run(run_hidden(app, store, run, task, command))
        _give(store, found, output)


def _list_works(store: Store, root: Path) -> list[RecordedWork]:
    from segue.parts.lab.labels.history import RecordedWork

    rows = store.query(
        "SELECT t.run_id, t.task, t.commit_id FROM segue_tasks t JOIN segue_runs r ON r.run_id = t.run_id"
        " WHERE t.commit_id IS NOT NULL AND t.state = 'done' AND r.repo = ?",
        [str(root)],
    )
    return [RecordedWork(str(row["run_id"]), str(row["task"]), str(row["commit_id"])) for row in rows]


def _give(store: Store, labels: Sequence[Labelled], output: Printer) -> None:
    from segue.parts.lab.labels.give import give

    new = asyncio.run(give(store, labels))
    bad = sum(not one.label.good for one in labels)
    text = f"{format_count(len(labels), 'label')}, {bad} of them bad; {new} are new."
    rows = [
        {"run": one.run, "task": one.label.task, "good": one.label.good, "reason": one.label.reason}
        for one in labels
    ]
    shown = [
        f"  {row['run']} {row['task']}: {'good' if row['good'] else 'bad'} {row['reason']}".rstrip()
        for row in rows
    ]
    output.result({"labels": rows, "new": new}, "\n".join([text, *shown[:20]]))
