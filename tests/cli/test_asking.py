"""`segue db query`, `shell` and `export`: questions that change nothing, and tables as files."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from segue.store import connect
from segue.store.flat import FLAT_TABLES
from tests.cli.place import Place


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A place where a run has ended."""
    place = Place.make(tmp_path_factory.mktemp("asked"))
    place.script('[[on]]\nwrite = { "a.txt" = "x" }\n')
    place.segue("run", "plan.md", "--task", "1")
    return place


def test_an_answer_is_a_table_csv_or_json(asked: Place) -> None:
    sql = "SELECT task, agent, changed, cost_usd FROM segue_attempts ORDER BY seq"
    table = asked.segue("db", "query", sql).stdout.splitlines()
    assert table[0].split() == ["TASK", "AGENT", "CHANGED", "COST_USD"]
    rows = list(csv.DictReader(io.StringIO(asked.segue("db", "query", sql, "--format", "csv").stdout)))
    found = json.loads(asked.segue("db", "query", sql, "--format", "json").stdout)
    assert len(table) - 1 == len(rows) == len(found) > 0
    assert [row["task"] for row in rows] == [row["task"] for row in found]
    few = asked.segue("db", "query", "SELECT seq FROM orchestrator_events", "--rows", "2")
    assert len(few.stdout.splitlines()) == 3
    assert "Only the first 2 rows" in few.stderr


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELCT 1", "syntax error"),
        ("SELECT nobody FROM segue_runs", "no such column: nobody"),
        ("SELECT * FROM nowhere", "no such table: nowhere"),
        ("DELETE FROM orchestrator_runs", "nothing but SELECT"),
        ("PRAGMA user_version = 7", "nothing but SELECT"),
        ("ATTACH '/tmp/other.db' AS other", "nothing but SELECT"),
        ("SELECT 1; DROP TABLE orchestrator_runs", "nothing but SELECT"),
        ("WITH x AS (SELECT 1) DELETE FROM orchestrator_prompts", "nothing but SELECT"),
        ("SELECT load_extension('/tmp/x.so')", "nothing but SELECT"),
    ],
)
def test_a_wrong_question_is_one_line_and_changes_nothing(asked: Place, sql: str, said: str) -> None:
    told = asked.segue("db", "query", sql, code=2).stderr.splitlines()
    assert said in told[0]
    assert told[0].startswith("segue: ")
    assert all(line.startswith("  Next: ") for line in told[1:])
    assert asked.rows("SELECT count(*) FROM orchestrator_runs") == [(1,)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM orchestrator_runs",
        "COPY orchestrator_runs TO PROGRAM 'cat > /tmp/x'",
        "DO $$ BEGIN NULL; END $$",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT 1) AS a; DELETE FROM orchestrator_runs; SELECT * FROM (SELECT 1",
        "WITH gone AS (DELETE FROM orchestrator_runs RETURNING 1) SELECT * FROM gone",
        "SELECT lo_creat(-1)",
    ],
)
def test_nothing_is_written_on_postgres_either(tmp_path: Path, postgres: str, sql: str) -> None:
    place = Place.make(tmp_path)
    place.segue("db", "migrate", "--database-url", postgres)
    told = place.segue("db", "query", sql, "--database-url", postgres, code=2).stderr
    assert len([line for line in told.splitlines() if line.startswith("segue: ")]) == 1
    with connect(postgres) as store:
        assert store.query("SELECT count(*) AS n FROM orchestrator_migrations")[0]["n"] > 0


def test_the_shell_reads_questions_from_a_pipe(asked: Place) -> None:
    script = ".tables\n.schema patches\nSELECT count(*) AS n\nFROM segue_runs;\n.mode json\nSELECT 1 AS one"
    said = shell(asked, script)
    assert said.returncode == 0, said.stderr
    lines = said.stdout.splitlines()
    assert lines[: len(FLAT_TABLES)] == [f"segue_{name}" for name in FLAT_TABLES]
    assert any(line.startswith("diff ") and "unified" in line for line in lines)
    assert lines[-3:] == ["N", "1", '[{"one": 1}]']
    wrong = shell(asked, "SELECT * FROM nowhere;\nSELECT 1;\n")
    assert (wrong.returncode, wrong.stdout) == (2, "")


def shell(place: Place, script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "segue", "db", "shell"]
    return subprocess.run(
        command, cwd=place.repo, env=place.env, input=script, capture_output=True, text=True
    )


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other side was closed
        return b""


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo terminals")
def test_the_shell_goes_on_after_a_mistake_and_remembers(asked: Place) -> None:
    ours, theirs = pty.openpty()
    environment = {**asked.env, "TERM": "xterm"}
    command = [sys.executable, "-m", "segue", "db", "shell"]
    with subprocess.Popen(
        command, cwd=asked.repo, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        os.write(ours, b"SELECT * FROM nowhere;\nSELECT 40 + 2 AS n;\n.quit\n")
        printed = b"".join(iter(lambda: _read(ours), b"")).decode()
        assert process.wait() == 0
    os.close(ours)
    assert "no such table" in printed
    assert "42" in printed
    history = next(asked.root.rglob("sql_history"))
    assert "SELECT 40 + 2 AS n;" in history.read_text().replace("\\040", " ")
    assert history.stat().st_mode & 0o077 == 0


@pytest.mark.thorough
def test_all_tables_are_exported_into_a_folder(asked: Place, tmp_path: Path) -> None:
    import pyarrow.parquet

    folder = tmp_path / "tables"
    asked.segue("db", "export", "--format", "parquet", "-o", str(folder))
    assert {path.stem for path in folder.iterdir()} == set(FLAT_TABLES)
    attempts = pyarrow.parquet.read_table(folder / "attempts.parquet")
    types = {
        name: str(attempts.schema.field(name).type) for name in ("changed", "started_at", "cost_usd", "seq")
    }
    assert types == {
        "changed": "bool",
        "started_at": "timestamp[ms, tz=UTC]",
        "cost_usd": "double",
        "seq": "int64",
    }
    rows = [json.loads(line) for line in asked.segue("db", "export", "attempts").stdout.splitlines()]
    assert [row["step"] for row in rows] == attempts["step"].to_pylist()
    assert rows[0]["changed"] is True
    assert rows[0]["started_at"].endswith("Z")
    assert rows[0]["failure"] is None
    assert "Name a table" in asked.segue("db", "export", code=2).stderr
    assert "'secrets'" in asked.segue("db", "export", "secrets", code=2).stderr
