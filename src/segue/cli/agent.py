"""`segue agent`: look at the agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from segue.cli.options import make_output, options


@click.group()
def agent() -> None:
    """Look at the agents."""


@agent.command("list")
@options("repo", "config", "json", "color")
def list_(repo: Path | None, config_file: Path | None, as_json: bool, color: str, **settings: Any) -> int:
    """List the agents, whether each one is ready here, and what it can do.

    \b
    Examples:
      segue agent list
      segue agent list --json
    """
    from segue.app import App, agent_report

    output = make_output(as_json, color=color)
    reports = agent_report(App.load(repo, config_file, settings))
    if as_json:
        output.data(reports)
        return 0
    rows = [
        (r["name"], "ready" if r["ready"] else "not ready", ", ".join(r["can"]), "; ".join(r["problems"]))
        for r in reports
    ]
    output.table(["agent", "here", "can", "problem"], rows)
    return 0


@agent.command("schema")
@click.argument("name")
def schema(name: str) -> int:
    """Print the options of agent NAME as JSON Schema.

    \b
    Examples:
      segue agent schema command
    """
    from segue.app import agent_class

    click.echo(json.dumps(agent_class(name).Options.model_json_schema(), indent=2))
    return 0
