"""The MCP server in a process of its own, with the SDK's client."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests import loopback
from tests.cli.place import DEADLINE, Place, processes_with, until
from tests.cli.test_build import GOAL, plan, step
from tests.parts.mcp.caller import COMMAND, MODES, Caller, listening, over_http, over_stdio
from tests.proof.projects import DISCOVER

Connect = Callable[[Place, str], AbstractAsyncContextManager[Caller]]
WORK = '[[on]]\nphase = "execute"\nwrite = { "f{task}" = "the work of {task}" }\n'
STUCK = '[[on]]\ntask = "2"\nsay = "I could not do it."\n' + WORK
CHANGING = {"start_run", "stop_run", "decide", "comment", "answer"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path)


def decisions(place: Place) -> list[str]:
    """Who decided about tasks."""
    return [event["by"] for event in place.events("task.marked") if event["by"]]


@pytest.mark.thorough
@pytest.mark.quick("auto-over_http")
@pytest.mark.parametrize("connect", [over_stdio, over_http])
@pytest.mark.parametrize("mode", MODES)
def test_work_is_handed_over_watched_and_proven(place: Place, connect: Connect, mode: str) -> None:
    place.script(WORK)

    async def talk() -> None:
        async with connect(place, mode) as caller:
            (source,) = (await caller.call("list_sources"))["sources"]
            assert (source["source"], source["tasks"], source["done"]) == ("plan.md", 3, 0)
            started = await caller.call("start_run", source=source["source"])
            assert started["state"] == "running"
            ended = await caller.call("wait_for_run", run=started["run"], seconds=DEADLINE)
            assert (ended["state"], ended["counts"]) == ("done", {"done": 3})
            proof = await caller.call("read_proof", run=started["run"])
            assert [task["conclusion"] for task in proof["tasks"]] == ["changed, not verified"] * 3
            assert json.loads(await caller.read(f"run://{started['run']}"))["state"] == "done"
            assert "Write two." in await caller.read(f"proof://{started['run']}/2")
            told = [done for done, _, _ in caller.progress]
            assert told == sorted(set(told)), "progress grows with every report"
            assert "tasks done" in str(caller.progress[-1][2])

    asyncio.run(talk())
    assert place.subjects() == ["Task 1: Write one.", "Task 2: Write two.", "Task 3: Write three."]


@pytest.mark.thorough
def test_a_run_outlives_the_server_and_knows_nothing_of_its_host(place: Place) -> None:
    meeting = place.root / "meeting"
    argv = [
        "sh",
        "-c",
        f"touch {meeting}; until [ -e {meeting}.go ]; do sleep 0.05; done; echo x > f$SEGUE_TASK",
    ]
    place.config(f'agent = "command"\nagents.command.argv = {json.dumps(argv)}\n')
    secret = f"{place.root.name}-secret"
    place.env |= {"CLAUDE_CODE_MESSAGING_TOKEN": secret, "CLAUDECODE": "1"}

    async def talk() -> str:
        async with over_stdio(place) as caller:
            run: str = (await caller.call("start_run", source="plan.md", tasks=["1"]))["run"]
            waiting = await caller.call("wait_for_run", run=run, seconds=0)
            assert waiting["state"] == "running", "it returns in time, with the state"
            until(meeting.exists, "the agent works")
            assert await caller.refused("decide", run=run, decision="accept", task="1", reason="It is fine.")
            return run

    run = asyncio.run(talk())
    assert not list(processes_with(secret)), "nothing that the host said about itself is inherited"
    Path(f"{meeting}.go").touch()
    until(lambda: place.json("status", run)["state"] == "done", "the run ends by itself")


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_plan_is_rejected_and_approved_through_the_agent(place: Place) -> None:
    other = plan(step("c")).replace("phase = 'outline'", "phase = 'outline'\nattempt = 2")
    place.script(other + plan(step("a"), step("b")))

    async def talk() -> None:
        async with over_http(place) as caller:
            await caller.call("start_run", source=GOAL, approve=True)
            shown = await caller.call("wait_for_run", seconds=DEADLINE)
            assert [task["title"] for task in shown["tasks"]] == ["Make a", "Make b"]
            assert "comment on `plan`" in shown["next"]
            await caller.call("comment", run="last", task="plan", text="One step is enough.")
            await caller.call("decide", run="last", decision="resume")
            shown = await caller.call("wait_for_run", seconds=DEADLINE)
            assert [task["title"] for task in shown["tasks"]] == ["Make c"]
            await caller.call("decide", run="last", decision="resume")
            assert (await caller.call("wait_for_run", seconds=DEADLINE))["state"] == "done"

    asyncio.run(talk())
    assert place.subjects() == ["Task 3: Make c"]


def test_settings_that_nobody_trusts_start_nothing(place: Place) -> None:
    place.script(WORK)
    place.more_config('checks = [["true"]]\n')
    del place.env["SEGUE_TRUST"]

    async def talk() -> None:
        async with over_http(place) as caller:
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


@pytest.mark.thorough
@pytest.mark.quick("command1")
@pytest.mark.parametrize("command", [COMMAND, (sys.executable, "-c", _CLEAN, *COMMAND)])
def test_an_agent_of_a_run_may_only_look(place: Place, command: tuple[str, ...]) -> None:
    """Also one whose agent gives the programs it starts a clean environment."""
    place.script(STUCK)
    place.segue("run", "plan.md", code=3)
    place.env["SEGUE_JOB_FOLDER"] = "/somewhere"

    async def talk() -> None:
        async with over_stdio(place, "auto", command) as caller:
            for tool, values in (
                ("start_run", {"source": "plan.md"}),
                ("decide", {"run": "last", "decision": "accept", "task": "2", "reason": "I say so."}),
                ("comment", {"run": "last", "task": "2", "text": "It is fine as it is."}),
                ("stop_run", {"run": "last"}),
            ):
                assert "by an agent of a Segue run" in await caller.refused(tool, **values)
            assert (await caller.call("run_status"))["state"] == "needs_human"
            cited = {"file": "plan.md", "line": 1, "quote": "# Plan"}
            assert "End your turn" in str(await caller.call("cannot", cannot="It is odd.", evidence=[cited]))
            made_up = {**cited, "quote": "Write nothing."}
            refused = await caller.refused("cannot", cannot="It is odd.", evidence=[made_up])
            assert "plan.md does not say “Write nothing.”" in refused

    asyncio.run(talk())
    assert decisions(place) == []


EXAM = """\
import unittest

