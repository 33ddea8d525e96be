"""An agent that says what it sees of the sandbox."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.place import PLAN, Place

AGENT = """
import os, pathlib, signal, sys, time
sys.stdin.read()
{body}
pathlib.Path("work.txt").write_text("done")
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place.make(tmp_path, PLAN)
    place.use_sandbox()
    return place


def agent(place: Place, body: str, settings: str = "") -> None:
    """Make a command agent that does this before its work."""
    program = place.root / "agent.py"
    program.write_text(AGENT.format(body=body))
    argv = json.dumps([sys.executable, "-IS", str(program)])
    place.config(f'agent = "command"\n{settings}\n[agents.command]\nargv = {argv}\n')


def ended(place: Place) -> dict[str, Any]:
    """How the agent ended."""
    ((data,),) = place.rows("select data from orchestrator_events where type = 'agent.ended'")
    found: dict[str, Any] = json.loads(data)
    return found


DOCKER = """
import json, subprocess, sys
arguments = sys.argv[1:]
open({log!r}, "a").write(json.dumps(arguments) + "\\n")
if arguments[0] == "run":
    at = arguments.index("image:1")
    sys.exit(subprocess.call([{python!r}, *arguments[at + 2:]]))
"""
