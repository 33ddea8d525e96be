"""What a command line starts: the search simulator with its script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from segue.sim.http.script import load_script
from segue.sim.search.app import search_app
from segue.sim.search.script import Script
from segue.system.http.server import run_server


def run_search(port: int, script: Path | None, tell: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; `tell` gets the line that names the address."""
    played = load_script(script, Script) if script else None
    run_server(search_app(played), port, lambda url: tell(f"listening on {url}"))
