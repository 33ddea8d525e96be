"""`segue init`: write a commented segue.toml."""

from __future__ import annotations

from pathlib import Path

import click

from segue.cli.options import options
from segue.cli.terminal.output import Printer


@click.command()
@click.option("--dry-run", is_flag=True, help="Print the file instead of writing it.")
@options("repo")
def init(repo: Path | None, dry_run: bool, output: Printer) -> None:
    """Write a commented segue.toml to the repository; an existing file is never changed.

    \b
    Examples:
      segue init
      segue init --dry-run
    """
    from segue.config.template import template
    from segue.domain.errors import UsageError

    folder = (repo or Path.cwd()).absolute()
    text = template()
    if dry_run:
        output.text(text)
        return
    target = folder / "segue.toml"
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(
            f"{target} already exists.",
            kept="It was not changed.",
            hint="Edit it; `segue init --dry-run` prints all settings",
        ) from None
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written: {error.strerror}.", hint="Name another folder with --repo"
        ) from None
    trust_file(target)
    output.text(f"Wrote {target}")
    plans = [path.name for path in sorted(folder.glob("*.md")) if _has_tasks(path)]
    output.note(f"Next: segue rehearse {plans[0] if plans else 'plan.md'}")


def trust_file(target: Path) -> None:
    """Trust a file that the user has just let Segue write."""
    from segue.config.load import load
    from segue.config.trust import TrustedFiles

    project = load(target.parent).project
    if project is not None:
        TrustedFiles().allow(project)


def _has_tasks(path: Path) -> bool:
    from segue.system.reading import UnsafeFile, read_file

    try:
        return b"\n## Task " in read_file(path, path.parent)
    except (OSError, UnsafeFile):
        return False
