"""The store for those who only ask: queries, reading without touching, migrations, troubles explained."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from segue.domain.errors import StoreError, UsageError
from segue.domain.events import NoticeGiven
from segue.domain.results import JudgeOutput, StepResult
from segue.domain.run import RunState
from segue.domain.verdict import Action, Result, Verdict
from segue.store import connect
from segue.store.address import masked, sqlite_path
from segue.store.database import open_database
from segue.store.migrate import VERSION, migrate, scripts
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
    assert migrate(database) == [], "nothing is left to migrate"
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


def test_a_database_left_behind_by_a_killed_process_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "segue.db"
    code = (
        "import os, sys; from segue.store import connect; from segue.domain.run import RunSpec;"
        "connect(sys.argv[1]).create('key', RunSpec('a', 'b', 'c', 'd', 'e')); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == -9
    with connect(path, read_only=True) as store:
        assert [run.source_key for run in store.runs()] == ["key"]


def test_a_beginning_that_fits_several_runs_is_refused(database: str) -> None:
    with connect(database) as store:
        runs = [store.create("key", SPEC) for _ in range(17)]
        letters = [run.id[0] for run in runs]
        twice = next(letter for letter in letters if letters.count(letter) > 1)
        with pytest.raises(UsageError, match="could be any of"):
            store.run(twice)


@pytest.mark.thorough
def test_many_processes_may_create_the_database_at_once(empty_database: str) -> None:
    code = "import sys; from segue.store import connect; print(connect(sys.argv[1]).version())"
    programs = [
        subprocess.Popen([sys.executable, "-c", code, empty_database], stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    assert [program.communicate()[0] for program in programs] == [f"{VERSION}\n"] * 6


def test_migrations_are_numbered_without_gaps_and_applied_once(empty_database: str) -> None:
    assert [int(name[:3]) for name in scripts()] == list(range(1, VERSION + 1))
    with connect(empty_database) as store:
        assert store.version() == VERSION
    connection = open_database(empty_database)
    assert migrate(connection) == []
    connection.close()


def test_a_database_of_a_newer_segue_is_refused(database: str) -> None:
    connect(database).disconnect()
    connection = open_database(database)
    connection.execute("INSERT INTO orchestrator_migrations VALUES (999, '999_future.sql', 0)")
    connection.close()
    for read_only in (False, True):
        with pytest.raises(StoreError, match="version 999") as caught:
            connect(database, read_only=read_only)
        assert "Update Segue" in caught.value.hint


def test_an_older_database_is_not_migrated_by_a_reader(database: str) -> None:
    connect(database).disconnect()
    connection = open_database(database)
    connection.execute("DELETE FROM orchestrator_migrations WHERE version > 1")
    connection.execute("UPDATE orchestrator_migrations SET version = 0")
    connection.execute("INSERT INTO orchestrator_migrations VALUES (?, 'older', 0)", -VERSION)
    connection.execute("DELETE FROM orchestrator_migrations WHERE version = 0")
    connection.close()
    with pytest.raises(StoreError, match=f"version -{VERSION}") as caught:
        connect(database, read_only=True)
    assert "segue db migrate" in caught.value.hint


def test_the_views_answer_people_who_query_by_hand(database: str) -> None:
    verdict = Verdict(Result.FAIL, Action.RETRY, "no diff")

    async def judge(_token: str) -> StepResult[JudgeOutput]:
        return StepResult(False, JudgeOutput(verdict=verdict))

    async def main() -> str:
        with connect(database) as store:
            async with driven(store) as journal:
                await journal.step("a", JudgeOutput, judge)
                await journal.step("b", Given, giving())
                await journal.set_state(RunState.NEEDS_HUMAN)
            return journal.run.id

    run_id = asyncio.run(main())
    connection = open_database(database)
    steps = connection.execute(
        "SELECT key, state, verdict, action, reason, is_current FROM orchestrator_step_summaries ORDER BY seq"
    )
    assert steps == [("a", "failed", "FAIL", "RETRY", "no diff", 1), ("b", "done", None, None, None, 1)]
    [(id_, state, agent, count, failed, seconds)] = connection.execute(
        "SELECT id, state, agent, steps, steps_failed, seconds_in_steps FROM orchestrator_run_summaries"
    )
    assert (id_, state, agent, count, failed) == (run_id, "needs_human", "scripted", 2, 1)
    assert seconds >= 0
    connection.close()


def test_strangers_see_nothing_on_postgres_unless_they_are_allowed_to(postgres: str) -> None:
    with connect(postgres) as store:
        store.create("key", SPEC)
    connection = open_database(postgres)
    connection.execute("CREATE ROLE stranger")
    connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO stranger")
    connection.execute("SET ROLE stranger")
    for table in ("orchestrator_runs", "orchestrator_run_summaries", "orchestrator_migrations"):
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


READER = """
import os, sys
from segue.store import connect
import segue.store.sqlite, segue.store.store
if os.getuid() == 0:
    os.setuid(65534)
with connect(sys.argv[1], read_only=True) as store:
    print(len(store.runs()))
try:
    connect(sys.argv[1])
except Exception as error:
    print(error.message)
"""


def test_a_folder_that_may_only_be_read_can_be_read() -> None:
    folder = Path(tempfile.mkdtemp(prefix="segue-read-only-"))
    try:
        with connect(folder / "segue.db") as store:
            store.create("key", SPEC)
        folder.chmod(0o555)
        (folder / "segue.db").chmod(0o444)
        ran = subprocess.run(
            [sys.executable, "-c", READER, str(folder / "segue.db")], stdout=subprocess.PIPE, text=True
        )
        count, refusal = ran.stdout.splitlines()
        assert count == "1"
        assert f"{folder / 'segue.db'} cannot be written" in refusal
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_addresses() -> None:
    assert sqlite_path("sqlite:///data/x.db") == Path("data/x.db")
    assert sqlite_path("sqlite:////data/x.db") == Path("/data/x.db")
    assert sqlite_path("~/x.db") == Path.home() / "x.db"
    assert masked("postgresql://me:se@cret@host:5/db?port=7") == "postgresql://me:***@host:5/db?port=7"
    assert masked("postgres://host/db?password=secret&user=1") == "postgres://host/db?password=***&user=1"
    assert masked("postgres://me@host/db") == "postgres://me@host/db"


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


def test_an_sqlite_file_is_safe_against_power_loss(tmp_path: Path) -> None:
    connect(tmp_path / "segue.db").disconnect()
    database = open_database(tmp_path / "segue.db")
    assert database.execute("PRAGMA synchronous") == [(2,)]
    assert database.execute("PRAGMA journal_mode") == [("wal",)]
    database.close()
    assert sqlite3.sqlite_version_info >= (3, 35)


def test_a_missing_driver_is_named(tmp_path: Path) -> None:
    (tmp_path / "psycopg.py").write_text("raise ImportError('not installed')")
    code = (
        "from segue.store import connect\n"
        "try: connect('postgresql://localhost/x')\n"
        "except Exception as error: print(type(error).__name__, error.hint)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    assert re.fullmatch(r"ToolMissing .*extras.postgres\.txt.*", ran.stdout.strip())
