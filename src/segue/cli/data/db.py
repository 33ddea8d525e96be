"""`segue db`: locate, query, export and push the database."""

from __future__ import annotations

from pathlib import Path

import click

from segue.cli.main import OpenGroup
from segue.cli.options import CommandSettings, WholeNumber, options
from segue.cli.terminal.output import Printer
from segue.store.address import masked
from segue.store.flat import EXPORTED


@click.group(cls=OpenGroup)
def db() -> None:
    """Locate, query, export and push the database of runs, steps and events.

    \b
    Examples:
      segue db query "SELECT * FROM segue_runs"
      segue db export --format parquet -o dataset
    """


@db.command("path")
@options("repo", "config", "database", "json")
def path(settings: CommandSettings, output: Printer) -> None:
    """Print the location of the database (passwords masked).

    \b
    Examples:
      sqlite3 "$(segue db path)" 'select * from orchestrator_runs'
    """
    app = settings.look()
    where = masked(app.database())
    output.result({"path": where}, where)


@db.command("export")
@click.argument("table", metavar="[TABLE]", type=click.Choice(EXPORTED), required=False)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["jsonl", "csv", "parquet", "atif"]),
    default="jsonl",
    show_default=True,
    help="The file format.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="The file to write (default: stdout); without TABLE the folder.",
)
@options("repo", "config", "database")
def export(
    table: str | None, kind: str, out: Path | None, settings: CommandSettings, output: Printer
) -> None:
    """Write TABLE, or all flat tables into a folder, as JSON lines, CSV or Parquet.

    With `--format atif` every attempt is written as a trajectory (Agent Trajectory Interchange Format), one
    JSON document per line.

    TABLE is a flat table (runs, tasks, attempts, tool_calls, commands, errors, verdicts, criteria, checks,
    findings, recoveries, searches, prompts, patches) or one of the journal: events, steps, signals,
    orchestrator_runs, orchestrator_prompts.

    \b
    Examples:
      segue db export attempts > attempts.jsonl
      segue db export --format parquet -o dataset
      segue db export events --format csv -o events.csv
      segue db export --format atif -o trajectories.jsonl
    """
    from segue.cli.data.export import export_all, export_one, export_trajectories

    with settings.look().store(read_only=True) as store:
        if kind == "atif":
            export_trajectories(store, table, out, output)
        elif table is None:
            export_all(store, kind, out, output)
        else:
            export_one(store, table, kind, out, output)


@db.command("query")
@click.argument("sql")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="How the rows are printed.",
)
@click.option("--rows", type=WholeNumber(1), default=1000, show_default=True, help="Print at most so many.")
@click.option(
    "--seconds", type=click.FloatRange(0.1), default=60.0, show_default=True, help="Give up after so long."
)
@options("repo", "config", "database")
def query(sql: str, kind: str, rows: int, seconds: float, settings: CommandSettings, output: Printer) -> None:
    """Ask the dataset a question in SQL and print the answer; nothing can be changed.

    \b
    Examples:
      segue db query "SELECT agent, count(*) AS n FROM segue_attempts GROUP BY agent"
      segue db query "SELECT * FROM segue_errors" --format csv > errors.csv
    """
    from segue.cli.data.ask import ask
    from segue.store.database import QueryLimits

    with settings.look(say=False).store(read_only=True) as store:
        ask(store, sql, QueryLimits(rows, seconds), kind, output)


@db.command("push")
@click.option("--to", metavar="URL", help="The Postgres database (default: --database-url).")
@click.option("--run", "run_ids", metavar="RUN", multiple=True, help="Push only this run (repeatable).")
@options("repo", "config", "database", "json")
def push(to: str | None, run_ids: tuple[str, ...], settings: CommandSettings, output: Printer) -> int:
    """Push runs recorded offline, in SQLite, to Postgres.

    Events buffered while the database was unreachable are written first. Existing rows are not pushed
    again, and an interrupted push continues where it stopped.

    \b
    Examples:
      segue db push --to postgresql://me:password@host/segue
      segue db push --run 20261115-0219
    """
    from segue.cli.data.push import push_runs

    return push_runs(settings.find(), to, run_ids, output)
