"""`segue proof`: show how well the tasks of a run are proven, a card per task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.domain.run import Run
    from segue.reports.card.card import ProofCard


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.argument("task", metavar="[TASK]", required=False)
@click.option("--markdown", is_flag=True, help="Print Markdown, as for a pull request.")
@click.option("--html", is_flag=True, help="Print a self-contained page.")
@click.option("--junit", is_flag=True, help="Print JUnit XML for CI: passed means proven.")
@options("repo", "config", "database", "json")
def proof(
    run_id: str | None,
    task: str | None,
    markdown: bool,
    html: bool,
    junit: bool,
    settings: CommandSettings,
    output: Printer,
) -> None:
    """Show how well the tasks of RUN are proven, or what is missing.

    RUN is the newest run if it is left out. TASK shows one task only.

    \b
    Examples:
      segue proof
      segue proof last T012
      segue proof last --markdown > proof.md
      segue proof last --junit > segue.xml
      segue proof 20261115-0219 --json | jq '.data.tasks[].proof'
    """
    from segue.cli.runs import find_run, unknown_task
    from segue.reports.card.build import build_cards
    from segue.runtime.sources import read_tasks

    if markdown + html + junit + output.json > 1:
        raise click.UsageError("Choose one of --json, --markdown, --html and --junit.")
    app = settings.look(parts=False)
    with app.store(read_only=True) as store:
        run = find_run(store, app, run_id)
        cards = build_cards(store, run, read_tasks(app, run)[0])
    if task is not None:
        keys = [card.task for card in cards]
        if task not in keys:
            raise unknown_task(run, task, keys)
        cards = [cards[keys.index(task)]]
    if output.json:
        output.data({"run": run.id, "tasks": [card.to_json() for card in cards]})
    elif junit:
        from segue.reports.card.junit import render_junit

        output.text(render_junit(cards, run).rstrip("\n"))
    else:
        output.text(_render(cards, run, markdown, html))


def _render(cards: list[ProofCard], run: Run, markdown: bool, html: bool) -> str:
    from segue.reports.card.layout import lay_out

    layouts = [lay_out(card) for card in cards]
    if markdown:
        from segue.reports.card.markdown import render_markdown

        return render_markdown(layouts).rstrip("\n")
    if html:
        import time

        from segue import __version__
        from segue.reports.card.page import render_cards

        made = f"Made by Segue {__version__} on {time.strftime('%Y-%m-%d %H:%M')}."
        return render_cards(layouts, f"Proof of run {run.id}", made).rstrip("\n")
    from segue.cli.terminal.output import terminal_width
    from segue.reports.card.text import WIDTH, render_text

    return render_text(layouts, min(100, terminal_width() or WIDTH)) or "The run has no tasks yet."
