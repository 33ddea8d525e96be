"""What a command line starts: the model simulator with its script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from segue.sim.http.script import load_script
from segue.sim.llm.app import llm_app
from segue.sim.llm.script import Script
from segue.system.http.server import run_server


def run_llm(port: int, script: Path | None, tell: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; `tell` gets the line that names the address."""
    played = load_script(script, Script) if script else None
    run_server(llm_app(played), port, lambda url: tell(f"listening on {url}"))
