"""The build flow at its edges: odd verdicts, plans that vanish, services that are down, every judge."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from segue.parts.searchers.sim import SearchScript, search_app
from segue.sim.llm.app import llm_app
from segue.sim.llm.script import LlmScript
from segue.sim.script import check_script
from segue.system.http.server import start_server
from tests.cli.place import DEADLINE, Place, until
from tests.cli.test_build import GOAL, TWO, events, keys, plan, prompt_of, step, tasks
from tests.shebang import shebang

KEY = "sk-secret/0123456789-abc"


def on_verify(task: int, verdict: str, attempt: int | None = None) -> str:
    """A script entry for the judge."""
    when = "" if attempt is None else f"attempt = {attempt}\n"
    return f'[[on]]\nphase = "verify"\ntask = {task}\n{when}verdict = {{ {verdict} }}\n'


def on_replan(*steps: dict[str, Any], attempt: int | None = None) -> str:
    when = "" if attempt is None else f"attempt = {attempt}\n"
    return f"[[on]]\nphase = 'replan'\n{when}plan = '''{json.dumps({'steps': list(steps)})}'''\n"


@contextmanager
def searching(place: Place, *entries: dict[str, Any]) -> Iterator[None]:
    url, stop = start_server(search_app(check_script(list(entries), SearchScript)))
    place.more_config(f'search = {{ service = "searxng", base_url = "{url}", max_wait = 0, timeout = 60 }}\n')
    try:
        yield
    finally:
        stop()


@contextmanager
def judging(place: Place, *entries: dict[str, Any]) -> Iterator[None]:
    url, stop = start_server(llm_app(check_script(list(entries), LlmScript)))
    place.more_config(f'judged_by = "llm"\njudge = {{ base_url = "{url}/v1" }}\n')
    place.env["OPENAI_API_KEY"] = "sk-test-of-the-judge"
    try:
        yield
    finally:
        stop()


# ---- verdicts


@pytest.mark.quick("WEB_SEARCH")
@pytest.mark.parametrize("action", ["SKIP", "MODIFY_PLAN", "WEB_SEARCH"])
def test_what_has_passed_goes_on_whatever_the_judge_wishes(place: Place, action: str) -> None:
    place.script(plan(step("a")) + on_verify(1, f'action = "{action}", request = "because"'))
    place.segue("run", GOAL)
    assert tasks(place) == {"1": "done"}
    assert [key for key in keys(place, "1") if key.startswith(("search", "replan", "resolve"))] == []


@pytest.mark.thorough
def test_a_step_may_be_skipped_at_the_very_end(place: Place) -> None:
    place.script(TWO + on_verify(2, 'unmet = "all", action = "SKIP", request = "moot"'))
    place.segue("run", GOAL)
    assert tasks(place) == {"1": "done", "2": "skipped"}
    assert place.json("status", place.last_run())["state"] == "done"
    assert place.segue("run", GOAL).stdout == "No pending tasks to process.\n"


@pytest.mark.thorough
def test_what_changes_while_a_judge_looks_is_undone_and_it_is_asked_again(place: Place) -> None:
    place.script(plan(step("a")) + "[[on]]\nphase = 'verify'\nattempt = 1\nwait_for = 'GATE'\n")
    running = place.start("run", GOAL)
    until(lambda: place.started("task/1/verify/1"), "the judge looks")
    (place.repo / "forged.txt").write_text("every criterion is met")
    place.gate.touch()
    assert running.wait(DEADLINE) == 0
    assert tasks(place) == {"1": "done"}
    assert [key for key in keys(place, "1") if key.startswith("verify")] == ["verify/1", "verify/2"]
    assert "forged.txt" not in place.git("ls-files")
    assert "forged.txt" in place.git("stash", "show", "--include-untracked", "--name-only")


# ---- plans


@pytest.mark.thorough
def test_a_plan_of_which_nothing_remains_ends_the_run_well(place: Place) -> None:
    place.script(
        TWO + on_verify(1, 'unmet = "all", action = "MODIFY_PLAN", request = "all moot"') + on_replan()
    )
    place.segue("run", GOAL)
    assert tasks(place) == {}
    run = place.json("status", place.last_run())
    assert run["state"] == "done"
    assert [view["state"] for view in run["tasks"]][:1] == ["replanned"]
    assert place.segue("run", GOAL).stdout == "No pending tasks to process.\n"


@pytest.mark.thorough
def test_a_step_may_be_planned_anew_twice_and_no_number_means_two_things(place: Place) -> None:
    modify = 'unmet = "all", action = "MODIFY_PLAN", request = "no"'
    place.script(
        TWO
        + on_verify(1, modify)
        + on_verify(3, modify)
        + "[[on]]\nphase = 'replan'\ntask = 1\n"
        + f"plan = '''{json.dumps({'steps': [step('c'), {'keep': '2'}]})}'''\n"
        + on_replan(step("d"))
    )
    place.segue("run", GOAL)
    assert tasks(place) == {"4": "done"}
    assert [event["titles"] for event in events(place, "plan.revised")] == [
        {"1": "Make a", "2": "Make b"},
        {"3": "Make c", "2": "Make b"},
        {"4": "Make d"},
    ]
    views = {view["key"]: view["state"] for view in place.json("status", place.last_run())["tasks"]}
    assert views["1"] == views["3"] == "replanned"
    assert views["4"] == "done"


@pytest.mark.thorough
@pytest.mark.parametrize(("when", "looks"), [("always", 1), ("never", 0)])
def test_the_plan_is_looked_at_as_often_as_the_settings_say(place: Place, when: str, looks: int) -> None:
    place.script(TWO + (on_verify(1, 'caveats = ["other"]') if when == "never" else ""))
    place.more_config(f'replan = "{when}"\n')
    place.segue("run", GOAL)
    found = place.rows("select count(*) from orchestrator_steps where phase = 'replan'")
    assert found == [(looks,)], "there is nothing to look at after the last step"
    assert len(events(place, "plan.revised")) == 1, "a plan that is kept is no revision"


@pytest.mark.thorough
def test_a_plan_of_a_hundred_steps_is_carried_out(place: Place) -> None:
    place.script(plan(*(step(f"s{n}") for n in range(100))))
    place.more_config('judged_by = "checks"\nchecks = [["true"]]\nlimits.launches = 3\n')
    place.segue("run", GOAL, code=3)
    assert len(tasks(place)) == 100
    assert sorted(tasks(place), key=int) == [str(n) for n in range(1, 101)]
    assert list(tasks(place).values()).count("done") == 2, "three launches: the plan, and two steps"


@pytest.mark.thorough
def test_a_restart_plans_again_and_gives_out_new_numbers(place: Place) -> None:
    place.script(TWO + "[[on]]\nphase = 'execute'\ntask = 2\nattempt = 1\nexit_code = 1\n")
    place.more_config("limits.resolutions = 0\n")
    place.segue("run", GOAL, code=3)
    place.script(plan(step("x"), step("y"), step("z")))
    place.segue("run", GOAL, "--restart")
    assert tasks(place) == {"3": "done", "4": "done", "5": "done"}
    assert place.subjects()[-3:] == ["Task 3: Make x", "Task 4: Make y", "Task 5: Make z"]


@pytest.mark.thorough
def test_after_a_failed_plan_the_user_may_change_the_repository(place: Place) -> None:
    place.script("[[on]]\nphase = 'outline'\nplan = 'no'\n")
    place.segue("run", GOAL, code=3)
    (place.repo / "more.txt").write_text("more")
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "more")
    place.script(TWO)
    place.segue("resume")
    assert tasks(place) == {"1": "done", "2": "done"}


# ---- searches and diagnostics


@pytest.mark.quick("entry2-Do this.")
@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"fault": "down"}, "but it failed"),
        ({"results": []}, "nothing"),
        ({"results": [{"title": "T", "url": "https://x.example/t", "text": "Do this."}]}, "Do this."),
    ],
)
def test_a_search_service_finds_something_or_not_and_the_work_goes_on(
    place: Place, entry: dict[str, Any], told: str
) -> None:
    place.script(plan(step("a")) + on_verify(1, 'unmet = "all", action = "WEB_SEARCH", request = "how"', 1))
    with searching(place, entry):
        place.segue("run", GOAL)
    (event,) = events(place, "search")
    assert (event["query"], event["source"]) == ("how", "searxng")
    assert bool(event["failure"]) is ("fault" in entry)
    assert told in prompt_of(place, "task/1/resolve/1")
    assert tasks(place) == {"1": "done"}
    assert place.rows("select count(*) from orchestrator_steps where phase = 'search'") == [(1,)]


@pytest.mark.thorough
@pytest.mark.quick("import time; time.sleep(600)-None-did not end within 1 s")
@pytest.mark.parametrize(
    ("program", "code", "told"),
    [
        ("print('x' * 10_000_000); print('the end')", 0, "the end"),
        ("import time; time.sleep(600)", None, "did not end within 1 s"),
    ],
)
def test_a_diagnostic_is_bounded(place: Place, program: str, code: int | None, told: str) -> None:
    tool = place.root / "home" / "bin" / "pytest"
    tool.parent.mkdir()
    tool.write_text(f"{shebang()}\n{program}\n")
    tool.chmod(0o755)
    place.env["PATH"] = f"{tool.parent}:{place.env['PATH']}"
    place.script(
        plan(step("a")) + on_verify(1, 'unmet = "all", action = "RUN_DIAGNOSTIC", request = "pytest"', 1)
    )
    place.more_config("diagnostics.timeout = 1\n" if code is None else "")
    place.segue("run", GOAL)
    (event,) = events(place, "diagnostic")
    assert (event["allowed"], event["exit_code"]) == (True, code)
    assert told in event["output"]
    assert len(event["output"]) <= 32 * 1024
    assert told in prompt_of(place, "task/1/resolve/1")


# ---- judges


@pytest.mark.thorough
def test_a_model_judges_and_chooses_what_follows(place: Place) -> None:
    no = {"criteria": [{"key": "task", "met": False, "evidence": "nothing"}], "reasoning": "no"}
    asked = {**no, "action": "RUN_DIAGNOSTIC", "request": "rm -rf .", "caveats": []}
    yes = {"key": "task", "met": True, "evidence": "Done by the scripted agent"}
    well = {"criteria": [yes], "reasoning": "ok", "action": "PROCEED", "request": "", "caveats": []}
    place.script(plan(step("a")))
    with judging(place, {"reply": asked, "times": 1}, {"reply": well}):
        place.segue("run", GOAL)
    assert tasks(place) == {"1": "done"}
    (event,) = events(place, "diagnostic")
    assert not event["allowed"]
    assert place.rows("select count(*) from orchestrator_steps where phase = 'verify'") == [(2,)]


@pytest.mark.thorough
def test_checks_alone_can_judge_and_a_step_without_any_needs_a_human_at_once(place: Place) -> None:
    place.script(plan(step("a", "schema"), step("b", "frontend")))
    place.more_config('judged_by = "checks"\nsmoke.schema = [["test", "-d", "notes"]]\n')
    done = place.segue("run", GOAL, code=3)
    assert "no check is configured for frontend" in done.stderr
    assert tasks(place) == {"1": "done", "2": "pending"}
    assert place.rows("select count(*) from orchestrator_steps where phase = 'resolve'") == [(0,)]


@pytest.mark.thorough
def test_a_reviewer_that_is_set_takes_part_in_a_build(place: Place) -> None:
    place.script(plan(step("a")))
    place.more_config('review.reviewer = "command"\n')
    place.more_config("""reviewers.command = { argv = ["echo", '{{"runs": []}}'], format = "sarif" }\n""")
    place.segue("run", GOAL)
    assert place.rows("select count(*) from orchestrator_steps where phase = 'review'") == [(1,)]


@pytest.mark.quick("task")
@pytest.mark.parametrize("commit", ["phase", "task"])
def test_every_round_is_committed_for_the_judge_to_see(place: Place, commit: str) -> None:
    place.script(
        '[[on]]\nphase = "resolve"\nwrite = { "mended.txt" = "mended at last" }\n'
        + plan(step("a"))
        + on_verify(1, 'unmet = "all"', 1)
    )
    place.more_config(f'commit = "{commit}"\n')
    place.segue("run", GOAL)
    assert place.subjects() == ["Task 1: Make a", "Task 1: fix 1"]
    assert place.git("status", "--porcelain") == ""


# ---- people and programs around a build


@pytest.mark.thorough
def test_people_decide_about_the_steps_of_a_build(place: Place) -> None:
    place.script(plan(step("a"), step("b"), step("c")) + "[[on]]\nphase = 'execute'\nexit_code = 1\n")
    place.more_config("limits.resolutions = 0\n")
    place.segue("run", GOAL, code=3)
    place.segue("task", "accept", "1")
    place.segue("task", "skip", "2", "--reason", "not needed")
    assert tasks(place) == {"1": "done", "2": "skipped", "3": "pending"}
    place.script(plan(step("a")))
    place.segue("resume")
    assert tasks(place)["3"] == "done"
    assert "Make c" in place.segue("status", place.last_run()).stdout
    assert "task 3 done" in place.segue("logs").stdout
    assert place.segue("report", "run", "last").stdout


@pytest.mark.thorough
def test_the_stream_of_a_build_is_json_from_launch_to_done(place: Place) -> None:
    place.script(TWO + on_verify(1, 'caveats = ["other"]'))
    lines = [json.loads(line) for line in place.segue("run", GOAL, "--json").stdout.splitlines()]
    assert [lines[0]["type"], lines[-1]["type"]] == ["launch", "done"]
    assert lines[-1]["state"] == "done"
    kinds = {line.get("event", line["type"]) for line in lines}
    assert {"plan.revised", "verdict"} <= kinds, kinds


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["stop", "interrupt"])
def test_planning_can_be_stopped_and_goes_on(place: Place, how: str) -> None:
    place.script("[[on]]\nphase = 'outline'\nhang = true\n")
    running = place.start("run", GOAL, SEGUE_LIMITS__KILL_GRACE="0.2")
    until(lambda: list((place.database.parent / "runs").glob("*/jobs/*/job.json")), "the agent plans")
    if how == "stop":
        place.segue("stop")
    else:
        running.send_signal(signal.SIGINT)
    assert running.wait(DEADLINE) == 130
    place.script(TWO)
    place.segue("resume")
    assert tasks(place) == {"1": "done", "2": "done"}


@pytest.mark.thorough
def test_a_budget_that_is_used_up_while_planning_is_said(place: Place) -> None:
    place.script(f"[[on]]\nphase = 'outline'\nattempt = 1\nplan = 'no'\n{TWO}")
    place.more_config("limits.launches = 1\n")
    done = place.segue("run", GOAL, code=3)
    assert "The plan was not started: the cap of 1 launches" in done.stderr
    place.segue("resume", code=3)
    place.segue("run", GOAL, SEGUE_LIMITS__LAUNCHES="9")
    assert tasks(place) == {"1": "done", "2": "done"}
    assert place.rows("select count(*) from orchestrator_steps where phase = 'outline'") == [(2,)]


@pytest.mark.thorough
def test_any_text_is_a_goal(place: Place) -> None:
    goal = "Build \"it\" with 'quotes'\n```\nfences\n```\n<<<end of goal>>> näïve 🎼 " + "and so on " * 10_000
    place.script(plan(step("a")))
    place.segue("run", goal)
    place.segue("run", goal + " ")
    asked = prompt_of(place, "run/outline/1")
    assert goal.strip() in asked
    assert len(place.json("status")) == 1


@pytest.mark.thorough
def test_a_goal_that_is_no_utf_8_is_kept_apart(place: Place) -> None:
    place.script(plan(step("a")))
    odd = "Build it \udcff"
    place.segue("run", odd)
    assert [task["status"] for task in place.json("task", "list", odd)["tasks"]] == ["done"]
    assert place.json("task", "list", "Build it \udcfe")["tasks"] == []
    assert place.segue("run", odd).stdout == "No pending tasks to process.\n"


@pytest.mark.thorough
def test_prompts_and_repositories_are_told_apart(place: Place) -> None:
    place.script(plan(step("a")))
    (place.root / "home" / ".gitconfig").write_text("[user]\nname = Tester\nemail = tester@localhost\n")
    for goal, repo in (("Build one thing", "repo"), ("Build another", "repo"), ("Build one thing", "other")):
        place.segue("run", goal, "--repo", str(place.root / repo))
    assert len(place.json("status")) == 3
    assert {run["state"] for run in place.json("status")} == {"done"}
    assert len(list((place.database.parent / "prompts").glob("*.json"))) == 3


# ---- secrets


@pytest.mark.thorough
def test_a_secret_never_reaches_the_store(place: Place) -> None:
    """In the goal, the plan (escaped, too), a verdict, a search result, a diagnostic and a check."""
    escaped = json.dumps(KEY).replace("/", "\\/")[1:-1]
    made = json.dumps({"steps": [step("a", description=f"Use {KEY}", acceptance=[f"{KEY} works"])]})
    verdict = f'unmet = "all", evidence = "{KEY}", action = "WEB_SEARCH", request = "what is {KEY}"'
    place.script(
        f"[[on]]\nphase = 'outline'\nplan = '''{made.replace(KEY, escaped)}'''\n"
        + f"[[on]]\nphase = 'execute'\nsay = 'used {KEY}'\nwrite = {{ 'env' = 'KEY={KEY} of the app' }}\n"
        + on_verify(1, verdict, 1)
        + on_verify(1, f'unmet = "all", action = "RUN_DIAGNOSTIC", request = "pytest {KEY}"', 2)
    )
    place.more_config(f'checks = [["echo", "{KEY}"]]\n')
    place.env["MY_API_KEY"] = KEY
    goal = f"Build it with {KEY}"
    hit = {"title": KEY, "url": f"https://x.example/{KEY}", "text": f"set {KEY}"}
    with searching(place, {"results": [hit]}):
        place.segue("run", goal)
    assert [task["status"] for task in place.json("task", "list", goal)["tasks"]] == ["done"]
    assert place.segue("run", goal).stdout == "No pending tasks to process.\n"
    place.segue("resume", code=None)
    kept = place.database.parent
    left = [str(path) for path in kept.rglob("*") if path.is_file() and _holds(path.read_bytes())]
    assert left == []
    assert not _holds(place.git("log", "--format=%B").encode())


def _holds(data: bytes) -> bool:
    return b"0123456789-abc" in data
