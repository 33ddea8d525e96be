"""`segue demo`: see Segue work in a throwaway repository, without keys."""

from __future__ import annotations

from pathlib import Path

import click

from segue.cli.options import FOLDER, options
from segue.cli.terminal.output import Printer
from segue.domain.installed import find_variant, known_variants, socket_variants

SCENES = ("story", "build")
"""Those of the core; parts have more."""


@click.command()
@click.argument("scene", type=click.Choice([*SCENES, *known_variants("scenes")]), required=False)
@click.option("--all", "everything", is_flag=True, help="Show all scenes, one after the other.")
@click.option("--dir", "folder", type=FOLDER, help="Where to put it (default: a new temporary folder).")
@options("json", "color")
def demo(scene: str | None, everything: bool, folder: Path | None, output: Printer) -> int:
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

    from segue.cli.run.demo import runs, story
    from segue.domain.errors import UsageError

    if scene and everything:
        raise click.UsageError(f"--all shows every scene. Leave out {scene!r}, or --all.")
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty.", kept="Nothing was changed.", hint="Choose a new folder.")
    show = dict(zip(SCENES, (story.show_story, runs.show_build), strict=True))
    more = [scene] if scene and scene not in SCENES else []
    if everything:
        more = list(socket_variants("scenes"))
    show |= {name: find_variant("scenes", name, f"`segue demo {name}`") for name in more}
    for name, one in show.items():
        if everything or name == (scene or SCENES[0]):
            code = asyncio.run(one(folder.absolute() / name if folder else None, output))
            if code != 0:
                return code
    return 0
