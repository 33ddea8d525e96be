"""`segue replay`, over real runs of the scripted agent."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from segue.sim.llm.app import llm_app
from segue.sim.llm.script import LlmScript
from segue.sim.script import check_script
from segue.system.http.server import start_server
from tests.cli.place import Place
from tests.cli.test_build import GOAL, plan, step

EXISTS, FINAL = "test -f made-1.txt", "grep -q final made-1.txt"
SCRIPT = """
[[on]]
phase = "execute"
write = { "made-{task}.txt" = "a draft of it\\n" }
usage = { input_tokens = 100, output_tokens = 10, cost_usd = 0.5 }

[[on]]
phase = "resolve"
attempt = 1
write = { "made-{task}.txt" = "still a draft\\n" }
usage = { input_tokens = 200, output_tokens = 20, cost_usd = 0.25 }

[[on]]
phase = "resolve"
write = { "made-{task}.txt" = "the final version\\n" }
usage = { input_tokens = 300, output_tokens = 30 }
"""
"""Two fixes are needed until the work is final; the second one does not report its cost."""


def record_checks(place: Place, *more: str, code: int = 0) -> None:
    place.script(SCRIPT)
    place.more_config(f'checks = ["{EXISTS}", "{FINAL}"]\n')
    place.segue("run", "plan.md", "--task", "1", *more, code=code)


def rows(found: dict[str, Any]) -> list[tuple[str, str, str | None, bool]]:
    return [
        (
            row["step"].removeprefix("task/1/"),
            row["recorded"]["decision"],
            row["replayed"] and row["replayed"]["decision"],
            row["reached"],
        )
        for row in found["rows"]
    ]


@contextmanager
def scripted_model(place: Place, rule: dict[str, Any]) -> Iterator[str]:
    place.env["OPENAI_API_KEY"] = "sk-test"
    url, stop = start_server(llm_app(check_script([{"judge": rule}], LlmScript)))
    try:
        yield f"{url}/v1"
    finally:
        stop()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A place with one run, for tests that only look; its last launch has not reported what it cost."""
    found = Place.make(tmp_path_factory.mktemp("replay") / "place")
    record_checks(found)
    with closing(sqlite3.connect(found.database)) as connection, connection:
        connection.execute(
            "update orchestrator_steps set output = json_remove(output, '$.usage.cost_usd')"
            " where key = 'task/1/resolve/2'"
        )
    return found


@pytest.mark.thorough
def test_fewer_checks_would_have_saved_the_fixes(recorded: Place) -> None:
    place = recorded
    before = hashlib.sha256(place.database.read_bytes()).digest()
    found = place.json("replay", "last", "--checks", EXISTS)
    assert rows(found) == [
        ("check/1", "RETRY", "PROCEED", True),
        ("check/2", "RETRY", "PROCEED", False),
        ("check/3", "PROCEED", "PROCEED", False),
    ]
    assert (found["differ"], found["undecided"]) == (1, 0)
    less = found["less"]
    assert (less["launches"], less["tokens"], less["cost_usd"]) == (2, 550, None), "one reports no cost"
    assert found["more_launches"] == 0, "the flow ends with the checks"
    assert place.json("replay", "--checks", "grep *")["differ"] == 0
    assert hashlib.sha256(place.database.read_bytes()).digest() == before, "nothing is written"
    text = place.segue("replay", "last", "--checks", EXISTS).stdout
    assert "3 decisions of 1 run replayed: 1 differ, 0 cannot be decided." in text
    assert "task/1/check/1  RETRY → PROCEED" in text
    assert "2 launches (550 tokens, cost not reported) less; the task would have ended here" in text


@pytest.mark.thorough
def test_another_number_of_fixes(recorded: Place) -> None:
    found = recorded.json("replay", "--policy", "limits.resolutions=1")
    assert rows(found) == [
        ("check/1", "RETRY", "RETRY", True),
        ("check/2", "RETRY", "STOP", True),
        ("check/3", "PROCEED", "PROCEED", False),
    ]
    assert found["less"]["launches"] == 1
    assert recorded.json("replay", "--policy", "limits.resolutions=2")["differ"] == 0


@pytest.mark.thorough
def test_a_task_that_was_given_up_would_have_been_sent_back(place: Place) -> None:
    place.env["SEGUE_LIMITS__RESOLUTIONS"] = "1"
    record_checks(place, code=3)
    found = place.json("replay", "--policy", "limits.resolutions=2")
    assert rows(found)[-1] == ("check/2", "STOP", "RETRY", True)
    assert found["more_launches"] is None, "nobody knows what it would have cost"
    assert found["less"] == {"launches": 0, "tokens": 0, "cost_usd": 0.0, "seconds": 0.0}
    assert (
        "what 1 task would have cost instead is unknown"
        in place.segue("replay", "--policy", "limits.resolutions=2").stdout
    )


@pytest.mark.thorough
def test_another_level_that_is_required(recorded: Place) -> None:
    level = recorded.json("proof")["tasks"][0]["proof"]
    assert recorded.json("replay", "--policy", f"require={level}")["differ"] == 0
    found = recorded.json("replay", "--policy", "require=independent")
    assert rows(found) == [("end", "PROCEED", "STOP", True)]
    assert f"its proof is `{level}`" in found["rows"][0]["replayed"]["reason"]


