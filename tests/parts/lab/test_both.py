"""The same data give the same figures on both databases, and every question runs as it stands."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from segue.parts.lab.reports.build import REPORTS, build_reports, build_run_report
from segue.parts.lab.reports.selection import QUERIES, Selection, find_sources, read_sql
from segue.store import connect
from tests.reports.dataset import busy


def everything(address: str) -> Any:
    with connect(address, read_only=True) as store:
        selections = Selection(), Selection(agent="claude"), Selection(sources=("Build 1",))
        found = [
            report.to_json()
            for chosen in selections
            for report in build_reports(store, tuple(REPORTS), chosen)
        ]
        run = build_run_report(store, "run-7")
        assert run is not None
        return [*found, run.to_json(), find_sources(store, "BUILD")]


def test_the_same_figures_on_both_databases(tmp_path: Path, postgres: str) -> None:
    data = busy()
    on_sqlite = everything(data.write(str(tmp_path / "segue.db")))
    on_postgres = everything(data.write(postgres))
    assert on_sqlite == on_postgres
    assert on_sqlite[-1] == ["Build 0", "Build 1", "Build 2"] or on_sqlite[-1] == (
        "Build 0",
        "Build 1",
        "Build 2",
    )
    assert all(on_sqlite[0][name] for name in ("build_phases", "tasks", "errors"))
    assert all(on_sqlite[1][name] for name in ("actions", "searches_by_topic", "searches_by_source"))
    assert all(on_sqlite[2][name] for name in ("settings", "differences"))


@pytest.mark.quick("runs", "errors")
@pytest.mark.parametrize(
    "question", [question for question in QUERIES if question not in ("trials", "opinions")]
)
def test_every_question_can_be_copied_as_it_stands(question: str, tmp_path: Path, postgres: str) -> None:
    import psycopg

    data = busy(3)
    with closing(sqlite3.connect(data.write(str(tmp_path / "segue.db")))) as connection:
        mine = connection.execute(read_sql(question)).fetchall()
    with psycopg.connect(data.write(postgres)) as server:
        theirs = server.execute(read_sql(question).encode()).fetchall()
    assert mine
    assert len(mine) == len(theirs)


def test_the_index_serves_the_question_about_tools(tmp_path: Path) -> None:
    """Without it a million events take seconds; SQLite uses it only for its very expressions."""
    with closing(sqlite3.connect(busy(2).write(str(tmp_path / "segue.db")))) as connection:
        plan = str(connection.execute(f"EXPLAIN QUERY PLAN {read_sql('tools')}").fetchall())
    assert plan.count("orchestrator_events_calls") == 4
