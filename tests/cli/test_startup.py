"""Start-up is a feature: commands that need little import little."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import segue
from tests.cli.place import DEADLINE, Place

_LOADED = """
import json, sys
from segue.cli.main import run
code = run(sys.argv[1:])
sys.stderr.write(json.dumps([code, sorted(sys.modules)]))
"""
_HEAVY = {"asyncio", "mcp", "pydantic", "rich", "psycopg", "sqlite3", "platformdirs", "segue.runtime.wiring"}


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


_NOT_FOR_A_LIST = {
    *("rich", "psycopg", "asyncio", "socket"),
    *("segue.ports", "segue.domain.events", "segue.view.run", "segue.system.redact", "segue.store.boundary"),
    *("segue.store.journal", "segue.cli.terminal.task_table"),
}


def test_status_lists_runs_without_what_only_tables_drivers_events_and_writers_need(place: Place) -> None:
    place.script("")  # with settings of an agent, which need not be imported either
    place.segue("run", "plan.md", "--task", "1")
    modules = loaded(place, "status")
    assert "sqlite3" in modules, "the command has looked at the database"
    assert modules & _NOT_FOR_A_LIST == set()


PARTS = (
    "segue.agents.acp.child",
    "segue.agents.scripted.child",
    "segue.system.isolation.landlock",
    "segue.system.supervisor.main",
)
"""Programs of Segue that are started again and again."""


def test_small_programs_need_the_standard_library_alone_and_little_of_it() -> None:
    code = f"import sys; sys.path.append(sys.argv[1]); import {', '.join(PARTS)}; print(*sys.modules)"
    source = Path(segue.__file__).parents[1]
    argv = [sys.executable, "-I", "-S", "-c", code, str(source)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) & {"asyncio", "logging", "ssl", "tomllib"} == set()
