"""`segue db query`: questions that change nothing."""

from __future__ import annotations

import csv
import io
import json

import pytest

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
        ("DELETE FROM orchestrator_runs", "nothing but SELECT"),
        ("SELECT 1; DROP TABLE orchestrator_runs", "nothing but SELECT"),
    ],
)
def test_a_wrong_question_is_one_line_and_changes_nothing(asked: Place, sql: str, said: str) -> None:
    told = asked.segue("db", "query", sql, code=2).stderr.splitlines()
    assert said in told[0]
    assert told[0].startswith("segue: ")
    assert all(line.startswith("  Next: ") for line in told[1:])
    assert asked.rows("SELECT count(*) FROM orchestrator_runs") == [(1,)]
