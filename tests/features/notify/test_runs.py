"""Runs notify people once per event, also across resumes, and never at the cost of the run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.cli.place import Place, until
from tests.features.notify.servers import Hook, webhook

RECORDED = "SELECT id FROM orchestrator_signals WHERE topic = 'notification'"


def configured(place: Place, hook: Hook, script: str, more: str = "") -> None:
    place.script(script)
    text = (place.root / "segue.toml").read_text()
    (place.root / "segue.toml").write_text(f'{text}\n[notify.webhook]\nurl = "{hook.url}"\n{more}')


def sent(hook: Hook) -> list[tuple[str, str]]:
    return [(body["kind"], body["title"]) for body in hook.json()]


def test_a_task_that_needs_a_human_is_reported_once_and_not_again_by_the_run(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    with webhook() as hook:
        configured(place, hook, '[[on]]\nsay = "I claim to be done."\n')
        place.segue("run", "plan.md", "--fail-fast", code=3)
        assert [kind for kind, _ in sent(hook)] == ["needs_human"]
        said = hook.json()[0]
        assert said["title"].startswith("Task 1")
        assert "segue resume" in said["message"]
        place.segue("resume", code=3)
        assert [kind for kind, _ in sent(hook)] == ["needs_human"] * 2


LIMIT = "You've hit your usage limit. Try again in 2 hours."


def start_parked(place: Place, *words: str) -> subprocess.Popen[str]:
    process = place.start(*words)
    until(lambda: place.database.exists(), "the database")
    until(lambda: parked(place), "the run to be parked")
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def test_a_notification_that_a_kill_prevented_is_sent_after_the_resume(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    with webhook() as hook:
        hook.statuses = [503]
        configured(place, hook, f'[[on]]\nlimit = "{LIMIT}"\n', more='\n[notify]\non = ["parked"]\n')
        process = start_parked(place, "run", "plan.md")
        until(lambda: hook.bodies, "the first attempt to send")
        end(process)
        assert not place.rows(RECORDED)
        failed = len(hook.bodies)
        hook.statuses = [200]
        process = start_parked(place, "resume")
        until(lambda: place.rows(RECORDED), "the notification to be recorded")
        end(process)
        assert len(hook.bodies) == failed + 1
        assert len({body["id"] for body in hook.json()}) == 1


def parked(place: Place) -> bool:
    try:
        return str(place.json("status")[0]["state"]) == "parked"
    except (AssertionError, IndexError, json.JSONDecodeError):
        return False


def test_the_command_tries_each_notifier(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    assert "No notifier" in place.segue("notify", "test", code=2).stderr
    with webhook() as hook:
        place.env["SEGUE_NOTIFY__WEBHOOK__URL"] = hook.url
        assert place.json("notify", "test") == [{"notifier": "webhook", "ok": True, "problem": ""}]
        assert sent(hook) == [("test", "this is a test")]
        place.env["SEGUE_NOTIFY__DESKTOP__ENABLED"] = "true"
        place.env["PATH"] = str(tmp_path)
        done = place.segue("notify", "test", code=1)
        assert "notify-send cannot be found" in done.stdout


def test_the_address_of_the_webhook_is_not_stored(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    with webhook() as hook:
        place.script('[[on]]\nwrite = { "f{task}" = "x" }\n')
        place.segue("run", "plan.md", SEGUE_NOTIFY__WEBHOOK__URL=hook.url)
        assert sent(hook) == [("run_finished", f"Run {place.last_run()}: done")]
    assert not [row for row in place.rows("SELECT * FROM orchestrator_runs") if "secret-part" in str(row)]
    assert "secret-part" not in place.segue("config", "list", SEGUE_NOTIFY__WEBHOOK__URL=hook.url).stdout
