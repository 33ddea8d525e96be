"""`segue doctor`: check this machine and say how to fix what is missing."""

from __future__ import annotations

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer, short_paths


@click.command()
@options("repo", "config", "database", "json", "color")
def doctor(settings: CommandSettings, output: Printer) -> int:
    """Check Python, git, the repository, the database and the agents.

    For each agent, prints version, login, location and capabilities; of Claude Code and Codex also how this
    version behaves, tried once against a model on loopback. Every problem comes with a fix. Exits with 0 if
    everything that is needed works.

    \b
    Examples:
      segue doctor
      segue doctor --json
    """
    import asyncio

    from msgspec import to_builtins

    from segue.runtime.doctor import examine

    checks = asyncio.run(examine(settings.look(say=False)))
    bad = [check for check in checks if not check.ok and check.needed]
    if output.json:
        output.data([to_builtins(check) for check in checks])
    else:
        rows = []
        for check in checks:
            mark = "✓" if check.ok else ("✗" if check.needed else "–")
            rows.append((mark, check.what, short_paths(check.detail)))
            if check.agent and check.agent.can:
                rows.append(("", "", ", ".join(check.agent.can)))
            if check.agent and check.agent.behaviour:
                rows.append(("", "", check.agent.behaviour))
        output.table(["", "what", "detail"], rows)
        for check in checks:
            if check.fix and not check.ok:
                output.text(f"{check.what}: {check.fix}")
    return bad[0].exit_code if bad else 0
