"""Start-up is a feature: commands that need little import little."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.cli.place import DEADLINE, Place

_LOADED = """
import json, sys
from segue.cli.main import run
code = run(sys.argv[1:])
sys.stderr.write(json.dumps([code, sorted(sys.modules)]))
"""
_HEAVY = {"asyncio", "pydantic", "rich", "psycopg", "sqlite3", "platformdirs", "segue.runtime.wiring"}


def loaded(place: Place, *args: str) -> set[str]:
    """The modules that a fresh process has imported when the command has ended; its output is piped."""
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, *args],
        cwd=place.repo,
        env=place.env,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    code, modules = json.loads(done.stderr)
    assert code == 0
    assert done.stdout
    return set(modules)


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_first_look_imports_nothing_heavy(place: Place, option: str) -> None:
    assert loaded(place, option) & _HEAVY == set()


def test_status_draws_no_table_for_a_pipe_and_needs_no_driver_for_a_file(place: Place) -> None:
    place.segue("run", "plan.md", "--agent", "scripted", "--task", "1")
    modules = loaded(place, "status")
    assert "sqlite3" in modules, "the command has looked at the database"
    assert modules & {"rich", "psycopg"} == set()
