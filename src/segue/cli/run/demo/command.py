"""`segue demo`: see Segue work in a throwaway repository, without keys."""

from __future__ import annotations

from pathlib import Path

import click

from segue.cli.options import FOLDER, options
from segue.cli.terminal.output import Printer

SCENES = ("story", "build")


@click.command()
@click.argument("scene", type=click.Choice(SCENES), required=False)
@click.option("--all", "everything", is_flag=True, help="Show both, one after the other.")
@click.option("--dir", "folder", type=FOLDER, help="Where to put it (default: a new temporary folder).")
@options("json", "color")
def demo(scene: str | None, everything: bool, folder: Path | None, output: Printer) -> int:
    """See Segue work: simulated agents, but real processes, commits, tests and data.

    \b
    story    two tasks run at once, an agent cheats and is caught, Segue is
             killed and resumes, the proof is shown (the default)
    build    one prompt, planned and built step by step

    \b
    Examples:
      segue demo
      segue demo build --dir /tmp/segue-demo
      segue demo --all
    """
    import asyncio

    from segue.cli.run.demo import runs, story
    from segue.domain.errors import UsageError

    if scene and everything:
        raise click.UsageError(f"--all shows every scene. Leave out {scene!r}, or --all.")
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty.", kept="Nothing was changed.", hint="Choose a new folder.")
    for name, one in zip(SCENES, (story.show_story, runs.show_build), strict=True):
        if everything or name == (scene or SCENES[0]):
            code = asyncio.run(one(folder.absolute() / name if folder else None, output))
            if code != 0:
                return code
    return 0
