"""`segue agent`: list the agents and try them."""

from __future__ import annotations

import json

import click

from segue.cli.options import CommandSettings, options
from segue.cli.setup.try_agent import try_
from segue.cli.terminal.output import Printer, clean, cut_start, short_paths

_PATH_CHARS = 30


@click.group()
def agent() -> None:
    """List the agents and try them.

    \b
    Examples:
      segue agent list
      segue agent try claude "Write hello.py"
    """


@agent.command("list")
@options("repo", "config", "json", "color")
def list_(settings: CommandSettings, output: Printer) -> None:
    """List the agents with version, login, location and capabilities.

    \b
    Examples:
      segue agent list
      segue agent list --json
    """
    from msgspec import to_builtins

    from segue.runtime.doctor import agent_reports

    reports = agent_reports(settings.look())
    if output.json:
        output.data([to_builtins(report) for report in reports])
        return
    here = [
        (
            *(r.name, "ready" if r.ready else "not ready", r.version or "–", r.login or "–"),
            cut_start(short_paths(r.program or "–"), _PATH_CHARS),
        )
        for r in reports
    ]
    output.table(["agent", "here", "version", "login", "found"], here)
    output.text("")
    output.table(["agent", "can"], [(r.name, ", ".join(r.can) or "–") for r in reports])
    missing = [r for r in reports if r.problems]
    output.text("" if missing else "All agents are ready.")
    for report in missing:
        output.text(clean(f"{report.name}: {' '.join(report.problems)} {report.fix}"))


agent.add_command(try_)


@agent.command("schema")
@click.argument("name")
@options("repo", "config")
def schema(name: str, settings: CommandSettings, output: Printer) -> None:
    """Print the options of agent NAME as JSON Schema.

    \b
    Examples:
      segue agent schema command
    """
    from segue.domain.options import options_schema
    from segue.runtime.wiring import agent_kind

    options = agent_kind(name, settings.look().loaded).Options
    output.text(json.dumps(options_schema(options), indent=2))
