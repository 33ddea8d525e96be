"""Seed 002: one prompt in, a built project and a dataset of what went wrong out."""

from __future__ import annotations

from typing import Any

from tests.cli.place import Place
from tests.cli.test_build import GOAL, TWO


def cell(place: Place, table: str, column: str, **where: str) -> Any:
    """Return one cell of the report of gaps."""
    rows = place.json("report", "gaps")[table]
    (row,) = [row for row in rows if all(row[name] == value for name, value in where.items())]
    return row[column]


def test_knowledge_gaps_count_a_failed_check_as_a_failure(place: Place) -> None:
    place.script(
        TWO + '[[on]]\nphase = "execute"\ntask = 1\nwrite = { "state.sql" = "row SECURITY OFF" }\n'
        '[[on]]\nphase = "resolve"\nwrite = { "state.sql" = "row security is on and tested" }\n'
    )
    place.more_config("""checks = ["sh -c '! grep -rqs SECURITY.OFF .'"]\n""")
    place.segue("run", GOAL)
    assert cell(place, "build_phases", "failed", build_phase="schema")["hits"] == 1
    assert cell(place, "build_phases", "failed", build_phase="frontend")["hits"] == 0
    assert cell(place, "tasks", "failed", build_phase="schema")["hits"] == 1
    assert cell(place, "first_verdicts", "passed_first", build_phase="schema")["hits"] == 0
    assert place.rows("SELECT task, phase FROM segue_failed_attempts") == [("1", "check")]
    assert place.rows("SELECT task, failed_attempts FROM segue_tasks") == [("1", 1), ("2", 0)]
    verdicts = place.rows("SELECT step, result FROM orchestrator_verdicts ORDER BY seq")
    assert verdicts == [
        ("task/1/check/1", "FAIL"),
        ("task/1/verify/1", "PASS"),
        ("task/2/verify/1", "PASS"),
    ], "a launch that changed something is no verdict"
