"""Chance decides what follows a failed verdict: recorded, repeatable, and only among what is possible."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.cli.place import Place, until
from tests.cli.test_build import GOAL, keys, plan, step
from tests.patience import seeds

FAILS_TWICE = (
    plan(step("a"), step("b"))
    + """
[[on]]
phase = "verify"
task = 1
attempt = 1
verdict = { unmet = "all", evidence = "no email", action = "RUN_DIAGNOSTIC", request = "pytest --version" }

[[on]]
phase = "verify"
task = 1
attempt = 2
verdict = { unmet = "all", action = "RUN_DIAGNOSTIC", request = "rm -rf /" }

[[on]]
phase = "search"
say = "See https://docs.example.com/x."

[[on]]
phase = "replan"
plan = '{"steps": [{"keep": "1"}, {"keep": "2"}]}'
"""
)
ALL = ["RETRY", "WEB_SEARCH", "RUN_DIAGNOSTIC", "MODIFY_PLAN"]


def choices(place: Place) -> list[dict[str, Any]]:
    found = place.rows("select output from orchestrator_steps where phase = 'choice' order by seq")
    return [json.loads(output) for (output,) in found]


@pytest.mark.thorough
@pytest.mark.parametrize("attempt", seeds(3))
def test_chance_chooses_among_what_is_possible_and_what_it_chose_happens(place: Place, attempt: int) -> None:
    """Three runs, as each draws something else."""
    place.script(FAILS_TWICE)
    place.segue("run", GOAL, SEGUE_RESOLVE="random", SEGUE_LIMITS__REPLANS="1")
    first, *more = choices(place)
    assert first["eligible"] == ALL
    assert first["wished"] == "RUN_DIAGNOSTIC"
    ((run,),) = place.rows("select id from orchestrator_runs")
    assert first["seed"] == f"{run}/task/1/choice/1"
    assert first["action"] == random.Random(first["seed"]).choice(ALL)
    step_of = {"RETRY": "resolve", "WEB_SEARCH": "search", "RUN_DIAGNOSTIC": "diagnostic"}
    taken = keys(place, "1")
    after = taken[taken.index("choice/1") + 1]
    assert after.split("/")[0] == step_of.get(first["action"], "replan")
    if first["action"] == "WEB_SEARCH":
        asked = place.events("search")[0]["query"]
        assert "email" in asked
        assert "pytest --version" not in asked
    if first["action"] == "MODIFY_PLAN":  # the task begins again, and chance with it
        assert (more[0]["seed"], more[0]["eligible"]) == (f"{first['seed']}/after/1", ALL[:-1])
    else:
        assert "RUN_DIAGNOSTIC" not in more[0]["eligible"], "what is not allowed cannot be drawn"
    assert place.json("report", "recovery")["randomised_actions"]


@pytest.mark.thorough
def test_a_choice_survives_a_kill(place: Place) -> None:
    place.script(FAILS_TWICE + "\n[[on]]\nphase = 'resolve'\ndelay = 0.3\n")
    process = place.start("run", GOAL, SEGUE_RESOLVE="random")
    until(
        lambda: place.started("task/1/choice/1") and choices(place)[:1] and "action" in choices(place)[0],
        "a choice",
    )
    process.kill()
    process.wait()
    before = choices(place)[0]
    place.segue("resume", "last")
    assert choices(place)[0] == before


def test_where_nothing_can_be_chosen_the_setting_is_an_error(place: Place) -> None:
    place.script("")
    said = place.segue("run", "plan.md", SEGUE_RESOLVE="random", code=2).stderr
    assert "resolve" in said
    assert "only builds that are verified" in said


@pytest.mark.thorough
def test_a_search_that_chance_drew_says_so_and_how_its_query_came_about(place: Place) -> None:
    """A judge who never asks for a search, and so many attempts that chance draws one and a retry as well."""
    place.script(
        plan(step("a"))
        + '[[on]]\nphase = "verify"\nverdict = { unmet = "all", evidence = "todos_select is missing" }\n'
        + '[[on]]\nphase = "resolve"\nwrite = { "made.txt" = "attempt {attempt}\\n" }\n'
        + '[[on]]\nphase = "search"\nsay = "See https://docs.example.com/x."\n'
    )
    limits = {"SEGUE_LIMITS__REPLANS": "0", "SEGUE_LIMITS__RESOLUTIONS": "14"}
    place.segue("run", GOAL, code=3, SEGUE_RESOLVE="random", **limits)
    drawn = [choice["action"] for choice in choices(place)]
    assert set(drawn) == {"RETRY", "WEB_SEARCH"}
    searches = place.events("search")
    assert len(searches) == drawn.count("WEB_SEARCH")
    for search in searches:
        assert (search["drawn"], search["made_from"]) == (True, "the failure")
        assert "todos_select" in search["query"]
    assert place.rows("select distinct by_chance, made_from from segue_searches") == [(1, "the failure")]
