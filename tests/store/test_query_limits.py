"""Questions that a program asks on behalf of others: bounded in rows and time, and nothing but SELECT."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from segue.domain.errors import StoreError
from segue.store import connect
from segue.store.database import QueryLimits

_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) AS i FROM n"
_MANY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT i FROM n"


def test_the_first_rows_are_returned_and_the_store_works_on(database: str) -> None:
    with connect(database) as store:
        for _ in range(2):
            found = store.query(_MANY, limits=QueryLimits(rows=3, seconds=30))
            assert [row["i"] for row in found] == [1, 2, 3]
        assert len(store.query(_MANY)) == 100_000, "limits end with the question"


def test_a_question_that_takes_too_long_is_ended(database: str) -> None:
    with connect(database) as store:
        with pytest.raises(StoreError, match="took longer than this question may") as refused:
            store.query(_ENDLESS, limits=QueryLimits(rows=1, seconds=0.2))
        assert "narrower" in refused.value.hint
        assert store.query("SELECT 1 AS one") == [{"one": 1}]


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM orchestrator_runs",
        "CREATE TABLE mine (n integer)",
        "SELECT 1; DELETE FROM orchestrator_runs",
    ],
)
def test_nothing_can_be_changed(database: str, sql: str) -> None:
    with connect(database) as store:
        with pytest.raises(StoreError):
            store.query(sql, limits=QueryLimits(rows=1, seconds=5))
        assert store.query("SELECT count(*) AS n FROM orchestrator_runs") == [{"n": 0}]


def test_no_other_file_of_the_user_is_opened(tmp_path: Path) -> None:
    other = tmp_path / "cookies.db"
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("CREATE TABLE cookies (value text)")
    with connect(str(tmp_path / "segue.db")) as store:
        for sql in (f"ATTACH '{other}' AS other", "PRAGMA query_only = OFF"):
            with pytest.raises(StoreError, match="nothing but SELECT"):
                store.query(sql, limits=QueryLimits(rows=1, seconds=5))
        with pytest.raises(StoreError):
            store.query("SELECT * FROM other.cookies", limits=QueryLimits(rows=1, seconds=5))


def test_a_value_has_a_longest_size(tmp_path: Path) -> None:
    with (
        connect(str(tmp_path / "segue.db")) as store,
        pytest.raises(StoreError, match="too big"),
    ):
        store.query("SELECT zeroblob(900000000) AS z", limits=QueryLimits(rows=1, seconds=5))
