"""What agents over ACP are given: a server with the tools by which they end their task, and nothing else."""

from __future__ import annotations

from importlib.util import find_spec

from segue.system.process.segue import own_command


def find_server() -> tuple[str, ...]:
    """Return the command that starts it, but for the folder of the task; empty: it cannot."""
    return tuple(own_command("segue.parts.mcp.exits")) if find_spec("mcp") is not None else ()
