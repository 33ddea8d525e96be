"""Seed 002: one prompt in, a built project and a dataset of what went wrong out.

The document's sections, in order: 1 purpose (gaps, recovery, comparison), 2 balance, 3 how it works (step 1
plan, 2 implement, 3 verify, 4 resolve with its verdicts, 6 replan, 7 log), 4 what gets logged.
"""

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


def test_section_1_knowledge_gaps_count_a_failed_check_as_a_failure(place: Place) -> None:
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
def test_step_4_a_failed_implementer_gets_a_verdict_and_another_try(place: Place, how: str) -> None:
    place.script(TWO + f'[[on]]\nphase = "execute"\ntask = 1\n{how}' + fails(1))
    place.segue("run", GOAL)
    worked = [key for key in keys(place, "1") if "/" in key and not key.startswith("commit")]
    assert worked[:4] == ["execute/1", "check/1", "verify/1", "resolve/1"]
    assert "The attempt failed: " in prompt_of(place, "task/1/verify/1")
    assert tasks(place) == {"1": "done", "2": "done"}
    assert cell(place, "build_phases", "failed", build_phase="schema")["hits"] == 1


def test_step_4_resolution_count_is_five_for_an_implementer_that_always_gives_up(place: Place) -> None:
    script = '[[on]]\nphase = "%s"\ntask = 1\nno_result = true\n'
    verdict = '[[on]]\nphase = "verify"\ntask = 1\n' + FAILED % ("RETRY", "")
    place.script(TWO + script % "execute" + script % "resolve" + verdict)
    place.segue("run", GOAL, code=3)
    assert sum(key.startswith("resolve/") for key in keys(place, "1")) == 5


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A project that was built, with a failure of every kind on the way."""
    place = Place.make(tmp_path_factory.mktemp("built"))
    found = '[[on]]\nphase = "search"\nsay = "See https://docs.example.com/policies."\n'
    place.script(
        plan(step("a", "schema", acceptance=["a works"]), step("b", "frontend"), step("c", "testing"))
        + fails(1, "RETRY")
        + fails(2, "WEB_SEARCH", "row level security")
        + fails(3, "RUN_DIAGNOSTIC", "python3 -m compileall -q .")
        + fails(1, "SKIP", "not needed", task=2)
        + found
    )
    place.more_config('diagnostics.allow = ["python3 -m compileall"]\n')
    place.segue("run", GOAL)
    return place


def test_step_1_the_plan_has_build_phases(built: Place) -> None:
    rows = built.rows("SELECT task, build_phase FROM orchestrator_steps WHERE phase = 'execute' ORDER BY 1")
    assert rows == [("1", "schema"), ("2", "frontend"), ("3", "testing")]


def test_step_2_and_step_3_each_step_is_implemented_and_verified(built: Place) -> None:
    worked = [key for key in keys(built, "3") if key.startswith(("execute", "verify", "resolve"))]
    assert worked == ["execute/1", "verify/1"]


def test_step_4_each_verdict_has_its_action(built: Place) -> None:
    rows = built.rows("SELECT task, action, next_result FROM segue_recoveries ORDER BY seq")
    assert rows == [
        ("1", "RETRY", "FAIL"),
        ("1", "WEB_SEARCH", "FAIL"),
        ("1", "RUN_DIAGNOSTIC", "PASS"),
        ("2", "SKIP", None),
    ]
    assert tasks(built) == {"1": "done", "2": "skipped", "3": "done"}


def test_step_4_findings_and_output_stay_with_the_task(built: Place) -> None:
    last = prompt_of(built, "task/1/resolve/3")
    assert "https://docs.example.com/policies" in last, "what was found for the attempt before"
    assert "$ python3 -m compileall -q ." in last


def test_section_1_recovery_says_what_followed_each_action(built: Place) -> None:
    rows = {row["action"]: row["recovered"] for row in built.json("report", "recovery")["actions"]}
    assert {action: (one["hits"], one["n"]) for action, one in rows.items()} == {
        "RETRY": (0, 1),
        "WEB_SEARCH": (0, 1),
        "RUN_DIAGNOSTIC": (1, 1),
        "MODIFY_PLAN": (0, 0),
    }


def test_section_4_steps_commands_output_tools_verdicts_errors_and_time_are_logged(built: Place) -> None:
    (count,) = built.rows("SELECT count(*) FROM orchestrator_steps WHERE ended >= started")[0]
    assert count > 10
    results = built.rows("SELECT parsed_result->>'result' FROM orchestrator_verdicts ORDER BY seq")
    assert [result for (result,) in results] == ["FAIL", "FAIL", "FAIL", "PASS", "FAIL", "PASS"]
    assert built.rows("SELECT count(*) FROM segue_commands WHERE origin = 'diagnostic'") == [(1,)]
    assert built.rows("SELECT count(*) FROM orchestrator_events WHERE type = 'agent.ended'") > [(5,)]


def test_step_4_web_search_findings_stay_with_the_task_until_it_ends(place: Place) -> None:
    found = '[[on]]\nphase = "search"\nsay = "See https://docs.example.com/policies."\n'
    place.script(TWO + fails(1, "WEB_SEARCH", "row level security") + fails(2) + found)
    place.segue("run", GOAL)
    for attempt in (1, 2):
        assert "https://docs.example.com/policies" in prompt_of(place, f"task/1/resolve/{attempt}")


def test_step_6_skipped_is_told_apart_from_done_when_the_rest_is_planned_again(place: Place) -> None:
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


def test_step_3_a_migration_that_supabase_would_skip_fails_the_check(place: Place, rls_server: str) -> None:
    """Zero tables are no success: `001.sql` is not applied, so the app has none."""
    folder = place.repo / "supabase" / "migrations"
    folder.mkdir(parents=True)
    (folder / "001.sql").write_text("create table public.todos (id bigint, user_id uuid);\n")
    place.config(f'rls.database_url = "{rls_server}"\n')
    said = place.segue("check", "rls", code=1)
    assert "ERROR supabase/migrations/001.sql: skipped, as Supabase does" in said.stdout
    assert "Passed" not in said.stdout
