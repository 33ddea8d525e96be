"""`segue sim VENDOR`: simulate a vendor's cloud agents."""

from __future__ import annotations

from segue.parts.sim.command import host_command

_TEXT = """Simulate {title} on loopback until Ctrl-C.

Its sessions push real commits to the bare repositories. See `segue help clouds`.

\b
Examples:
  segue sim {name} --repo https://github.com/me/app=/tmp/app.git
"""
_SIM = "segue.parts.clouds.sim"
_SCRIPT = f"{_SIM}.script:SessionScript"

claude_cloud = host_command(
    "claude-cloud",
    _TEXT.format(name="claude-cloud", title="Claude Managed Agents"),
    (f"{_SIM}.claude:CLAUDE.build_app", _SCRIPT),
)
copilot_cloud = host_command(
    "copilot-cloud",
    _TEXT.format(name="copilot-cloud", title="GitHub Copilot's agent tasks"),
    (f"{_SIM}.copilot:COPILOT.build_app", _SCRIPT),
)
devin = host_command(
    "devin", _TEXT.format(name="devin", title="Devin"), (f"{_SIM}.devin:DEVIN.build_app", _SCRIPT)
)
jules = host_command(
    "jules", _TEXT.format(name="jules", title="Google Jules"), (f"{_SIM}.jules:JULES.build_app", _SCRIPT)
)
