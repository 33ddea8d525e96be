"""Runs tell people: once per event, also across resumes, and never at the cost of the run."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.place import Place, until
from tests.notify.servers import Hook, webhook


def configured(place: Place, hook: Hook, script: str, more: str = "") -> None:
    place.script(script)
    text = (place.root / "segue.toml").read_text()
    (place.root / "segue.toml").write_text(f'{text}\n[notify.webhook]\nurl = "{hook.url}"\n{more}')


def told(hook: Hook) -> list[tuple[str, str]]:
    return [(said["kind"], said["title"]) for said in hook.json()]


def test_a_finished_run_is_told(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    with webhook() as hook:
        configured(place, hook, '[[on]]\nwrite = { "f{task}" = "x" }\n')
        place.segue("run", "plan.md")
        run = place.last_run()
        assert told(hook) == [("run_finished", f"Run {run}: done")]


def test_a_task_that_needs_a_human_is_told_once_and_not_again_by_the_run(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    with webhook() as hook:
        configured(place, hook, '[[on]]\nsay = "I claim to be done."\n')
        place.segue("run", "plan.md", code=3)
        assert [kind for kind, _ in told(hook)] == ["needs_human"]
        said = hook.json()[0]
        assert said["title"].startswith("Task 1")
        assert "segue resume" in said["message"]
        place.segue("resume", code=3)
        assert [kind for kind, _ in told(hook)] == ["needs_human"] * 2


def test_a_run_out_of_budget_needs_a_human(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    with webhook() as hook:
        configured(place, hook, '[[on]]\nwrite = { "f{task}" = "x" }\n')
        place.segue("run", "plan.md", code=3, SEGUE_LIMITS__LAUNCHES="1")
        assert [kind for kind, _ in told(hook)] == ["needs_human"]
        assert "limit" in hook.json()[0]["message"] or "launch" in hook.json()[0]["message"]


def test_a_usage_limit_is_told_once_however_often_the_run_is_resumed(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    with webhook() as hook:
        limit = "You've hit your usage limit. Try again in 2 hours."
        configured(place, hook, f'[[on]]\nlimit = "{limit}"\n', more='\n[notify]\non = ["parked"]\n')
        for words in (["run", "plan.md"], ["resume"], ["resume"]):
            process = place.start(*words)
            until(lambda: place.database.exists(), "the database")
            until(lambda: parked(place), "the run to be parked")
            process.kill()
            process.wait()
        until(lambda: told(hook), "the notice")
        assert len(told(hook)) == 1
        assert told(hook)[0][1].startswith("Usage limit: parked until ")


def parked(place: Place) -> bool:
    try:
        return str(place.json("status")[0]["state"]) == "parked"
    except (AssertionError, IndexError, json.JSONDecodeError):
        return False


def test_a_notifier_that_fails_costs_a_warning_and_nothing_else(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    with webhook() as hook:
        hook.statuses = [404]
        configured(place, hook, '[[on]]\nwrite = { "f{task}" = "x" }\n')
        done = place.segue("run", "plan.md")
        assert "A notice could not be sent. webhook: the server answered 404." in done.stderr
        assert "secret-part" not in done.stdout + done.stderr


def test_the_command_tries_each_notifier(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    assert "No notifier" in place.segue("notify", "test", code=2).stderr
    with webhook() as hook:
        place.env["SEGUE_NOTIFY__WEBHOOK__URL"] = hook.url
        assert place.json("notify", "test") == [{"notifier": "webhook", "ok": True, "problem": ""}]
        assert told(hook) == [("test", "this is a test")]
        place.env["SEGUE_NOTIFY__DESKTOP__ENABLED"] = "true"
        place.env["PATH"] = str(tmp_path)
        done = place.segue("notify", "test", code=1)
        assert "notify-send cannot be found" in done.stdout


def test_the_address_of_the_webhook_is_not_stored(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    with webhook() as hook:
        place.script('[[on]]\nwrite = { "f{task}" = "x" }\n')
        place.segue("run", "plan.md", SEGUE_NOTIFY__WEBHOOK__URL=hook.url)
        assert len(told(hook)) == 1
    assert not [row for row in place.rows("SELECT * FROM orchestrator_runs") if "secret-part" in str(row)]
    assert "secret-part" not in place.segue("config", "show", SEGUE_NOTIFY__WEBHOOK__URL=hook.url).stdout
