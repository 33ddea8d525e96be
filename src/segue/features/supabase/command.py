"""`segue check rls` and `segue db supabase`."""

from __future__ import annotations

from pathlib import Path

import click

from segue.cli.options import FOLDER, CommandSettings, options
from segue.cli.terminal.output import Printer


@click.command("rls")
@options("repo", "config", "json", "color")
def rls(settings: CommandSettings, output: Printer) -> int:
    """Test the row level security of a Supabase project.

    Applies the migrations to a temporary Postgres. Then an anonymous visitor and a user try to read and
    change another user's rows, table by table. Exits with 1 if they succeed, or if it could not be tested.

    \b
    Examples:
      segue check rls
      segue check rls --repo ../app --json
    """
    import asyncio

    from msgspec import structs

    from segue.cli.run.check import print_result
    from segue.domain.errors import UsageError
    from segue.features.supabase.rls import examine
    from segue.features.supabase.rls.options import RlsOptions

    app = settings.load()
    chosen = structs.replace(app.loaded.settings.part("rls", RlsOptions), enabled="on")
    report = asyncio.run(examine(app.repo, chosen, app.state_dir / "scratch"))
    if report is None:
        raise UsageError(
            f"There is no supabase/migrations in {app.repo}.", hint="Name the project with --repo DIR"
        )
    if output.json:
        output.data(report.as_json())
    else:
        print_result(output, report.as_check(), whole=True)
    return 0 if report.passed else 1


@click.command("supabase")
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
    from segue.features.supabase import dataset as migrations

    project = folder or repo or Path.cwd()
    written = migrations.write(project)
    if output.json:
        names = [str(project / migrations.FOLDER / name) for name in migrations.files()]
        output.data({"written": [str(path) for path in written], "files": names})
    for path in written:
        output.text(str(path))
    output.note("Apply them with: supabase db push" if written else "Up to date: all migrations exist.")
