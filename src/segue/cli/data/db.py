"""`segue db`: locate, migrate, ask, describe, export and push the database."""

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
    """Manage the database of runs, steps and events.

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


@db.command("migrate")
@options("repo", "config", "database", "json")
def migrate(settings: CommandSettings, output: Printer) -> None:
    """Create or update the tables; safe to repeat.

    \b
    Examples:
      segue db migrate --database-url postgresql://me@host/segue
    """
    with settings.find().store() as store:
        version = store.version()
    output.result({"version": version}, f"The database is at version {version}.")


@db.command("repair")
@click.option("-y", "--yes", is_flag=True, help="Repair what was found, after a copy of the file was made.")
@options("repo", "config", "database", "json")
def repair(yes: bool, settings: CommandSettings, output: Printer) -> int:
    """List damaged records and, with --yes, replace each by what can be had of it.

    \b
    Examples:
      segue db repair
      segue db repair --yes
    """
    app = settings.find()
    with app.store(read_only=not yes) as store:
        found = store.damage()
        copy, meant = store.repair(found) if found and yes else (None, [])
    records = [
        {"record": one.name, "column": one.column, "text": app.redactor().text(one.text[:200])}
        for one in found
    ]
    lines = [f"{one['record']} ({one['column']}) is damaged: {one['text']}" for one in records]
    lines = [f"{line}\n  {said}" for line, said in zip(lines, meant, strict=True)] if meant else lines
    lines += [f"The file as it was: {copy}"] if copy else []
    lines += ["Repair them with: segue db repair --yes"] if found and not yes else []
    data = {"damaged": records, "repaired": meant, "copy": str(copy) if copy else None}
    output.result(data, "\n".join(lines) or "No record is damaged.")
    return 1 if found and not yes else 0


@db.command("export")
@click.argument("table", metavar="[TABLE]", type=click.Choice(EXPORTED), required=False)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["jsonl", "csv", "parquet"]),
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

    TABLE is a flat table (runs, tasks, attempts, tool_calls, commands, errors, verdicts, criteria, checks,
    findings, recoveries, searches, prompts, patches) or one of the journal: events, steps, signals,
    orchestrator_runs, orchestrator_prompts.

    \b
    Examples:
      segue db export attempts > attempts.jsonl
      segue db export --format parquet -o dataset
      segue db export events --format csv -o events.csv
    """
    from segue.cli.data.export import export_all, export_one

    with settings.look().store(read_only=True) as store:
        if table is None:
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
    from segue.cli.data.ask import SqlPrompt
    from segue.store.database import QueryLimits

    with settings.look(say=False).store(read_only=True) as store:
        SqlPrompt(store, output, QueryLimits(rows, seconds), kind).ask(sql)


@db.command("shell")
@options("repo", "config", "database")
def shell(settings: CommandSettings, output: Printer) -> None:
    """Ask the dataset questions in SQL, one after the other; nothing can be changed.

    A question ends with a semicolon. `.help` lists what else there is.

    \b
    Examples:
      segue db shell
      segue db shell < questions.sql
    """
    from segue.cli.data.ask import run_shell

    app = settings.look(say=False)
    with app.store(read_only=True) as store:
        run_shell(store, output, masked(app.database()), app.state_dir / "sql_history")


@db.command("schema")
@click.argument("name", metavar="[events|outputs]", type=click.Choice(["events", "outputs"]), required=False)
def schema(name: str | None) -> None:
    """Print the JSON Schema of events and of what steps store.

    \b
    Examples:
      segue db schema
      segue db schema events > events.schema.json
    """
    import json

    from segue.domain.events import event_schema
    from segue.domain.results import output_schema

    made = {"events": event_schema(), "outputs": output_schema()}
    draft = "https://json-schema.org/draft/2020-12/schema"
    schemas = {key: {"$schema": draft, **value} for key, value in made.items()}
    click.echo(json.dumps(schemas[name] if name else schemas, indent=2, ensure_ascii=False))


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
