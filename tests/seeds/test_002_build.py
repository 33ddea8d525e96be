"""Seed 002: one prompt in, a built project and a dataset of what went wrong out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.place import Place
from tests.cli.test_build import GOAL, TWO, keys, plan, prompt_of, step, tasks

TEST = """import unittest
import shop


class Shop(unittest.TestCase):
    def test_price(self):
        self.assertEqual(shop.price, 3)
"""


def cell(place: Place, table: str, column: str, **where: str) -> Any:
    """Return one cell of the report of gaps."""
    rows = place.json("report", "gaps")[table]
    (row,) = [row for row in rows if all(row[name] == value for name, value in where.items())]
    return row[column]


def test_knowledge_gaps_count_a_failed_check_as_a_failure(place: Place) -> None:
    place.script(
        TWO + '[[on]]\nphase = "execute"\ntask = 1\nwrite = { "shop.py" = "price = 0\\n" }\n'
        '[[on]]\nphase = "resolve"\nwrite = { "shop.py" = "price = 3  # as before\\n" }\n'
    )
    (place.repo / "shop.py").write_text("price = 3\n")
    (place.repo / "test_shop.py").write_text(TEST)
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "Add a check")
    place.more_config('checks = ["python3 -m unittest"]\n')
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


FAILED = 'verdict = { unmet = "all", evidence = "nothing is there", action = "%s", request = "%s" }\n'


def fails(attempt: int, action: str = "RETRY", request: str = "", task: int = 1) -> str:
    """A script entry for a verdict that is not PASS."""
    select = f'[[on]]\nphase = "verify"\ntask = {task}\nattempt = {attempt}\n'
    return select + FAILED % (action, request)


@pytest.mark.parametrize("how", ["exit_code = 1\n", pytest.param("write = {}\n", id="nothing changed")])
def test_resolve_gives_a_failed_implementer_a_verdict_and_another_try(place: Place, how: str) -> None:
    place.script(TWO + f'[[on]]\nphase = "execute"\ntask = 1\n{how}' + fails(1))
    place.segue("run", GOAL)
    worked = [key for key in keys(place, "1") if "/" in key and not key.startswith("commit")]
    assert worked[:4] == ["execute/1", "check/1", "verify/1", "resolve/1"]
    assert "The attempt failed: " in prompt_of(place, "task/1/verify/1")
    assert tasks(place) == {"1": "done", "2": "done"}
    assert cell(place, "build_phases", "failed", build_phase="schema")["hits"] == 1


def test_resolution_count_is_five_for_an_implementer_that_always_gives_up(place: Place) -> None:
    script = '[[on]]\nphase = "%s"\ntask = 1\nno_result = true\n'
    verdict = '[[on]]\nphase = "verify"\ntask = 1\n' + FAILED % ("RETRY", "")
    place.script(TWO + script % "execute" + script % "resolve" + verdict)
    place.segue("run", GOAL, code=3)
    assert sum(key.startswith("resolve/") for key in keys(place, "1")) == 5


def test_web_search_findings_stay_with_the_task_until_it_ends(place: Place) -> None:
    found = '[[on]]\nphase = "search"\nsay = "See https://docs.example.com/policies."\n'
    place.script(TWO + fails(1, "WEB_SEARCH", "row level security") + fails(2) + found)
    place.segue("run", GOAL)
    for attempt in (1, 2):
        assert "https://docs.example.com/policies" in prompt_of(place, f"task/1/resolve/{attempt}")


def test_skip_is_told_apart_from_done_when_the_rest_is_planned_again(place: Place) -> None:
    skip = '[[on]]\nphase = "verify"\ntask = 1\n' + FAILED % ("SKIP", "no policies here")
    caveat = '[[on]]\nphase = "verify"\ntask = 2\nverdict = { caveats = ["another layout"] }\n'
    three = plan(step("a", "schema"), step("b"), step("c"))
    place.script(three + skip + caveat + '[[on]]\nphase = "replan"\nplan = \'{"steps": [{"keep": "3"}]}\'\n')
    done = place.segue("run", GOAL)
    asked = prompt_of(place, "task/2/replan/1")
    finished = asked.split("The steps that are done")[1].split("Steps that are not done")
    assert "Make b" in finished[0]
    assert "Make a" not in finished[0]
    left = "Make a (schema): skipped. skipped: no policies here It left, unverified: notes/task-1.md."
    assert left in finished[1]
    assert "Task 1 was skipped; what it left is not verified, in commit" in done.stderr
    assert "task-1.md" not in prompt_of(place, "task/2/execute/1"), "nobody is told to build on it"
