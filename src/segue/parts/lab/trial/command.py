"""`segue try`: tell whether an agent behaves as Segue expects, with the user's own account."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec import to_builtins

from segue.cli.options import FILE, CommandSettings, options
from segue.cli.terminal.output import Printer


@click.command("try")
@click.argument("agent")
@click.option("--model", help="The model, as the agent names it (default: the agent's own).")
@click.option("--report", "place", metavar="FILE", type=FILE, help="Write the report here, as Markdown.")
@options("repo", "config", "json", "color")
def try_(
    agent: str, model: str | None, place: Path | None, settings: CommandSettings, output: Printer
) -> int:
    """Tell in a minute whether AGENT, in the version that is installed, behaves as Segue expects.

    It writes one small file in a throw-away repository and continues the conversation once, with your own
    account: that costs a few cents at most. The report says what was seen: work, result, usage, session, and
    lines that Segue does not know. It has no key, path or text of yours, so it can be attached to an issue.
    Exits with 0 if all is as expected, else with 3.

    \b
    Examples:
      segue try claude
      segue try codex --report codex.md
    """
    import asyncio
    import shutil
    import tempfile

    from segue.parts.lab.trial.examine import examine, write_markdown
    from segue.system.files import write_atomic

    app = settings.load()
    folder = Path(tempfile.mkdtemp(prefix="segue-try-")).resolve()
    try:
        report, said = asyncio.run(examine(app, agent, model, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = write_markdown(report)
    if place is not None:
        write_atomic(place.absolute(), text.encode())
    output.result(to_builtins(report) | {"ok": report.is_fine}, text.rstrip())
    if said:
        output.note(f"It ended so, which is not in the report: {said}")
    if place is not None:
        output.note(f"Written: {place}")
    return 0 if report.is_fine else 3
