"""`segue report`: show where agents fail, what helps, and which agent does better."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import CommandSettings, options, refuse_unused
from segue.cli.terminal.output import Printer
from segue.domain.run import TASK_RUNS
from segue.parts.lab.reports.report import DatasetReport, ReportTable

if TYPE_CHECKING:
    from segue.parts.lab.reports.report import DatasetReport
    from segue.runtime.app import App
    from segue.store.store import Store

NAMES = ("gaps", "recovery", "compare", "proof", "routing", "verification", "run")
KINDS = tuple(kind.value for kind in TASK_RUNS)


@click.command()
@click.argument("name", metavar=f"[{'|'.join(NAMES)}]", type=click.Choice(NAMES), required=False)
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--html", metavar="FILE", help="Write a self-contained page; - is stdout.")
@click.option("--csv", "sheet", metavar="FILE", help="Write all tables as CSV; - is stdout.")
@click.option("--since", metavar="WHEN", help="Include only runs since then: 7d, 12h, 2026-01-31.")
@click.option("--agent", metavar="NAME", help="Include only runs with this agent.")
@click.option("--model", metavar="NAME", help="Include only runs that requested this model.")
@click.option("--source", metavar="TEXT", help="Include only runs whose prompt or path contains this text.")
@click.option("--kind", type=click.Choice(KINDS), help="Runs of this kind; default: the most frequent.")
@click.option("-n", "--limit", default=15, show_default=True, help="Rows per table in the terminal.")
@options("repo", "config", "database", "json", "color")
def report(
    name: str | None,
    run_id: str | None,
    html: str | None,
    sheet: str | None,
    since: str | None,
    agent: str | None,
    model: str | None,
    source: str | None,
    kind: str | None,
    limit: int,
    settings: CommandSettings,
    output: Printer,
) -> None:
    """Show where agents fail, what helps, and which agent does better.

    \b
    gaps      where first attempts fail, and tasks and errors that recur across runs
    recovery  how often the next attempt passes, by recovery action
    compare   agents and models on the same prompt; only significant differences are ranked
    proof     how well tasks are proven, by agent and model
    routing   what each agent's attempts cost and reached, and what other choices would have cost
    verification  how often judges, checks and levels were right, where work is labelled (segue label)
    run RUN   the timeline of one run (`last` for the newest)

    The default is the first five, and the sixth where work is labelled. For one or two runs it is
    five lines.

    \b
    Examples:
      segue report
      segue report gaps --since 7d --agent claude
      segue report compare --source "todo app" --html compare.html
      segue report run last
      segue report recovery --csv - > recovery.csv
    """
    from segue.parts.lab.reports.brief import describe_few
    from segue.parts.lab.reports.build import build_reports, list_usual
    from segue.parts.lab.reports.selection import select_runs

    if run_id is not None and name != "run":
        raise click.UsageError(f"`segue report {name}` takes no run. For one run: segue report run {run_id}")
    if name == "run":
        refuse_unused("the report is about one run", "since", "agent", "model", "source", "kind")
    if output.json or html is not None or sheet is not None:
        refuse_unused("only tables in the terminal are cut", "limit")
    app = settings.look(parts=False)
    with app.store(read_only=True) as store:
        if name == "run":
            reports = [_one_run(store, app, run_id)]
        else:
            chosen = select_runs(store, since, agent, model, source, kind)
            reports = build_reports(store, (name,) if name else list_usual(store), chosen)
        others = bool(store.runs(limit=1))
        plain = name is None and not output.json and html is None and sheet is None
        few = describe_few(store, chosen) if plain else []
    if few:
        output.text("\n".join(few))
        return
    _write_files(reports, html, sheet)
    if output.json:
        data = [found.to_json() for found in reports]
        output.data(data[0] if name else {item["report"]: item for item in data})
    elif html is None and sheet is None:
        _show(reports, output, limit, others)


def _show(reports: Sequence[DatasetReport], output: Printer, limit: int, others: bool) -> None:
    from segue.cli.runs import NO_RUNS
    from segue.parts.lab.reports.terminal import print_reports

    if any(found.runs for found in reports):
        print_reports(reports, output, max(1, limit))
    else:
        output.text("No matching runs." if others else NO_RUNS)


def _one_run(store: Store, app: App, run_id: str | None) -> DatasetReport:
    from segue.cli.runs import find_run
    from segue.domain.errors import UsageError
    from segue.parts.lab.reports.build import build_run_report

    if run_id is None:
        raise UsageError("Which run?", hint="Name it: segue report run last, or an id from `segue status`")
    found = build_run_report(store, find_run(store, app, run_id).id)
    assert found is not None
    return found


def _write_files(reports: Sequence[DatasetReport], html: str | None, sheet: str | None) -> None:
    if html is not None:
        import time

        from segue import __version__
        from segue.parts.lab.reports.page_table import render_html

        made = f"Made by Segue {__version__} on {time.strftime('%Y-%m-%d %H:%M')}."
        _write_text(html, render_html(reports, "Segue report", made))
    if sheet is not None:
        _write_text(sheet, to_csv(reports))


def _write_text(target: str, text: str) -> None:
    """Write to a file, or to stdout for `-`."""
    import sys

    from segue.system.files import check_way, write_atomic

    data = text.encode("utf-8", "replace")
    if target == "-":
        sys.stdout.buffer.write(data)
        return
    check_way(Path(target))
    write_atomic(Path(target), data)
    click.echo(f"Written: {target}", err=True)


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def to_csv(reports: Iterable[DatasetReport]) -> str:
    """Put the tables of all reports below each other; a cell is empty if its table lacks the column."""
    rows = [row for report in reports for table in report.tables for row in _flatten_table(report, table)]
    columns = list(dict.fromkeys(name for row in rows for name in row)) or ["report", "table"]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flatten_table(report: DatasetReport, table: ReportTable) -> Iterable[dict[str, Any]]:
    for row in table.to_json():
        yield {"report": report.name, "table": table.name, **_flatten_row(row)}


def _flatten_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Split proportions, means and differences into columns; join runs into one cell."""
    flat: dict[str, Any] = {}
    for name, cell in row.items():
        if isinstance(cell, dict):
            flat |= {f"{name}_{part}": value for part, value in cell.items()}
        elif isinstance(cell, list):
            flat[name] = _escape_formula(" ".join(map(str, cell)))
        else:
            flat[name] = _escape_formula(cell) if isinstance(cell, str) else cell
    return flat


def _escape_formula(text: str) -> str:
    """Quote text that a spreadsheet would run as a formula: agents may write anything."""
    return f"'{text}" if text.startswith(_FORMULA) else text
