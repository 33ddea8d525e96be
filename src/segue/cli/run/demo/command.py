"""`segue demo`: see Segue work in a throwaway repository, without keys."""

from __future__ import annotations

from pathlib import Path

import click

from segue.cli.options import FOLDER, options
from segue.cli.terminal.output import Printer

PARTS = ("story", "feature", "build", "bridge")


@click.command()
@click.argument("part", type=click.Choice(PARTS), required=False)
@click.option("--all", "everything", is_flag=True, help="Show all parts, one after the other.")
@click.option("--dir", "folder", type=FOLDER, help="Where to put it (default: a new temporary folder).")
@options("json", "color")
def demo(part: str | None, everything: bool, folder: Path | None, output: Printer) -> int:
    """See Segue work: simulated agents, but real processes, commits, tests and data.

    \b
    story    two tasks run at once, an agent cheats and is caught, Segue is
             killed and resumes, the proof is shown (the default)
    feature  a Spec Kit feature on simulated cloud agents, with a judge
    build    one prompt, planned and built step by step
    bridge   an agent without keys that gets work done by printing commands

    \b
    Examples:
      segue demo
      segue demo feature --dir /tmp/segue-demo
      segue demo --all
    """
    import asyncio

    from segue.cli.run.demo import bridge, runs, story
    from segue.domain.errors import UsageError

    if part and everything:
        raise click.UsageError(f"--all shows every part. Leave out {part!r}, or --all.")
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty.", kept="Nothing was changed.", hint="Choose a new folder.")
    show = (story.show_story, runs.show_feature, runs.show_build, bridge.show_bridge)
    for name, one in zip(PARTS, show, strict=True):
        if everything or name == (part or PARTS[0]):
            code = asyncio.run(one(folder.absolute() / name if folder else None, output))
            if code != 0:
                return code
    return 0
