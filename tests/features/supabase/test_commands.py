"""`segue check`, `segue check rls` and `segue db supabase` in a Supabase project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.place import Place
from tests.features.supabase.place import ON, RIGHT, TODOS

GOOD = 'checks = [["git", "--version"]]\n'


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path)


def migrate(place: Place, sql: str) -> None:
    folder = place.repo / "supabase" / "migrations"
    folder.mkdir(parents=True)
    (folder / "20240101000000_todos.sql").write_text(sql)


def test_a_project_without_migrations(place: Place) -> None:
    place.config(GOOD)
    assert place.json("check")["rls"] is None
    assert "--repo" in place.segue("check", "rls", code=2).stderr


def test_migrations_are_written_into_the_project_once(place: Place) -> None:
    first = place.json("db", "supabase")
    assert len(first["written"]) == 1
    assert all(Path(path).parent == place.repo / "supabase" / "migrations" for path in first["written"])
    again = place.json("db", "supabase")
    assert (again["written"], again["files"]) == ([], first["written"])
    told = place.segue("db", "supabase", "--dir", str(place.root / "other"))
    assert len(told.stdout.splitlines()) == 1
    assert "supabase db push" in told.stderr


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
    assert "secret-password" not in json.dumps(place.json("config", "list"))
