"""Launches, follow-ups and adoptions whatever breaks, one launch and one answer."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import aclosing

import pytest
from msgspec.structs import replace

from segue.agents.cursor_cloud.api import RunRef, make_agent_id
from segue.domain.events import AgentStarted, AgentTool, AgentUsage
from segue.domain.job import Mode
from tests.agents.cloud_place import DEADLINE, FOLLOW_UP, KEY, LAUNCH, LOOK, REPO, CloudPlace, git, wait_for
from tests.agents.items import outcome


def test_launch_is_watched_to_its_branch(cloud: CloudPlace) -> None:
    tool = {"name": "run_terminal_cmd", "args": {"command": "ls"}, "result": {"stdout": "poem.txt"}}
    cost = {"rawCostCents": 12.5, "chargedCents": 10.0}
    usage = {"inputTokens": 100, "outputTokens": 7, "cacheReadTokens": 50}
    cloud.plays(write={"poem.txt": "x\n"}, say="Here is a poem.", tools=[tool], cost=cost, usage=usage)
    job = cloud.job(base="main", labels={"run": "r1", "task": "1", "phase": "execute", "attempt": "1"})
    ended = cloud.run(job)
    outcome = ended.outcome
    assert outcome.failure is None
    assert outcome.text == ended.said == "Here is a poem."
    [branch] = outcome.branches
    assert cloud.git("show", f"{branch}:poem.txt") == "x"
    assert outcome.usage is not None
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens, outcome.usage.cost_usd) == (150, 7, 0.1)
    [started] = ended.of(AgentStarted)
    assert isinstance(ended.items[0], AgentStarted)
    assert started.agent_id == make_agent_id(job.token)
    assert started.url == f"https://cursor.com/agents/{started.agent_id}"
    assert outcome.session == f"{started.agent_id}/{started.run_id}"
    tools = [(d.name, d.state, d.status) for d in ended.of(AgentTool)]
    assert tools == [("Bash", "started", ""), ("Bash", "completed", "success")]
    assert ended.of(AgentUsage)[0].cost_usd == 0.1
    [request] = cloud.asked(LAUNCH)
    assert request["auth"] == "Bearer"
    assert request["body"]["repos"] == [{"url": REPO, "startingRef": "main"}]
    assert request["body"]["mode"] == "agent"
    assert request["body"]["autoCreatePR"] is False
    assert "workOnCurrentBranch" not in request["body"]
    assert "envVars" not in request["body"]


def test_model_plan_mode_and_pull_requests_are_asked_for(cloud: CloudPlace) -> None:
    plan = {"name": "create_plan", "args": {"plan": "1. Think\n2. Write"}}
    cloud.plays(say="I have made a plan.", tools=[plan], faults=["no_branch"])
    ended = cloud.run(cloud.job(mode=Mode.PLAN, model="composer-2.5"), auto_create_pr=True)
    assert ended.outcome.failure is None
    assert ended.outcome.text == "1. Think\n2. Write"
    assert ended.outcome.branches == ()
    body = cloud.asked(LAUNCH)[0]["body"]
    assert (body["mode"], body["model"], body["autoCreatePR"]) == ("plan", {"id": "composer-2.5"}, True)
    assert "repos" in body
    assert "startingRef" not in body["repos"][0], "without a base it starts from the default branch"


def test_repository_is_that_of_the_workspace(cloud: CloudPlace) -> None:
    work = cloud.folder / "work"
    git(work, "remote", "set-url", "origin", "git@github.com:Me/App.git")
    assert cloud.run(cloud.job(workspace=work), repository=None).outcome.failure is None
    assert cloud.asked(LAUNCH)[0]["body"]["repos"][0]["url"] == REPO
    git(work, "remote", "set-url", "origin", "https://me:hunter2hunter2@github.com/")
    ended = cloud.run(cloud.job(workspace=work), repository=None)
    assert ended.kind == "not_started"
    assert "agents.cursor-cloud.repository" in ended.message
    assert "hunter2" not in str(ended.facts)
    assert cloud.launched == 1


def test_same_token_gives_the_same_outcome_without_a_second_launch(cloud: CloudPlace) -> None:
    job = cloud.job()
    first, second = cloud.run(job), cloud.run(job)
    assert replace(first.outcome, duration=0, facts={}) == replace(second.outcome, duration=0, facts={})
    assert (first.facts["adopted"], second.facts["adopted"]) == (False, True)
    assert cloud.launched == 1


@pytest.mark.parametrize("fault", ["reset_after", "reset", "bad_gateway", "not_json", "internal"])
def test_launch_whose_answer_is_lost_is_found_again(cloud: CloudPlace, fault: str) -> None:
    cloud.breaks(fault, LAUNCH)
    ended = cloud.run(cloud.job())
    if fault in ("not_json", "internal"):
        # An answer that is an error of the server's own, and no agent that shows: nobody launches blindly.
        assert ended.kind == ("outage" if fault == "internal" else "unknown")
        assert "did not say whether" in ended.message
        assert cloud.launched == 0
        return
    assert ended.outcome.failure is None
    assert cloud.launched == 1
    assert ended.facts["adopted"] is (fault == "reset_after")


_LAUNCHER = """
import asyncio, sys
from pathlib import Path
from tests.agents.cloud_place import CloudPlace

