"""`segue doctor`: check this machine and name the fix for what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from segue.cli.options import make_output, options
from segue.cli.output import short_paths


@click.command()
@options("repo", "config", "database", "json", "color")
def doctor(repo: Path | None, config_file: Path | None, as_json: bool, color: str, **settings: Any) -> int:
    """Check Python, git, the repository, the database and the agents.

    Of each agent it says the version, how it is logged in, where it was found and what it can do. Ends
    with 0 when everything needed works; each problem names its fix.

    \b
    Examples:
      segue doctor
      segue doctor --json
    """
    import asyncio
    from dataclasses import asdict

    from segue.runtime.doctor import examine
    from segue.runtime.wiring import App

    output = make_output(as_json, color=color)
    findings = asyncio.run(examine(App.load(repo, config_file, settings)))
    bad = [finding for finding in findings if not finding.ok and finding.needed]
    if as_json:
        output.data([asdict(finding) for finding in findings])
    else:
        rows = []
        for finding in findings:
            mark = "✓" if finding.ok else ("✗" if finding.needed else "–")
            rows.append((mark, finding.what, short_paths(finding.detail)))
            if finding.agent and finding.agent.can:
                rows.append(("", "", ", ".join(finding.agent.can)))
        output.table(["", "what", "detail"], rows)
        for finding in findings:
            if finding.fix and not finding.ok:
                output.text(f"{finding.what}: {finding.fix}")
    return bad[0].exit_code if bad else 0
