"""The MCP server in a process of its own, with the SDK's client."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.cli.place import DEADLINE, Place, until
from tests.features.mcp.caller import COMMAND, over_stdio

WORK = '[[on]]\nphase = "execute"\nwrite = { "f{task}" = "the work of {task}" }\n'
STUCK = '[[on]]\ntask = "2"\nsay = "I could not do it."\n' + WORK
CHANGING = {"start_run", "stop_run", "decide", "comment"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path)


def decisions(place: Place) -> list[str]:
    """Who decided about tasks."""
    return [event["by"] for event in place.events("task.marked") if event["by"]]


def test_work_is_handed_over_watched_and_proven(place: Place) -> None:
    place.script(WORK)

    async def talk() -> None:
        async with over_stdio(place) as caller:
            (source,) = (await caller.call("list_sources"))["sources"]
            assert (source["source"], source["tasks"], source["done"]) == ("plan.md", 3, 0)
            started = await caller.call("start_run", source=source["source"])
            assert started["state"] == "running"
            ended = await caller.call("wait_for_run", run=started["run"], seconds=DEADLINE)
            assert (ended["state"], ended["counts"]) == ("done", {"done": 3})
            proof = await caller.call("read_proof", run=started["run"])
            assert [task["conclusion"] for task in proof["tasks"]] == ["changed, not verified"] * 3
            told = [done for done, _, _ in caller.progress]
            assert told == sorted(set(told)), "progress grows with every report"
            assert "tasks done" in str(caller.progress[-1][2])

    asyncio.run(talk())
    assert place.subjects() == ["Task 1: Write one.", "Task 2: Write two.", "Task 3: Write three."]


def test_a_person_decides_through_the_agent(place: Place) -> None:
    place.script(STUCK)

    async def talk() -> None:
        async with over_stdio(place) as caller:
            await caller.call("start_run", source="plan.md")
            stuck = await caller.call("wait_for_run", seconds=DEADLINE)
            assert (stuck["state"], stuck["counts"]) == (
                "needs_human",
                {"done": 2, "needs_human": 1},
            )
            assert stuck["tasks"][0]["key"] == "2", "what needs a decision comes first"
            said = await caller.refused("decide", run="last", decision="accept", task="2")
            assert "reason" in said
            accepted = await caller.call(
                "decide", run="last", decision="accept", task="2", reason="The customer agreed."
            )
            assert accepted["counts"] == {"done": 3}
            await caller.call("decide", run="last", decision="resume")
            assert (await caller.call("wait_for_run", seconds=DEADLINE))["state"] == "done"
            card = await caller.call("read_proof", task="2")
            (mark,) = card["marks"]
            assert mark.startswith("accepted by")
            assert mark.endswith("through MCP")
            assert "is already" not in await caller.refused("decide", run="last", decision="resume")

    asyncio.run(talk())
    (by,) = decisions(place)
    assert by.endswith("through MCP"), "whoever reads the proof sees how it was accepted"


def test_a_gate_is_passed_and_a_run_is_stopped(place: Place) -> None:
    place.script(
        WORK.replace("write", "delay = 300\nwrite", 1).replace("[[on]]", '[[on]]\ntask = "2"', 1) + WORK
    )
    place.more_config('gates = ["task"]\n')

    async def talk() -> None:
        async with over_stdio(place) as caller:
            await caller.call("start_run", source="plan.md")
            at_gate = await caller.call("wait_for_run", seconds=DEADLINE)
            assert at_gate["state"] == "needs_human"
            assert "decide" in at_gate["next"]
            await caller.call("decide", run="last", decision="resume")
            until(lambda: place.started("task/2/execute/1"), "the second task begins")
            assert (await caller.call("stop_run", run="last"))["state"] == "stopped"
            assert "not running" in await caller.refused("stop_run", run="last")
            events = (await caller.call("read_log", last=3))["events"]
            assert len(events) == 3
            assert (await caller.call("read_log", after=events[-1]["seq"]))["events"] == []

    asyncio.run(talk())


def test_settings_that_nobody_trusts_start_nothing(place: Place) -> None:
    place.script(WORK)
    place.more_config('checks = [["true"]]\n')
    del place.env["SEGUE_TRUST"]

    async def talk() -> None:
        async with over_stdio(place) as caller:
            said = await caller.refused("start_run", source="plan.md")
            assert "checks" in said
            assert "segue trust" in said
            assert (await caller.call("list_sources"))["sources"], "looking is allowed"

    asyncio.run(talk())
    assert place.subjects() == []


_CLEAN = """
import os, subprocess, sys
env = {k: v for k, v in os.environ.items() if k != "SEGUE_JOB_FOLDER"}
sys.exit(subprocess.run(sys.argv[1:], env=env).returncode)
"""


@pytest.mark.parametrize("command", [COMMAND, (sys.executable, "-c", _CLEAN, *COMMAND)])
def test_an_agent_of_a_run_may_only_look(place: Place, command: tuple[str, ...]) -> None:
    """Also one whose agent gives the programs it starts a clean environment."""
    place.script(STUCK)
    place.segue("run", "plan.md", code=3)
    place.env["SEGUE_JOB_FOLDER"] = "/somewhere"

    async def talk() -> None:
        async with over_stdio(place, command=command) as caller:
            for tool, values in (
                ("start_run", {"source": "plan.md"}),
                ("decide", {"run": "last", "decision": "accept", "task": "2", "reason": "I say so."}),
                ("comment", {"run": "last", "task": "2", "text": "It is fine as it is."}),
                ("stop_run", {"run": "last"}),
            ):
                assert "by an agent of a Segue run" in await caller.refused(tool, **values)
            assert (await caller.call("run_status"))["state"] == "needs_human"

    asyncio.run(talk())
    assert decisions(place) == []


def test_a_server_that_only_answers_questions(place: Place) -> None:
    async def talk() -> None:
        async with over_stdio(place, "--read-only") as caller:
            tools = {tool.name: tool for tool in (await caller.client.list_tools()).tools}
            assert not CHANGING & tools.keys()
            assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools.values())
            assert "start_run" in await caller.refused("start_run", source="plan.md")

    asyncio.run(talk())


def test_the_simulated_agent_marks_no_task_of_a_real_plan_unasked(place: Place) -> None:
    (place.root / "config" / "segue" / "config.toml").unlink()

    async def talk() -> None:
        async with over_stdio(place) as caller:
            said = await caller.refused("start_run", source="plan.md", agent="scripted")
            assert "The scripted agent is simulated" in said
            assert "simulated = true" in said
            assert not place.database.exists()
            await caller.call("start_run", source="plan.md", agent="scripted", simulated=True)
            assert (await caller.call("wait_for_run"))["state"] == "done"

    asyncio.run(talk())


def test_names_of_files_do_not_turn_the_text_around_them(place: Place) -> None:
    name = "pl\u202ean\u200b.md"
    (place.repo / name).write_text("# Plan\n\n## Task 1\nWrite one.\n")
    place.git("add", "-A")
    place.git("commit", "-qm", "more")

    async def talk() -> None:
        async with over_stdio(place) as caller:
            answers = [await caller.call("list_sources"), await caller.call("list_tasks", source=name)]
            for answer in answers:
                assert "\u202e" not in json.dumps(answer, ensure_ascii=False)
                assert "plan.md" in json.dumps(answer, ensure_ascii=False)

    asyncio.run(talk())
