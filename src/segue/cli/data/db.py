"""`segue db`: locate, migrate, describe, export and push the database."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from segue.cli.options import FILE, FOLDER, CommandSettings, options
from segue.cli.terminal.output import Printer
from segue.store.address import masked


@click.group()
def db() -> None:
    """Manage the database of runs, steps and events.

    \b
    Examples:
      segue db path
      segue db export events > events.jsonl
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


@db.command("export")
@click.argument("table", type=click.Choice(["runs", "steps", "events", "signals", "prompts"]))
@click.option(
    "--format",
    "kind",
    type=click.Choice(["jsonl", "csv", "parquet"]),
    default="jsonl",
    show_default=True,
    help="The file format.",
)
@click.option("-o", "--out", type=FILE, help="The file to write (default: stdout).")
@options("repo", "config", "database")
def export(table: str, kind: str, out: Path | None, settings: CommandSettings, output: Printer) -> None:
    """Write TABLE as JSON lines, CSV or Parquet.

    \b
    Examples:
      segue db export events > events.jsonl
      segue db export steps --format csv -o steps.csv
      segue db export events --format parquet -o events.parquet
    """
    from segue.store.export import export as write

    with settings.look().store(read_only=True) as store:
        if out is None:
            write(store, table, kind, sys.stdout.buffer)
            return
        with out.open("wb") as file:
            count = write(store, table, kind, file)
    output.note(f"{count} rows written to {out}")


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


@db.command("supabase")
@click.option(
    "--dir", "folder", type=FOLDER, help="The folder of the supabase/ folder (default: the repository)."
)
@options("repo", "json")
def supabase(folder: Path | None, repo: Path | None, output: Printer) -> None:
    """Write the schema as migrations of a Supabase project.

    Row level security is on, and only the service role has access. Safe to repeat: writes only what is
    missing.

    \b
    Examples:
      segue db supabase && supabase db push
      segue db supabase --dir ../app
    """
    from segue.store import supabase as migrations

    project = folder or repo or Path.cwd()
    written = migrations.write(project)
    if output.json:
        names = [str(project / migrations.FOLDER / name) for name in migrations.files()]
        output.data({"written": [str(path) for path in written], "files": names})
    for path in written:
        output.text(str(path))
    output.note("Apply them with: supabase db push" if written else "Up to date: all migrations exist.")


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
