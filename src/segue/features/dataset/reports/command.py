"""`segue report`: show where agents fail, what helps, and which agent does better."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer
from segue.domain.run import TASK_RUNS
from segue.features.dataset.reports.report import DatasetReport, ReportTable

if TYPE_CHECKING:
    from segue.features.dataset.reports.report import DatasetReport

NAMES = ("gaps", "recovery", "compare", "proof")
KINDS = tuple(kind.value for kind in TASK_RUNS)


@click.command()
@click.argument("name", metavar=f"[{'|'.join(NAMES)}]", type=click.Choice(NAMES), required=False)
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

    The default is all of them. For one or two runs it is five lines.

    \b
    Examples:
      segue report
      segue report gaps --since 7d --agent claude
      segue report compare --source "todo app"
      segue report recovery --csv - > recovery.csv
    """
    from segue.features.dataset.reports.brief import describe_few
    from segue.features.dataset.reports.build import build_reports
    from segue.features.dataset.reports.selection import select_runs

    app = settings.look(parts=False)
    with app.store(read_only=True) as store:
        chosen = select_runs(store, since, agent, model, source, kind)
        plain = name is None and not output.json and sheet is None
        few = describe_few(store, chosen) if plain else []
        reports = [] if few else build_reports(store, (name,) if name else NAMES, chosen)
        others = bool(store.runs(limit=1))
    if few:
        output.text("\n".join(few))
        return
    if sheet is not None:
        _write_text(sheet, to_csv(reports))
    if output.json:
        data = [found.to_json() for found in reports]
        output.data(data[0] if name else {item["report"]: item for item in data})
    elif sheet is None:
        _show(reports, output, limit, others)


def _show(reports: Sequence[DatasetReport], output: Printer, limit: int, others: bool) -> None:
    from segue.cli.runs import NO_RUNS
    from segue.features.dataset.reports.terminal import print_reports

    if any(found.runs for found in reports):
        print_reports(reports, output, max(1, limit))
    else:
        output.text("No matching runs." if others else NO_RUNS)


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
