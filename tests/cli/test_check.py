"""`segue check` runs what is configured and what Supabase needs, and ends as they do."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest

from tests.cli.place import Place
from tests.judges.rls_place import ON, RIGHT, TODOS

GOOD = 'checks = [["git", "--version"]]\n'
BAD = 'checks = [["git", "--version"], ["git", "nonsense"]]\n'


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path)


def migrate(place: Place, sql: str) -> None:
    folder = place.repo / "supabase" / "migrations"
    folder.mkdir(parents=True)
    (folder / "20240101000000_todos.sql").write_text(sql)


def test_configured_checks(place: Place) -> None:
    place.config(GOOD)
    assert place.segue("check").stdout.startswith("✓ git --version: passed\n  git version")
    place.config(BAD)
    done = place.segue("check", code=1)
    assert "✗ git nonsense: exit code 1\n" in done.stdout
    assert "is not a git command" in done.stdout
    shown = place.json("check", code=1)
    assert shown["passed"] is False
    assert [check["exit_code"] for check in shown["checks"]] == [0, 1]
    assert shown["rls"] is None


def test_a_check_that_is_not_there(place: Place) -> None:
    place.config('checks = [["no-such-program"]]\n')
    assert "✗ no-such-program: was not run" in place.segue("check", code=1).stdout


def test_a_strangers_code_gets_neither_keys_nor_files_nor_the_network(place: Place) -> None:
    """What `gh pr checkout` leaves in the work tree is tried in the sandbox that checks of a run have."""
    token = Path(place.env["HOME"]) / ".ssh" / "id_ed25519"
    token.parent.mkdir(parents=True, exist_ok=True)
    token.write_text("the key")
    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()
    (place.repo / "check.py").write_text(
        "import os, pathlib, socket\n"
        f"print('FILE', pathlib.Path({str(token)!r}).exists() and pathlib.Path({str(token)!r}).read_text())\n"
        "print('VARIABLE', os.environ.get('ANTHROPIC_API_KEY'))\n"
        f"try:\n    socket.create_connection({address!r}, 5)\n    print('NETWORK')\n"
        "except OSError:\n    print('ALONE')\n"
        f"pathlib.Path({str(place.root / 'outside')!r}).write_text('x')\n"
    )
    place.config(f'checks = [["{sys.executable}", "check.py"]]\n')
    place.use_sandbox()
    with listening:
        shown = place.json("check", ANTHROPIC_API_KEY="sk-the-key-of-mine", code=None)
    if not shown["isolated"]:
        pytest.skip("there is no sandbox on this machine")
    (said,) = shown["checks"]
    assert "the key" not in said["output"]
    assert "VARIABLE None" in said["output"]
    assert "ALONE" in said["output"]
    assert not (place.root / "outside").exists()


def test_checks_that_are_not_isolated_say_so(place: Place) -> None:
    place.config(GOOD)
    assert "not isolated" in place.segue("check").stderr
    assert place.json("check")["isolated"] is False


def test_nothing_to_check(place: Place) -> None:
    assert "checks = " in place.segue("check", code=2).stderr
    assert "--repo" in place.segue("check", "rls", code=2).stderr


def test_row_level_security(place: Place, postgres_server: str) -> None:
    migrate(place, TODOS + ON + RIGHT)
    done = place.segue("check", "rls")
    assert done.stdout.startswith("✓ rls check: passed\n  public.todos: row level security on")
    assert place.json("check", SEGUE_RLS__DATABASE_URL=postgres_server)["rls"]["passed"] is True


def test_a_hole_fails_both_commands(place: Place, postgres_server: str) -> None:
    migrate(place, TODOS)
    place.config(f'{GOOD}[rls]\ndatabase_url = "{postgres_server}"\n')
    done = place.segue("check", code=1)
    assert "✓ git --version: passed" in done.stdout
    assert "ERROR public.todos: row level security is off" in done.stdout
    shown = place.json("check", "rls", code=1)
    assert shown["tables"][0]["enabled"] is False
    assert shown["findings"][-1]["level"] == "error"


def test_without_a_postgres_it_counts_only_when_it_is_demanded(place: Place) -> None:
    migrate(place, TODOS)
    place.config(GOOD + '[rls]\ndatabase_url = "postgresql://me:secret-password@127.0.0.1:1/x"\n')
    done = place.segue("check")
    assert "✗ rls check: was not run" in done.stdout
    assert "secret-password" not in done.stdout + done.stderr
    assert "Next: rls.database_url" in place.segue("check", "rls", code=1).stdout
    place.segue("check", code=1, SEGUE_RLS__ENABLED="on")
    assert "rls" not in place.segue("check", SEGUE_RLS__ENABLED="off").stdout
    assert "secret-password" not in json.dumps(place.json("config", "show"))
