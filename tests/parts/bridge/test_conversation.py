"""Conversations on the simulated cloud: commands, refusals, budgets, kills."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from segue.system.http.server import start_server
from tests import loopback
from tests.cli.place import DEADLINE, until
from tests.parts.bridge.conftest import APP, HOME, WORKS, Bridge

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


@pytest.mark.thorough
def test_no_more_subagents_than_allowed_work_at_once(bridge: Bridge) -> None:
    """The service accepts one run at a time and would refuse a second."""
    bridge.configure(concurrency=1)
    many = "\n".join(f"SUBAGENT: repo=github.com/me/app, prompt=Task {n}" for n in range(4))
    on = [WORKS, {"prompt": "bridge", "turn": 1, "say": many}, {"prompt": "bridge", "say": "ok"}]
    loopback.post(f"{bridge.url}/_sim/script", json={"on": on, "active_limit": 1}).raise_for_status()
    bridge.run("go")
    assert [c["result"]["status"] for c in bridge.last()["conversation"][0]["commands"]] == ["done"] * 4


def test_prose_triggers_nothing_and_fences_where_they_are_examples(bridge: Bridge) -> None:
    bridge.configure(in_fences=False)
    bridge.replies(f"The protocol is:\n```\n{DELEGATE}\n```\nor `{DELEGATE}`\n  {DELEGATE}")
    bridge.run("explain")
    assert bridge.repos() == [HOME]
    assert bridge.last()["conversation"][0]["skipped"][0]["reason"] == "it is in a code fence"


@pytest.mark.thorough
def test_thousands_of_commands_are_limited(bridge: Bridge) -> None:
    bridge.configure(commands=3)
    many = "\n".join(f"SUBAGENT: repo=github.com/me/app, prompt=Task {n}" for n in range(2_000))
    bridge.replies(many, "ok")
    bridge.run("go")
    assert len(bridge.repos()) == 4
    assert "more lines" in bridge.follow_ups()[0]


@pytest.mark.thorough
def test_rounds_are_bounded_and_more_can_be_allowed(bridge: Bridge) -> None:
    bridge.configure(rounds=3)
    bridge.replies(EVIL)
    done = bridge.run("go", code=3)
    assert "bridge.rounds" in done.stderr
    assert len(bridge.last()["conversation"]) == 3
    bridge.configure(rounds=5)
    bridge.run("go", code=3)
    assert len(bridge.last()["conversation"]) == 5


@pytest.mark.thorough
def test_launches_are_bounded(bridge: Bridge) -> None:
    bridge.configure(launches=3)
    bridge.replies("\n".join(f"SUBAGENT: repo=github.com/me/app, prompt=Task {n}" for n in range(9)))
    done = bridge.run("go", code=3)
    assert "bridge.launches" in done.stderr
    assert len(bridge.repos()) == 3, "the conversation itself and two subagents"
    results = [c["result"]["status"] for c in bridge.last()["conversation"][0]["commands"]]
    assert sorted(results) == ["done"] * 2 + ["refused"] * 7


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


@pytest.mark.thorough
def test_results_come_as_they_are_ready_when_nobody_waits(bridge: Bridge) -> None:
    slow = {"prompt": "Slow task", "hold": True, "say": "slow is done"}
    two = "SUBAGENT: repo=github.com/me/app, prompt=Slow task\nSUBAGENT: repo=github.com/me/app, prompt=Quick"
    bridge.script(slow, WORKS, {"prompt": "bridge", "turn": 1, "say": two}, {"prompt": "bridge", "say": "ok"})
    process = bridge.place.start("bridge", "run", "--repo", HOME, "--no-wait", "go")
    until(bridge.follow_ups, "the quick one is told")
    assert "slow is done" not in bridge.follow_ups()[0]
    loopback.post(f"{bridge.url}/_sim/release", json={}).raise_for_status()
    assert process.wait(DEADLINE) == 0
    assert "slow is done" in bridge.follow_ups()[1]


@pytest.mark.thorough
def test_the_agent_may_ask_for_all_that_was_said(bridge: Bridge) -> None:
    bridge.replies(DELEGATE, "WEBHOOK_RESULT: agent_id=bc-unknown, status=summary", "ok")
    bridge.run("go")
    assert "no such subagent" in bridge.follow_ups()[1]


@pytest.mark.thorough
@pytest.mark.quick("0.0-1")
@pytest.mark.parametrize("asked", [1, 2, 3])
@pytest.mark.parametrize("later", [0.0, 0.2])
def test_kill_9_launches_nothing_twice(bridge: Bridge, asked: int, later: float) -> None:
    works = {**WORKS, "delay": 0.3}
    talks = [{"prompt": "bridge", "turn": 1, "say": f"{DELEGATE}\n{EVIL}", "delay": 0.3}]
    bridge.script(works, *talks, {"prompt": "bridge", "say": "All is done.", "delay": 0.3})
    process = bridge.place.start("bridge", "run", "--repo", HOME, "go")
    until(lambda: len(bridge.requests("/v1/agents")) >= asked, "the service was asked so often")
    killer = threading.Timer(later, process.kill)
    killer.start()
    assert process.wait(DEADLINE) in (0, -signal.SIGKILL)
    killer.cancel()
    for _ in range(2):
        bridge.place.segue("bridge", "resume", "last")
    assert bridge.repos() == [HOME, APP]
    assert len(bridge.follow_ups()) == 1
    assert bridge.last()["state"] == "done"
    assert len(bridge.last()["conversation"]) == 2


@pytest.mark.thorough
@pytest.mark.parametrize("answers", [False, True], ids=["nobody is there", "it never answers"])
def test_kill_9_neither_loses_nor_doubles_the_report_of_a_subagent(bridge: Bridge, answers: bool) -> None:
    """The subagent has ended; its report is under way, or has arrived, when the conversation is killed."""
    seen: list[tuple[str, str]] = []
    arrived = threading.Event()

    async def receive(request: Request) -> JSONResponse:
        seen.append((request.headers["x-webhook-id"], (await request.json())["status"]))
        if answers and not arrived.is_set():
            arrived.set()
            await asyncio.Event().wait()
        return JSONResponse({})

    app = Starlette(routes=[Route("/", receive, methods=["POST"])])
    url, stop = start_server(app)
    if not answers:
        stop()
    bridge.place.env["SEGUE_COMPLETION_SECRET"] = "whsec-of-the-test-and-long-enough-for-v0"
    bridge.configure(completion_url=url)
    bridge.replies(DELEGATE, "ok")
    process = bridge.place.start("bridge", "run", "--repo", HOME, "go")
    started = "SELECT count(*) FROM orchestrator_steps WHERE key LIKE '%/completion'"
    until(lambda: len(bridge.launches()) == 2, "the subagent is launched")
    until(arrived.is_set if answers else lambda: bridge.place.rows(started) == [(1,)], "it is reported")
    process.kill()
    process.wait(DEADLINE)
    if not answers:
        url, stop = start_server(app, port=int(url.rpartition(":")[2]))
    for _ in range(2):
        bridge.place.segue("bridge", "resume", "last")
    stop()
    assert len(seen) == (2 if answers else 1), "again where nobody said that it arrived"
    assert {status for _, status in seen} == {"FINISHED"}
    assert len({name for name, _ in seen}) == 1, "the receiver knows it by its id"
    assert bridge.repos() == [HOME, APP]
    assert bridge.last()["state"] == "done"


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_failing_agent_needs_a_human_and_is_asked_again(bridge: Bridge) -> None:
    bridge.script(
        {"prompt": "bridge", "faults": ["error"], "times": 1}, {"prompt": "bridge", "say": "Better."}
    )
    assert "the agent failed" in bridge.run("go", code=3).stderr
    assert bridge.run("go").stdout.strip() == "Better."


@pytest.mark.thorough
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


def test_wrong_settings_are_named(bridge: Bridge) -> None:
    bridge.configure(allow_repos=["*/app"])
    assert "bridge.allow_repos" in bridge.run("go", code=2).stderr
    bridge.configure(relay_url="http://relay.example:1")
    assert "https" in bridge.run("go", code=2).stderr


def test_init_writes_its_part_and_leaves_the_rest(bridge: Bridge, tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    path.write_bytes(b"# Mine \xff\r\nkeep")
    for written in (True, False):
        assert bridge.place.json("bridge", "init", str(tmp_path))["written"] is written
    whole = path.read_bytes()
    assert whole.startswith(b"# Mine \xff\r\nkeep\n\n<!-- segue bridge: begin -->")
    path.write_bytes(whole.replace(b"LOCAL_ACTION", b"OLD") + b"after")
    assert bridge.place.json("bridge", "init", str(tmp_path))["written"] is True
    assert path.read_bytes() == whole + b"after"
    path.write_bytes(b"<!-- segue bridge: end -->")
    bridge.place.segue("bridge", "init", str(tmp_path), code=2)
