"""`segue demo`: whole runs in throw-away repositories, without keys."""

from __future__ import annotations

from pathlib import Path

import click

from segue.cli.options import make_output, options

PARTS = ("plan", "feature", "build", "bridge")


@click.command()
@click.argument("part", type=click.Choice(["all", *PARTS]), default="all")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Where to put it (default: a new temporary folder).",
)
@options("json", "color")
def demo(part: str, folder: Path | None, as_json: bool, color: str) -> int:
    """See whole runs: simulated agents, real processes, real commits, real data.

    `plan`: one task fails its first attempt and is tried again, one meets a usage limit and waits.
    `feature`: a Spec Kit feature on simulated cloud agents, with a failed verification and its recovery.
    `build`: one prompt, planned and built step by step; one step is searched for, the plan is made anew.
    `bridge`: an agent without keys prints commands; a subagent, the relay and a reminder carry them out.

    \b
    Examples:
      segue demo
      segue demo feature --dir /tmp/segue-demo
    """
    import asyncio

    from segue.cli import demo_bridge, demo_build, demo_feature, demo_plan
    from segue.cli.output import program
    from segue.domain.errors import UsageError

    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty.", kept="Nothing was touched.", hint="Name a new folder")
    output = make_output(as_json, color=color)
    shows = {"plan": demo_plan.show, "feature": demo_feature.show, "build": demo_build.show}
    shows["bridge"] = demo_bridge.show
    for name in PARTS if part == "all" else (part,):
        place = folder.absolute() / name if folder else None
        code = asyncio.run(shows[name](place, output))
        if code != 0:
            return code
    output.note(_NEXT.format(segue=program()))
    return 0


_NEXT = """Try next:
  {segue} run your-plan.md --agent scripted --dry-run   every prompt for a plan of yours
  {segue} doctor                                        what works on this machine"""
