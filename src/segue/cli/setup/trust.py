"""`segue trust`: see what a project's settings may do, and allow it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer, escape_hidden

if TYPE_CHECKING:
    from segue.config.trust import ProjectFile


@click.command()
@click.option("-y", "--yes", is_flag=True, help="Allow them without asking.")
@click.option("--show", is_flag=True, help="Only show them, and whether they are allowed.")
@click.option("--revoke", is_flag=True, help="Forget that they were allowed.")
@options("repo", "config", "json", "color")
def trust(yes: bool, show: bool, revoke: bool, settings: CommandSettings, output: Printer) -> None:
    """Show what the project's settings may do on this machine, and allow it.

    Settings of segue.toml that start programs, open connections or move files count only after you allowed
    them. You are asked again when they change, no matter who changed them. Your own config.toml, environment
    variables and options on the command line need no trust. For one call, and in CI: `segue run --trust`,
    or SEGUE_TRUST=1. See `docs/guides/trust.md`.

    \b
    Examples:
      segue trust                   look, then answer yes or no
      segue trust --show            only look
      segue trust --yes             after you have read segue.toml
      segue trust --revoke
      segue trust --repo ../app --show --json
    """
    from segue.config.trust import TrustedFiles
    from segue.domain.errors import UsageError

    if yes + show + revoke > 1:
        raise UsageError("--yes, --show and --revoke exclude each other.", hint="Give one of them")
    project = _find(settings)
    if project is None or not (project.powerful or project.known):
        where = f"{project.path} has" if project else "There are"
        _report(project, output, f"Nothing to allow: {where} no settings that need trust.")
        return
    if revoke:
        TrustedFiles().forget(project.path)
        _report(_find(settings), output, f"{project.path} is not trusted any more.")
        return
    if not output.json and (show or not project.is_trusted):
        print_settings(project, output)
    if show or project.is_trusted:
        _report(project, output, _standing(project))
    elif yes:
        TrustedFiles().allow(project)
        _report(_find(settings), output, f"Trusted: {project.path}")
    elif not output.at_terminal():
        raise UsageError(
            "Nobody can be asked: there is no terminal.",
            kept="Nothing was allowed.",
            hint="segue trust --yes",
        )
    elif _confirm(project):
        output.text(f"Trusted: {project.path}")
    else:
        output.text("Not trusted. Nothing was changed.")


def ask(project: ProjectFile, output: Printer) -> bool:
    """Show what the settings of a project may do, and ask whether they are allowed."""
    print_settings(project, output)
    return _confirm(project)


def _confirm(project: ProjectFile) -> bool:
    from segue.config.trust import TrustedFiles

    if not click.confirm("Allow this, until it changes?", err=True):
        return False
    TrustedFiles().allow(project)
    return True


def print_settings(project: ProjectFile, output: Printer) -> None:
    """Print every powerful setting under what it does; those that are new or changed have a mark."""
    from segue.config.trust import explain

    output.warn(f"With your trust, {project.path} does this on your machine:")
    for meaning, names in explain(project.powerful).items():
        output.warn(f"\n  {meaning[0].upper()}{meaning[1:]}:")
        for name in names:
            mark = "+" if project.known and name in project.held else " "
            output.warn(f"  {mark} {_line(name, project.powerful[name])}")
    for name in project.removed:
        output.warn(f"\n  - {escape_hidden(name)} was removed since you trusted it.")
    if project.known and project.held:
        output.warn("\n  + is new or changed since you trusted the file.")
    output.warn("")


def _line(name: str, value: Any) -> str:
    import json

    from segue.store.address import masked

    shown = masked(value) if isinstance(value, str) and "database_url" in name else value
    text = json.dumps(shown, ensure_ascii=False, default=str)
    return escape_hidden(f"{name} = {text}").replace("\n", "\\n")


def _standing(project: ProjectFile) -> str:
    if project.is_trusted:
        return f"{project.path} is trusted."
    return "Changed since you trusted it." if project.known else "Not trusted yet."


def _report(project: ProjectFile | None, output: Printer, text: str) -> None:
    data = {
        "file": str(project.path) if project else None,
        "trusted": project is None or project.is_trusted,
        "settings": {name: _line(name, value).partition(" = ")[2] for name, value in project.powerful.items()}
        if project
        else {},
        "not_in_force": list(project.held) if project else [],
        "removed": list(project.removed) if project else [],
    }
    output.result(data, text)


def _find(settings: CommandSettings) -> ProjectFile | None:
    """Return the project's file and its standing, whatever SEGUE_TRUST says."""
    import os
    from pathlib import Path

    from segue.config.load import load
    from segue.config.trust import VARIABLE
    from segue.domain.errors import UsageError

    start = (settings.repo or Path.cwd()).absolute()
    environ = {name: value for name, value in os.environ.items() if name != VARIABLE}
    loaded = load(start, config=settings.config and settings.config.absolute(), environ=environ)
    if loaded.found.refused is not None:
        raise UsageError(
            f"{loaded.found.refused} belongs to another user, so it cannot be trusted.",
            kept="Nothing was allowed.",
            hint="Make it yours (chown), or name a file of your own with --config",
        )
    return loaded.project
