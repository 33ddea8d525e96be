"""Ask a person at the terminal about the plan of a build: approve, edit, reject with words, or stop."""

from __future__ import annotations

import click

from segue.cli.terminal.output import Printer, error_text, one_line
from segue.domain.errors import UsageError
from segue.domain.events import PLAN_GATE
from segue.domain.run import Run
from segue.runtime.app import App
from segue.runtime.comments import comment, edit_plan, read_plan_text
from segue.runtime.sources import read_source

_CHOICES = ["approve", "edit", "reject", "stop"]


async def ask_about_plan(app: App, run: Run, output: Printer) -> bool:
    """Show the plan and ask; return whether the run continues: with it, or to make another one."""
    while True:
        _print_plan(app, run)
        answer: str = click.prompt("Approve, edit, reject or stop?", type=click.Choice(_CHOICES), err=True)
        if answer in ("approve", "stop"):
            return answer == "approve"
        try:
            if answer == "reject":
                await comment(app, run, PLAN_GATE, click.prompt("What should be different?", err=True))
                return True
            await edit_in_editor(app, run)
        except UsageError as error:
            output.warn(error_text(error))


async def edit_in_editor(app: App, run: Run) -> bool:
    """Let the person edit the plan in $EDITOR; return whether anything changed."""
    edited = click.edit(read_plan_text(app, run), extension=".yaml")
    return edited is not None and await edit_plan(app, run, edited)


def _print_plan(app: App, run: Run) -> None:
    """Print the steps to stderr, where the question follows."""
    tasks, problem = read_source(app, run)
    lines = [f"{task.key:>3}. {one_line(task.title, 90)} ({task.build_phase})" for task in tasks]
    for line in (*lines, *filter(None, [problem])):
        click.echo(line, err=True)
