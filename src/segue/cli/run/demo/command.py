"""`segue demo`: complete runs in throwaway repositories, without keys."""

from __future__ import annotations

from pathlib import Path

import click

from segue.cli.options import FOLDER, options
from segue.cli.terminal.output import Printer

PARTS = ("plan", "feature", "build", "bridge")


@click.command()
@click.argument("part", type=click.Choice(["all", *PARTS]), default="all")
@click.option("--dir", "folder", type=FOLDER, help="Where to put it (default: a new temporary folder).")
@options("json", "color")
def demo(part: str, folder: Path | None, output: Printer) -> int:
    """Watch complete runs: simulated agents, real processes, real commits, real data.

    `plan`: one task fails at first and is retried, one hits a usage limit and waits.
    `feature`: a Spec Kit feature on simulated cloud agents, with a failed verification and its recovery.
    `build`: one prompt, planned and built step by step, with a web search and a change of plan.
    `bridge`: an agent without keys prints commands; a subagent, the relay and a reminder handle them.

    \b
    Examples:
      segue demo
      segue demo feature --dir /tmp/segue-demo
    """
    import asyncio

    from segue.cli.run.demo import bridge, runs
    from segue.cli.terminal.output import program
    from segue.domain.errors import UsageError

    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty.", kept="Nothing was changed.", hint="Choose a new folder.")
    shows = {
        "plan": runs.show_plan,
        "feature": runs.show_feature,
        "build": runs.show_build,
        "bridge": bridge.show_bridge,
    }
    for name in PARTS if part == "all" else (part,):
        code = asyncio.run(shows[name](folder.absolute() / name if folder else None, output))
        if code != 0:
            return code
    output.note(_NEXT.format(segue=program()))
    return 0


_NEXT = """Try next:
  {segue} run your-plan.md --agent scripted --dry-run   print every prompt for a plan of yours
  {segue} doctor                                        check what works on this machine"""
