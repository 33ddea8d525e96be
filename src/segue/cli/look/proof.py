"""`segue proof`: show how well the tasks of a run are proven, a card per task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from segue.cli.options import FOLDER, CommandSettings, join_task, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.domain.proof import IndependentTests
    from segue.domain.run import Run
    from segue.reports.card.card import ProofCard
    from segue.runtime.app import App


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.argument("key", metavar="[TASK]", required=False)
@click.option("--task", metavar="KEY", help="Show this task only.")
@click.option("--markdown", is_flag=True, help="Print Markdown, as for a pull request.")
@click.option(
    "--tests",
    type=FOLDER,
    help="Write the independent tests into this folder, once the run is over.",
)
@options("repo", "config", "database", "json")
def proof(
    run_id: str | None,
    key: str | None,
    task: str | None,
    markdown: bool,
    tests: Path | None,
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
      segue proof last --tests ./tests-of-others
      segue proof 20261115-0219 --json | jq '.data.tasks[].proof'
    """
    from segue.cli.runs import find_run_and_task, unknown_task
    from segue.reports.card.build import build_cards
    from segue.runtime.sources import read_tasks

    if markdown + output.json + (tests is not None) > 1:
        raise click.UsageError("Choose one of --json, --markdown and --tests.")
    task = join_task(key, task)
    app = settings.look_back()
    with app.store(read_only=True) as store:
        run, task = find_run_and_task(store, app, run_id, task)
        cards = build_cards(store, run, read_tasks(app, run)[0])
    if task is not None:
        keys = [card.task for card in cards]
        if task not in keys:
            raise unknown_task(run, task, keys)
        cards = [cards[keys.index(task)]]
    if tests is not None:
        kept = [(card.task, card.independent) for card in cards if card.independent is not None]
        _write_tests(app, run, kept, tests, output)
    elif output.json:
        output.data({"run": run.id, "tasks": [card.to_json() for card in cards]})
    else:
        output.text(_render(cards, markdown))


def _write_tests(
    app: App, run: Run, kept: list[tuple[str, IndependentTests]], folder: Path, output: Printer
) -> None:
    """Write the tests that no agent may read; while the run goes on, its agents could."""
    import asyncio

    from segue.domain.errors import UsageError
    from segue.proof.independent import write_tests
    from segue.view.load import ACTIVE

    if run.state in ACTIVE:
        raise UsageError(
            f"Run {run.id} is not over, and its agents must not read these tests.",
            kept="Nothing was written.",
            hint=f"Stop it first: segue stop {run.id}",
        )
    written = asyncio.run(write_tests(Path(run.spec.repo), app.exams(), kept, folder))
    for path in written:
        output.text(str(path))
    if not written:
        output.text("There are no independent tests.")


def _render(cards: list[ProofCard], markdown: bool) -> str:
    from segue.reports.card.layout import lay_out

    layouts = [lay_out(card) for card in cards]
    if markdown:
        from segue.reports.card.markdown import render_markdown

        return render_markdown(layouts).rstrip("\n")
    from segue.cli.terminal.output import terminal_width
    from segue.reports.card.text import WIDTH, render_text

    return render_text(layouts, min(100, terminal_width() or WIDTH)) or "The run has no tasks yet."
