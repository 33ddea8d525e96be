"""Databases of 0.1 and 0.2, made by these versions: they open, are migrated, and their runs are finished."""

from __future__ import annotations

import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from segue.sources.plan.state import pair_key
from segue.store.migrate import VERSION
from segue.system import identity
from tests.cli.place import Place
from tests.store.old.make import HERE, KEY, PLACE, WORK

SCHEMAS = {"0.1": 3, "0.2": 8}
TASKS = ["Task 1: Write one.", "Task 2: Write two.", "Task 3: Write three."]
STATES = ("done", "waiting", "killed")


def restore(root: Path, version: str, state: str, url: str = "") -> Place:
    """Put a repository and its database here, as the older version left them."""
    packed = root / "packed"
    kind = "postgres" if url else "sqlite"
    with tarfile.open(HERE / version / f"{state}.{kind}.tar.gz") as files:
        for entry in files:
            path, source = packed / entry.name, files.extractfile(entry)
            assert source is not None
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source.read().replace(PLACE.encode(), str(root / "here").encode()))
    place = Place.make(root / "here", template=packed / "repo")
    (place.root / "script.toml").write_text(WORK)
    (packed / "state").rename(place.root / "state")
    sql = (packed / "database.sql").read_text()
    sql = sql.replace(KEY, pair_key(place.repo / "plan.md", place.repo))
    place.env |= {
        "SEGUE_STATE_DIR": str(place.root / "state"),
        "SEGUE_AGENTS__SCRIPTED__SCRIPT": str(place.root / "script.toml"),
        "SEGUE_DATABASE_URL": url,
    }
    if url:
        _fill_postgres(url, sql)
    else:
        with closing(sqlite3.connect(place.root / "state" / "segue.db")) as database:
            database.executescript(sql)
    return place


def _fill_postgres(url: str, sql: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.encode())


def finish(place: Place, state: str) -> None:
    """Continue the run to its end, and look whether no task was done twice."""
    [run] = place.json("status")
    assert (run["state"] == "done") == (state == "done")
    assert place.segue("logs", run["id"]).stdout
    for _ in TASKS if state == "waiting" else TASKS[:1]:  # one of them waits at a gate after each task
        place.segue("resume", code=None)
    [run] = place.json("status")
    assert run["state"] == "done"
    assert place.subjects() == TASKS
    assert place.segue("run", "plan.md", "--agent", "scripted").stdout == "No pending tasks to process.\n"


@pytest.mark.quick("killed-0.1")
@pytest.mark.parametrize("version", SCHEMAS)
@pytest.mark.parametrize("state", STATES)
def test_a_run_of_an_older_version_is_finished(tmp_path: Path, version: str, state: str) -> None:
    place = restore(tmp_path, version, state)
    database = place.root / "state" / "segue.db"
    copy = Path(f"{database}.version-{SCHEMAS[version]}")
    said = place.segue("status").stderr
    if SCHEMAS[version] < VERSION:
        assert f"was migrated from version {SCHEMAS[version]} to {VERSION}. As it was before: {copy}" in said
        assert copy.stat().st_mode & 0o777 == 0o600
        with closing(sqlite3.connect(copy)) as kept:
            assert kept.execute("SELECT max(version) FROM orchestrator_migrations").fetchone() == (
                SCHEMAS[version],
            )
    finish(place, state)


@pytest.mark.thorough
@pytest.mark.parametrize("version", SCHEMAS)
@pytest.mark.parametrize("state", STATES)
def test_a_run_in_postgres_is_finished(tmp_path: Path, empty_postgres: str, version: str, state: str) -> None:
    place = restore(tmp_path, version, state, empty_postgres)
    if SCHEMAS[version] < VERSION:
        assert "Bring it up to date with `segue db migrate`" in place.segue("status", code=1).stderr
    assert f"at version {VERSION}" in place.segue("db", "migrate").stdout
    finish(place, state)


def test_nothing_is_migrated_while_an_older_version_drives_a_run(tmp_path: Path) -> None:
    place = restore(tmp_path, "0.1", "killed")
    path = place.root / "state" / "segue.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE orchestrator_runs SET owner = ?", (f"{identity.me()}#old",))
    run = ["run", "plan.md", "--agent", "scripted"]
    for words in (["status"], ["resume"], ["db", "migrate"], run, ["serve"], ["report", "gaps"], ["logs"]):
        said = place.segue(*words, code=6).stderr
        assert "an older Segue drives run" in said
        assert "Kept: Nothing was changed." in said
    assert not list(path.parent.glob("segue.db.version-*"))
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT max(version) FROM orchestrator_migrations").fetchone() == (3,)


def test_a_migration_that_fails_leaves_neither_changes_nor_copies(tmp_path: Path) -> None:
    place = restore(tmp_path, "0.1", "done")
    path = place.root / "state" / "segue.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE orchestrator_events_view (x)")  # a name that a migration needs
    for _ in range(2):
        place.segue("db", "migrate", code=1)
    assert not list(path.parent.glob("segue.db.version-*"))
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute("SELECT max(version) FROM orchestrator_migrations").fetchone() == (3,)
        database.execute("DROP TABLE orchestrator_events_view")
    said = place.segue("status").stderr
    [copy] = path.parent.glob("segue.db.version-*")
    assert f"As it was before: {copy}" in said
