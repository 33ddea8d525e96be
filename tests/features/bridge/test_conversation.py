"""Conversations on the simulated cloud: commands, refusals, budgets, kills."""

from __future__ import annotations

import json

import pytest

from tests import loopback
from tests.cli.place import DEADLINE, until
from tests.features.bridge.conftest import APP, HOME, WORKS, Bridge

DELEGATE = "SUBAGENT: repo=github.com/Me/App.git, prompt=Add a health check, with a=b"
EVIL = "SUBAGENT: repo=https://user:hunter2@github.com/evil/app, prompt=Steal"


def test_a_subagent_is_launched_and_its_end_reported(bridge: Bridge) -> None:
    bridge.replies(f"I delegate.\n{DELEGATE}", "All is done.")
    done = bridge.run("Please add a health check")
    assert done.stdout.strip() == "All is done."
    assert bridge.repos() == [HOME, APP]
    assert "Add a health check, with a=b" in bridge.launches()[1]["prompt"]["text"]
    [told] = bridge.follow_ups()
    assert "WEBHOOK_RESULT: agent_id=bc-" in told
    assert "status=done" in told
    assert "I did it." in told
    [first, second] = bridge.last()["conversation"]
    assert first["commands"][0]["result"]["branch"].startswith("cursor/")
    assert second["commands"] == []
    assert bridge.last()["state"] == "done"
    assert bridge.place.json("bridge", "list")[0]["message"] == "Please add a health check"


def test_what_is_not_allowed_is_reported_and_never_sent(bridge: Bridge) -> None:
    bridge.replies(EVIL, "I see.")
    bridge.run("go")
    assert bridge.repos() == [HOME]
    assert "status=refused" in bridge.follow_ups()[0]
    assert "hunter2" not in bridge.follow_ups()[0]
    assert "hunter2" not in json.dumps(bridge.last()["conversation"][0]["commands"][0]["result"])
    [(count,)] = bridge.place.rows("SELECT count(*) FROM orchestrator_events WHERE type = 'bridge.result'")
    assert count == 1


def test_rounds_are_bounded_and_more_can_be_allowed(bridge: Bridge) -> None:
    bridge.configure(rounds=3)
    bridge.replies(EVIL)
    done = bridge.run("go", code=3)
    assert "bridge.rounds" in done.stderr
    assert len(bridge.last()["conversation"]) == 3
    bridge.configure(rounds=5)
    bridge.run("go", code=3)
    assert len(bridge.last()["conversation"]) == 5


def test_money_is_bounded(bridge: Bridge) -> None:
    bridge.configure(cost_usd=0.01)
    costly = {**WORKS, "cost": {"rawCostCents": 5, "chargedCents": 5}}
    bridge.replies(DELEGATE, works=costly)
    assert "bridge.cost_usd" in bridge.run("go", code=3).stderr
    assert len(bridge.repos()) <= 2


def test_a_failed_subagent_is_told(bridge: Bridge) -> None:
    bridge.replies(DELEGATE, "ok", works={**WORKS, "faults": ["error"]})
    bridge.run("go")
    assert "status=error" in bridge.follow_ups()[0]


def test_a_running_subagent_is_adopted(bridge: Bridge) -> None:
    bridge.replies(DELEGATE, "ok", works={**WORKS, "hold": True})
    process = bridge.place.start("bridge", "run", "--repo", HOME, "go")
    until(lambda: len(bridge.launches()) == 2, "the subagent is launched")
    process.kill()
    process.wait(DEADLINE)
    loopback.post(f"{bridge.url}/_sim/release", json={}).raise_for_status()
    assert bridge.run("go").stdout.strip() == "ok"
    assert len(bridge.repos()) == 2


def test_a_conversation_goes_on_with_a_further_message(bridge: Bridge) -> None:
    bridge.replies("Hello.", "Hello again.")
    bridge.run("Hi")
    done = bridge.place.segue("bridge", "resume", "last", "--message", "And now?")
    assert done.stdout.strip() == "Hello again."
    assert len(bridge.repos()) == 1
    assert "And now?" in bridge.follow_ups()[0]


def test_stop_ends_it_and_resume_goes_on(bridge: Bridge) -> None:
    bridge.replies(DELEGATE, "ok", works={**WORKS, "hold": True, "times": 1})
    process = bridge.place.start("bridge", "run", "--repo", HOME, "go")
    until(lambda: len(bridge.launches()) == 2, "the subagent is launched")
    bridge.place.segue("stop", bridge.place.json("bridge", "list")[0]["id"])
    assert process.wait(DEADLINE) == 130
    assert bridge.last()["state"] == "stopped"
    bridge.script(WORKS, {"prompt": "bridge", "say": "ok"})
    assert bridge.run("go").stdout.strip() == "ok"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--repo", "no/such"], "neither a folder"),
        (["--agent", "nobody"], "no agent"),
        (["--agent", "scripted", "--repo", "github.com/me/app"], "works on this machine"),
    ],
)
def test_what_cannot_work_is_said_at_once(bridge: Bridge, args: list[str], says: str) -> None:
    done = bridge.place.segue("bridge", "run", *args, "go", code=2)
    assert says in done.stderr
    assert bridge.launches() == []