@pytest.mark.thorough
def test_another_judge_sees_the_recorded_evidence(place: Place) -> None:
    """A model that wants the final version looks at the patches of work that another one let pass."""
    place.script(SCRIPT)
    with scripted_model(place, {"default": True}) as lenient:
        place.more_config(f'judged_by = "llm"\njudge = {{ base_url = "{lenient}" }}\n')
        place.segue("run", "plan.md", "--task", "1")
    for wanted, decision in (("final", "RETRY"), ("a draft", "PROCEED")):
        with scripted_model(place, {"default": wanted}) as strict:
            found = place.json("replay", "--judge", "llm:other", SEGUE_JUDGE__BASE_URL=strict)
        assert rows(found) == [("verify/1", "PROCEED", decision, True)]
    (place.repo / "plan.md").write_text("# Plan\n\n## Task 1\nSomething else.\n")
    with scripted_model(place, {"default": True}) as model:
        found = place.json("replay", "--judge", "llm", SEGUE_JUDGE__BASE_URL=model)
    assert rows(found) == [("verify/1", "PROCEED", None, True)]
    assert "the source has changed" in found["rows"][0]["lacks"]


@pytest.mark.thorough
def test_the_steps_of_a_build_are_judged_again(place: Place) -> None:
    asks = (
        '[[on]]\nphase = "verify"\nattempt = 1\n'
        'verdict = { unmet = "all", action = "RUN_DIAGNOSTIC", request = "pytest --version" }\n'
    )
    place.script(plan(step("a")) + asks + SCRIPT)
    place.segue("run", GOAL)
    same = place.json("replay", "--policy", "limits.resolutions=5")
    assert [row[1] for row in rows(same)] == ["PROCEED", "RUN_DIAGNOSTIC", "PROCEED", "PROCEED"]
    assert same["differ"] == 0
    stopped = place.json("replay", "--policy", "limits.resolutions=0")
    assert rows(stopped)[1] == ("verify/1", "RUN_DIAGNOSTIC", "STOP", True)
    assert stopped["less"]["launches"] == 2, "the fix, and the agent that judged it"
    with scripted_model(place, {"default": "still a draft"}) as model:
        found = place.json("replay", "--judge", "llm", SEGUE_JUDGE__BASE_URL=model)
    assert [row[2] for row in rows(found)] == ["RETRY", "PROCEED"], "each with the patch of its attempt"


@pytest.mark.thorough
def test_the_checks_alone_judge_again_without_a_model(place: Place) -> None:
    place.script(SCRIPT)
    with scripted_model(place, {"default": True}) as model:
        place.more_config(
            f'checks = ["{EXISTS}", "{FINAL}"]\njudged_by = "llm"\njudge = {{ base_url = "{model}" }}\n'
        )
        place.segue("run", "plan.md", "--task", "1")
    found = place.json("replay", "--judge", "checks", "--checks", FINAL)
    assert rows(found)[-1] == ("verify/1", "PROCEED", "PROCEED", True)
    found = place.json("replay", "--checks", EXISTS)
    assert rows(found)[0] == ("check/1", "RETRY", "PROCEED", True)
    assert found["more_launches"] is None, "a judge would have looked at it next"


@pytest.mark.thorough
def test_on_postgres(place: Place, postgres: str) -> None:
    place.env["SEGUE_DATABASE_URL"] = postgres
    record_checks(place)
    count = "SELECT (SELECT count(*) FROM orchestrator_events), (SELECT count(*) FROM orchestrator_steps)"
    with psycopg.connect(postgres, autocommit=True) as connection:
        before = connection.execute(count).fetchone()
        found = place.json("replay", "last", "--checks", EXISTS)
        assert (found["differ"], found["less"]["launches"]) == (1, 2)
        assert connection.execute(count).fetchone() == before


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "nothing to decide differently"),
        (("--checks", "pytest"), f"no such check is recorded (recorded: {EXISTS}, {FINAL})"),
        (("--judge", "checks"), "nobody has judged"),
        (("--judge", "agent"), "replay launches none"),
        (("--judge", "checks:opus"), "only llm takes a model"),
        (("--policy", "jobs=4"), "only limits.resolutions and require"),
        (("--policy", "limits.resolutions=many"), "expected a number"),
        (("--policy", "require=perfect"), "expected changed, checked"),
        (("--policy", "require=tested", "--checks", EXISTS), "cannot be replayed together"),
        (("--agent",), "is recorded"),
        (("--agent", "--judge", "checks"), "decides nothing"),
    ],
)
def test_what_has_no_effect_is_refused(recorded: Place, options: tuple[str, ...], told: str) -> None:
    assert told in recorded.segue("replay", *options, code=2).stderr


@pytest.mark.thorough
def test_a_report_that_is_not_recorded_is_not_guessed(place: Place) -> None:
    place.script(SCRIPT)
    place.more_config(f'checks = ["{EXISTS}"]\n')
    place.segue("run", "plan.md", "--task", "1")
    first = place.last_run()
    place.script(SCRIPT)
    place.more_config(f'checks = ["{EXISTS}", "grep -q draft made-2.txt"]\n')
    place.segue("run", "plan.md", "--task", "2")
    found = place.json("replay", first, "last", "--checks", "grep *")
    assert [row["lacks"] for row in found["rows"]] == ["no report of grep * is recorded", None]
    assert (found["runs"], found["undecided"]) == (2, 1)
