"""`segue agent`: list the agents and try them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from segue.cli.options import CommandSettings, options
from segue.cli.setup.try_agent import try_
from segue.cli.terminal.output import Printer, clean, cut_start, short_paths, terminal_width
from segue.domain.errors import CredentialsError, ToolMissing
from segue.reports.abilities import describe_abilities

if TYPE_CHECKING:
    from segue.runtime.doctor import AgentReport

_PATH_CHARS, _NAME_CHARS, _WIDEST = 40, 14, 200


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
    """List the agents: which are ready, and how to get the others.

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
    ready = [report for report in reports if report.ready]
    for heading, group in (("Ready", ready), *_group(reports)):
        if group:
            click.echo(click.style(heading, bold=True) if output.colored() else heading)
            output.text("\n".join(_describe(report) for report in group) + "\n")
    name = next((one.name for one in ready if one.name != "scripted"), "NAME")
    output.text(f"Use one: segue run --agent {name}   What each tells: segue doctor --agents")


def _group(reports: Sequence[AgentReport]) -> list[tuple[str, list[AgentReport]]]:
    """Return the agents that are not ready, by what they lack."""
    missing = [report for report in reports if not report.ready]
    codes = {"Not installed": ToolMissing.exit_code, "Without a key or login": CredentialsError.exit_code}
    groups = {what: [one for one in missing if one.exit_code == code] for what, code in codes.items()}
    rest = [one for one in missing if one.exit_code not in codes.values()]
    return [*groups.items(), ("Not set up", rest)]


def _describe(report: AgentReport) -> str:
    """Return the lines about one agent: what is known of it, or how to get it, and what it can do."""
    place = cut_start(short_paths(report.program), _PATH_CHARS) if report.program else ""
    known = " · ".join(filter(None, (report.version, report.login, place))) or "ready"
    problem = (
        (report.fix or " ".join(report.problems)).partition(" — or set ")[0].removeprefix("Install it: ")
    )
    can = describe_abilities(report.can)
    room = max((terminal_width() or _WIDEST) - _NAME_CHARS - 3, _NAME_CHARS)
    said = [clean(known if report.ready else short_paths(problem)), *([can] if report.ready and can else [])]
    lines = [line for text in said for line in wrap(text, room, break_long_words=False)]
    return f"  {report.name:<{_NAME_CHARS}} " + f"\n  {'':<{_NAME_CHARS}} ".join(lines)


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
