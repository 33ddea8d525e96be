"""`segue sim VENDOR`: simulate a vendor's cloud agents."""

from __future__ import annotations

import click

from segue.parts.sim.command import BY_URL, service_command

_TEXT = """Simulate {title} on loopback until Ctrl-C.

Its sessions push real commits to the bare repositories. See `segue help clouds`.

\b
Examples:
  segue sim {name} --repo https://github.com/me/app=/tmp/app.git
"""
_SIM = "segue.parts.clouds.sim"


def _simulate(name: str, title: str, app: str) -> click.Command:
    text = _TEXT.format(name=name, title=title)
    return service_command(name, text, f"{_SIM}.{app}.build_app", f"{_SIM}.script:SessionScript", BY_URL)


claude_cloud = _simulate("claude-cloud", "Claude Managed Agents", "claude:CLAUDE")
copilot_cloud = _simulate("copilot-cloud", "GitHub Copilot's agent tasks", "copilot:COPILOT")
devin = _simulate("devin", "Devin", "devin:DEVIN")
jules = _simulate("jules", "Google Jules", "jules:JULES")
