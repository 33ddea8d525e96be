"""`segue doctor`: check this machine and name the fix for what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from segue.cli.options import make_output, options


@click.command()
@options("repo", "config", "database", "json", "color")
def doctor(repo: Path | None, config_file: Path | None, as_json: bool, color: str, **settings: Any) -> int:
    """Check Python, git, the repository, the database and the agents.

    Ends with 0 when everything needed works; each problem names its fix.

    \b
    Examples:
      segue doctor
      segue doctor --json
    """
    import asyncio

    from segue.app import App
    from segue.checkup import examine

    output = make_output(as_json, color=color)
    findings = asyncio.run(examine(App.load(repo, config_file, settings)))
    bad = [finding for finding in findings if not finding.ok and finding.needed]
    if as_json:
        names = ("what", "ok", "needed", "detail", "fix", "exit_code")
        output.data([{name: getattr(finding, name) for name in names} for finding in findings])
    else:
        rows = [("✓" if f.ok else ("✗" if f.needed else "–"), f.what, f.detail) for f in findings]
        output.table(["", "what", "detail"], rows)
        for finding in findings:
            if finding.fix and not finding.ok:
                output.text(f"{finding.what}: {finding.fix}")
    return bad[0].exit_code if bad else 0