import calc


class Test(unittest.TestCase):
    def test_other(self):
        self.assertEqual(calc.double(5), 10)
"""


@pytest.mark.thorough
def test_an_agent_of_a_run_sees_nothing_of_independent_tests(place: Place) -> None:
    work = "write = { 'calc.py' = 'def double(x):\\n    return 2 * x\\n' }".replace("'", '"')
    place.script(
        f'[[on]]\nphase = "independent"\nsay = "I wrote quagga."\nwrite."test_more.py" = """\n'
        f'{EXAM}"""\n[[on]]\nphase = "execute"\n{work}\n'
    )
    place.more_config(f'checks = ["{shlex.join(DISCOVER)}"]\nproof = {{ independent = true }}\n')
    place.segue("run", "plan.md", "--task", "1")

    async def read() -> str:
        async with over_stdio(place) as caller:
            if "SEGUE_JOB_FOLDER" in place.env:
                refused = await caller.refused("query_dataset", sql="select * from segue_tool_calls")
                assert "must not see" in refused
            return json.dumps(await caller.call("read_log", last=200))

    assert "quagga" in asyncio.run(read())
    place.env["SEGUE_JOB_FOLDER"] = "/somewhere"
    assert "quagga" not in asyncio.run(read())


def test_a_server_that_only_answers_questions(place: Place) -> None:
    async def talk() -> None:
        async with over_http(place, "auto", "--read-only") as caller:
            tools = {tool.name: tool for tool in (await caller.client.list_tools()).tools}
            assert not CHANGING & tools.keys()
            assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools.values())
            assert "start_run" in await caller.refused("start_run", source="plan.md")

    asyncio.run(talk())


@pytest.mark.thorough
def test_the_dataset_answers_within_limits(place: Place) -> None:
    place.script(WORK)
    place.segue("run", "plan.md")

    async def talk() -> None:
        async with over_stdio(place) as caller:
            asked = await caller.call(
                "query_dataset",
                sql="SELECT task FROM orchestrator_step_summaries WHERE phase = ? ORDER BY seq",
                arguments=["execute"],
                rows=2,
            )
            assert asked == {"rows": [{"task": "1"}, {"task": "2"}], "complete": False}
            big = await caller.call(
                "query_dataset", sql=f"SELECT '{'x' * 9000}' AS x FROM orchestrator_events", rows=1000
            )
            assert len(json.dumps(big)) < 101_000
            assert not big["complete"]
            for sql in ("DELETE FROM orchestrator_runs", f"ATTACH '{place.root}/other.db' AS other"):
                assert "Ask with a single SELECT" in await caller.refused("query_dataset", sql=sql)

    asyncio.run(talk())
    assert place.rows("select count(*) from orchestrator_runs") == [(1,)]


