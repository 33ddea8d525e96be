"""`segue init`: write a segue.toml with what is found here, each line with its reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.runtime.app import App

_HEAD = "# What Segue found here, and why. All settings: segue config list --all"
Line = tuple[str, Any, str]
"""A setting, its value, and the reason; without a value, the line is a comment."""


@click.command()
@click.option("--dry-run", is_flag=True, help="Print the file instead of writing it.")
@options("repo")
def init(dry_run: bool, settings: CommandSettings, output: Printer) -> None:
    """Write a segue.toml with the tasks, agent and checks that are found here; no file is ever changed.

    \b
    Examples:
      segue init
      segue init --dry-run
    """
    from segue.domain.errors import UsageError

    folder = (settings.repo or Path.cwd()).absolute()
    target = folder / "segue.toml"
    if target.exists() and not dry_run:
        raise UsageError(
            f"{target} already exists.",
            kept="It was not changed.",
            hint="See what is set: segue config list",
        )
    found = find_lines(settings.look(say=False))
    if dry_run:
        output.text(compose(found).rstrip())
        return
    write_new(target, found)
    output.text(f"Wrote {target}")
    source = next((value for name, value, _ in found if name == "source" and value), "plan.md")
    output.note(f"Next: segue rehearse {source}")


def find_lines(app: App) -> list[Line]:
    """Return what a run here would use, as settings."""
    from segue.runtime.first_run import find_agent, list_sources, suggest_check
    from segue.system.reading import work_tree

    sources = [one for one in list_sources(app) if one.done < one.tasks]
    agent, _ = find_agent(app)
    check = suggest_check(work_tree(app.repo))
    lines: list[Line] = []
    if len(sources) == 1:
        lines.append(("source", sources[0].source, f"{sources[0].done} of {sources[0].tasks} tasks are done"))
    else:
        why = "none was found" if not sources else f"{len(sources)} were found: choose one"
        lines.append(("source", None, why))
    lines.append(
        ("agent", agent.name, agent.why) if agent else ("agent", None, "none is ready: segue doctor")
    )
    if check is None:
        lines.append(("checks", None, "no command for tests was found: tasks end as `changed`"))
    elif check.missing:
        lines.append(("checks", None, f"{check.command} ({check.why}) needs {check.missing}"))
    else:
        lines.append(("checks", [check.command], check.why))
    return lines


def compose(lines: list[Line]) -> str:
    """Return the text of a settings file."""
    written = []
    for name, value, why in lines:
        text = f"{name} = {json.dumps(value, ensure_ascii=False)}" if value is not None else f"# {name} = …"
        written.append(f"{text:<32} # {why}" if why else text)
    return "\n".join([_HEAD, *written, ""])


def write_new(target: Path, lines: list[Line]) -> None:
    """Write a settings file that is not there yet, and trust it: the user has just asked for it."""
    from segue.domain.errors import UsageError

    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(compose(lines))
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written: {error.strerror}.",
            kept="Nothing was started.",
            hint="Name another folder with --repo",
        ) from None
    trust_file(target)


def trust_file(target: Path) -> None:
    """Trust a file that the user has just let Segue write."""
    from segue.config.load import load
    from segue.config.trust import TrustedFiles

    project = load(target.parent).project
    if project is not None:
        TrustedFiles().allow(project)
