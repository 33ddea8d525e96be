"""The store for those who only ask: queries, reading without touching, troubles explained."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from segue.domain.errors import StoreError, UsageError
from segue.domain.events import NoticeGiven
from segue.store import connect
from segue.store.database import open_database
from segue.store.schema import VERSION, create
from segue.store.sqlite import create_file
from tests.store.driving import SPEC, Given, driven, giving

KILLED_WRITER = """
import os, signal, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA cache_size = 1")
database.execute("CREATE TABLE kept (text)")
database.execute("BEGIN")
for _ in range(200):
    database.execute("INSERT INTO kept VALUES (?)", ["lost" * 1000])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_reading_heals_a_database_whose_maker_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "segue.db"
    subprocess.run([sys.executable, "-c", KILLED_WRITER, str(path)], check=False)
    assert path.with_name("segue.db-journal").stat().st_size > 0, "there is something to roll back"
    with connect(path, read_only=True) as store:
        assert store.runs() == []
    assert sqlite3.connect(path).execute("SELECT count(*) FROM kept").fetchone() == (0,)
    with connect(path) as store:
        store.create("key", SPEC)


def test_a_new_file_has_all_tables_and_an_old_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "segue.db"
    create_file(path)
    database = open_database(path)
    assert not create(database), "nothing is left to do"
    database.close()
    with connect(path) as store:
        made = store.create("key", SPEC)
    create_file(path)
    with connect(path) as store:
        assert [run.id for run in store.runs()] == [made.id]


def test_what_is_left_of_a_deleted_file_does_not_get_into_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "segue.db"
    with connect(path) as store:
        store.create("key", SPEC)
        left = path.with_name("segue.db-wal").read_bytes()
    assert left
    path.unlink()
    path.with_name("segue.db-wal").write_bytes(left)
    create_file(path)
    with connect(path) as store:
        assert store.runs() == []


def test_reading_what_does_not_exist_finds_nothing_and_makes_nothing(
    tmp_path: Path, empty_postgres: str
) -> None:
    for address in (str(tmp_path / "no" / "segue.db"), empty_postgres):
        with connect(address, read_only=True) as store:
            assert store.runs() == []
            assert store.run("x") is None
            assert list(store.events("x")) == []
            assert list(store.table("runs")) == []
            with pytest.raises(StoreError, match="reading only"):
                store.create("key", SPEC)
    assert not (tmp_path / "no").exists()
    database = open_database(empty_postgres)
    assert not database.has_table("orchestrator_runs")
    database.close()


def test_reading_sees_what_another_connection_writes(database: str) -> None:
    async def main() -> None:
        with connect(database) as store, connect(database, read_only=True) as reader:
            async with driven(store) as journal:
                reader.wait_for_change(0)
                await journal.step("a", Given, giving())
                reader.wait_for_change(20)
                assert [step.key for step in reader.steps(journal.run.id)] == ["a"]
                assert [event.type for event in reader.events(journal.run.id)] == [
                    "step.started",
                    "step.ended",
                ]
                with pytest.raises(StoreError, match="reading only"):
                    await reader.open(journal.run.id)
                with pytest.raises(StoreError, match="reading only"):
                    reader.send(journal.run.id, "stop", {})

    asyncio.run(main())


def test_a_beginning_that_fits_several_runs_is_refused(database: str) -> None:
    with connect(database) as store:
        runs = [store.create("key", SPEC) for _ in range(17)]
        letters = [run.id[0] for run in runs]
        twice = next(letter for letter in letters if letters.count(letter) > 1)
        with pytest.raises(UsageError, match="could be any of"):
            store.run(twice)


def test_a_database_of_another_version_is_refused(database: str) -> None:
    connect(database).disconnect()
    connection = open_database(database)
    connection.execute("UPDATE orchestrator_migrations SET version = 13")
    connection.close()
    for read_only in (False, True):
        with pytest.raises(StoreError, match=f"version 13, this Segue needs {VERSION}") as caught:
            connect(database, read_only=read_only)
        assert "Use the Segue that wrote it" in caught.value.hint


def test_strangers_see_nothing_on_postgres_unless_they_are_allowed_to(postgres: str) -> None:
    with connect(postgres) as store:
        store.create("key", SPEC)
    connection = open_database(postgres)
    connection.execute("CREATE ROLE stranger")
    connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO stranger")
    connection.execute("SET ROLE stranger")
    for table in ("orchestrator_runs", "segue_runs", "orchestrator_migrations"):
        assert connection.execute(f"SELECT * FROM {table}") == []
    connection.execute("RESET ROLE")
    connection.execute("DROP OWNED BY stranger")
    connection.execute("DROP ROLE stranger")
    connection.close()


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, please keep them" * 100)
    for read_only in (False, True):
        with pytest.raises(StoreError, match="is not a Segue database") as caught:
            connect(path, read_only=read_only)
        assert str(path) in caught.value.message
        assert caught.value.hint
    assert path.read_text().startswith("these are my notes")


def test_a_place_that_cannot_hold_a_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file" / "segue.db", tmp_path):
        with pytest.raises(StoreError, match=r"cannot be opened|is a folder") as caught:
            connect(path)
        assert "folder" in caught.value.hint


def test_a_full_disk_stops_the_run_and_keeps_what_was_there(tmp_path: Path) -> None:
    """SQLite's own page limit fails exactly as a full disk does."""

    async def main() -> None:
        with connect(tmp_path / "segue.db") as store:
            journal = await store.open(store.create("key", SPEC).id)
            await journal.step("a", Given, giving())
            assert store._keeper is not None
            store._keeper.writer.database.execute("PRAGMA max_page_count = 1")
            with pytest.raises(StoreError, match="disk is full") as caught:
                await journal.step("b", Given, giving(text="x" * 100_000))
            assert "give the same command again" in caught.value.hint
            with pytest.raises(StoreError, match="disk is full"):
                await journal.emit(NoticeGiven(""))
            with pytest.raises(StoreError, match="disk is full"):
                await store.close(journal)
            run = store.runs()[0]
            assert run.owner is None, "free for the next attempt"
            async with driven(store, run.id) as again:
                await again.step("b", Given, giving())
            assert [event.seq for event in store.events(run.id)] == list(range(1, 6))

    asyncio.run(main())


def test_a_path_with_signs_that_mean_something_in_urls_works(tmp_path: Path) -> None:
    path = tmp_path / "50% of ?what#.db"
    with connect(path) as store:
        run = store.create("key", SPEC)
        assert [row["id"] for batch in store.table("runs") for row in batch] == [run.id]
    with connect(path, read_only=True) as reader:
        assert reader.name == str(path)
        assert [found.id for found in reader.runs()] == [run.id]


def test_status_needs_neither_asyncio_nor_a_driver(tmp_path: Path) -> None:
    connect(tmp_path / "segue.db").disconnect()
    code = (
        "import sys; from segue.store import connect; connect(sys.argv[1], read_only=True).runs();"
        "sys.exit(', '.join({'asyncio', 'psycopg', 'pyarrow', 'importlib.resources'} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "segue.db")], stderr=subprocess.PIPE, text=True
    )
    assert ran.stderr.strip() == ""


def test_a_missing_driver_is_named(tmp_path: Path) -> None:
    (tmp_path / "psycopg.py").write_text("raise ImportError('not installed')")
    code = (
        "from segue.store import connect\n"
        "try: connect('postgresql://localhost/x')\n"
        "except Exception as error: print(type(error).__name__, error.hint)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    assert re.match(r"ToolMissing .*extra\.py'? postgres \| ", ran.stdout)