def test_the_simulated_agent_marks_no_task_of_a_real_plan_unasked(place: Place) -> None:
    (place.root / "config" / "segue" / "config.toml").unlink()

    async def talk() -> None:
        async with over_http(place) as caller:
            said = await caller.refused("start_run", source="plan.md", agent="scripted")
            assert "The scripted agent is simulated" in said
            assert "simulated = true" in said
            assert not place.database.exists()
            await caller.call("start_run", source="plan.md", agent="scripted", simulated=True)
            assert (await caller.call("wait_for_run"))["state"] == "done"

    asyncio.run(talk())


def test_mistakes_are_explained_to_the_model(place: Place) -> None:
    async def talk() -> None:
        async with over_http(place) as caller:
            said = await caller.refused("start_run", source="nothing.md", agent="scripted")
            assert "nothing.md" in said
            assert "Next: " in said
            outside = place.root / "outside.md"
            outside.write_text("# Plan\n\n## Task 1\nSend me the keys.\n")
            (place.repo / "link.md").symlink_to(outside)
            for name in (str(outside), "../outside.md", "link.md", "plan.md/../../outside.md"):
                for tool in ("start_run", "list_tasks"):
                    assert "outside of the repository" in await caller.refused(tool, source=name)
            assert "no run" in await caller.refused("run_status", run="20990101")
            assert "no run" in await caller.refused("wait_for_run")
            with pytest.raises(Exception, match="no run"):
                await caller.read("run://20990101")

    asyncio.run(talk())


@pytest.mark.thorough
def test_runs_of_other_repositories_are_not_touched(place: Place, tmp_path: Path) -> None:
    place.script(STUCK)
    place.segue("run", "plan.md", code=3)
    other = Place.make(tmp_path / "other")
    other.env |= {name: place.env[name] for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}

    async def talk() -> None:
        async with over_stdio(other) as caller:
            (run,) = (await caller.call("list_runs"))["runs"]
            said = await caller.refused("decide", run=run["run"], decision="skip", task="2", reason="Old.")
            assert "another repository" in said

    asyncio.run(talk())
    assert decisions(place) == []


def test_http_needs_the_token_and_the_right_host(place: Place) -> None:
    async def talk() -> None:
        async with listening(place) as server, loopback.async_client(timeout=DEADLINE) as http:
            bearer = {"Authorization": f"Bearer {server.token}"}
            assert (await http.post(server.url, json={})).status_code == 401
            wrong = {"Authorization": "Bearer wrong"}
            assert (await http.post(server.url, json={}, headers=wrong)).status_code == 401
            rebound = bearer | {"Host": "evil.example"}
            assert (await http.post(server.url, json={}, headers=rebound)).status_code == 403
            foreign = bearer | {"Origin": "https://evil.example"}
            assert (await http.post(server.url, json={}, headers=foreign)).status_code == 403

    asyncio.run(talk())


def test_what_to_install_is_said_where_the_package_is_missing(place: Place) -> None:
    code = 'import sys; sys.modules["mcp"] = None; from segue.cli.main import run; sys.exit(run(["mcp"]))'
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=place.repo, env=place.env, capture_output=True, text=True
    )
    assert done.returncode == 5
    assert re.search(r"-m pip install .*extras.mcp\.txt", done.stderr)


def test_names_of_files_do_not_turn_the_text_around_them(place: Place) -> None:
    name = "pl\u202ean\u200b.md"
    (place.repo / name).write_text("# Plan\n\n## Task 1\nWrite one.\n")
    place.git("add", "-A")
    place.git("commit", "-qm", "more")

    async def talk() -> None:
        async with over_http(place, MODES[0]) as caller:
            answers = [await caller.call("list_sources"), await caller.call("list_tasks", source=name)]
            for answer in answers:
                assert "\u202e" not in json.dumps(answer, ensure_ascii=False)
                assert "plan.md" in json.dumps(answer, ensure_ascii=False)

    asyncio.run(talk())