async def main(url, folder, token):
    place = CloudPlace(url, Path(folder), None)
    async with place.agent() as agent:
        async for event in agent.run(place.job(token=token)):
            print(event.type, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("when", ["asked", "answered"])
def test_killed_in_the_middle_of_a_launch_there_is_exactly_one_agent(cloud: CloudPlace, when: str) -> None:
    cloud.plays(hold=True)
    if when == "asked":
        cloud.post("/_sim/faults", [{"on": LAUNCH, "delay": 1.0}])
    job = cloud.job()
    child = subprocess.Popen(
        [sys.executable, "-c", _LAUNCHER, cloud.url, str(cloud.folder), job.token],
        env=os.environ | {"CURSOR_API_KEY": KEY},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    if when == "answered":
        assert child.stdout.readline().strip() == "agent.started"
    else:
        wait_for(lambda: cloud.asked(LAUNCH))
    child.send_signal(signal.SIGKILL)
    child.wait(DEADLINE)
    child.stdout.close()

    async def resume() -> None:
        async with cloud.agent() as agent, aclosing(agent.run(job)) as events:
            assert isinstance(await anext(events), AgentStarted)
            await asyncio.to_thread(cloud.post, "/_sim/release")
            rest = [event async for event in events]
        assert outcome(rest).failure is None

    asyncio.run(resume())
    assert cloud.launched == 1
    assert len([seen for seen in cloud.asked(LAUNCH) if seen["status"] == 201]) <= 1


def test_follow_up_goes_on_in_the_same_agent(cloud: CloudPlace) -> None:
    first = cloud.run(cloud.job("One"))
    job = cloud.job("Two", session=first.outcome.session)
    second = cloud.run(job)
    again = cloud.run(job)
    assert second.outcome.failure is None
    assert second.outcome.branches == first.outcome.branches
    assert second.outcome.session != first.outcome.session
    assert again.outcome.session == second.outcome.session, "the run that is there is adopted"
    assert again.facts["adopted"] is True
    [request] = cloud.asked(FOLLOW_UP)
    assert request["headers"]["idempotency-key"] == job.token
    assert cloud.launched == 1


@pytest.mark.parametrize(("fault", "sent"), [("reset_after", 1), ("reset", 2), ("bad_gateway", 2)])
def test_follow_up_whose_answer_is_lost_is_sent_once(cloud: CloudPlace, fault: str, sent: int) -> None:
    first = cloud.run(cloud.job("One"))
    cloud.breaks(fault, FOLLOW_UP)
    second = cloud.run(cloud.job("Two", session=first.outcome.session))
    assert second.outcome.failure is None
    assert len(cloud.asked(FOLLOW_UP)) == sent
    agent = RunRef.parse(first.outcome.session or "").agent
    assert len(cloud.get(f"/v1/agents/{agent}/runs")["items"]) == 2


def test_busy_agent_is_waited_for(cloud: CloudPlace) -> None:
    first = cloud.run(cloud.job("One"))
    cloud.breaks("agent_busy", FOLLOW_UP, times=3)
    second = cloud.run(cloud.job("Two", session=first.outcome.session))
    assert second.outcome.failure is None
    assert len(cloud.asked(FOLLOW_UP)) == 4


def test_archived_agent_has_a_successor_on_its_branch(cloud: CloudPlace) -> None:
    first = cloud.run(cloud.job("One"))
    agent = RunRef.parse(first.outcome.session or "").agent
    cloud.post(f"/v1/agents/{agent}/archive")
    job = cloud.job("Two", session=first.outcome.session)
    second, again = cloud.run(job), cloud.run(job)
    assert second.outcome.failure is None
    assert second.outcome.branches == first.outcome.branches
    assert second.outcome.session == again.outcome.session
    assert cloud.launched == 2
    body = cloud.asked(LAUNCH)[1]["body"]
    assert body["workOnCurrentBranch"] is True
    assert body["repos"][0]["startingRef"] == first.outcome.branches[0]
    log = cloud.git("log", "--format=%s", first.outcome.branches[0])
    assert len(log.splitlines()) == 3


def test_deleted_agent_has_no_successor(cloud: CloudPlace) -> None:
    first = cloud.run(cloud.job("One"))
    agent = RunRef.parse(first.outcome.session or "").agent
    assert cloud.http.delete(f"/v1/agents/{agent}").status_code == 200
    second = cloud.run(cloud.job("Two", session=first.outcome.session))
    assert second.kind == "deleted"
    assert cloud.launched == 1


@pytest.mark.parametrize("session", ["bc-1/turn-1", "nonsense"])
def test_session_of_another_kind_is_not_followed_up(cloud: CloudPlace, session: str) -> None:
    ended = cloud.run(cloud.job(session=session))
    assert ended.outcome.failure is None
    assert cloud.launched == 1


def test_refused_launch_says_why(cloud: CloudPlace) -> None:
    ended = cloud.run(cloud.job(base="no-such-branch"))
    assert ended.kind == "not_started"
    assert "no-such-branch" in ended.message
    assert cloud.run(cloud.job(model="no-such-model")).kind == "not_started"
    assert cloud.asked(LOOK) == []
