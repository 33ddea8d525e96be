"""The legacy API: no ids of ours, no streams, no usage; launched once all the same."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from segue.agents.cursor_cloud.agent import CursorCloudAgent
from segue.agents.cursor_cloud.api import RunRef
from segue.domain.events import AgentStarted
from segue.domain.job import Job, Mode
from segue.system.process.processes import Processes
from tests.agents.cloud_place import DEADLINE, CloudPlace, Ended
from tests.agents.items import lend

LAUNCH = "POST /v0/agents"
FOLLOW_UP = "POST /v0/agents/*/followup"
STOP = "POST /v0/agents/*/stop"
LOOK = "GET /v0/agents/*"


def run(cloud: CloudPlace, job: Job) -> Ended:
    return cloud.run(job, api_version="v0")


def test_launch_is_watched_to_the_branch_we_have_named(cloud: CloudPlace) -> None:
    cloud.plays(write={"poem.txt": "x\n"}, say="Here is a poem.")
    job = cloud.job(base="main", model="composer-2.5")
    outcome = run(cloud, job).outcome
    assert (outcome.failure, outcome.text, outcome.usage) == (None, "Here is a poem.", None)
    assert outcome.branches == (f"segue/{job.token[:12]}",)
    assert cloud.git("show", f"{outcome.branches[0]}:poem.txt") == "x"
    [request] = cloud.asked(LAUNCH)
    assert request["auth"] == "Basic"
    assert request["body"]["source"]["ref"] == "main"
    assert request["body"]["model"] == "composer-2.5", "v0 wants a string where v1 wants an object"
    assert request["body"]["prompt"]["text"].startswith(job.prompt.text)


def test_what_v0_cannot_do_is_not_promised(cloud: CloudPlace) -> None:
    can = CursorCloudAgent(cloud.options(api_version="v0"), lend(Processes(cloud.folder))).can
    assert (can.plan_mode, can.streams, can.reports_usage, can.reports_cost) == (False,) * 4
    assert (can.edits, can.cloud, can.follow_up) == (True,) * 3
    assert run(cloud, cloud.job(mode=Mode.PLAN)).kind == "not_started"
    assert cloud.asked() == []


@pytest.mark.parametrize("others", [0, 130])
def test_same_token_is_found_again_also_on_a_later_page(cloud: CloudPlace, others: int) -> None:
    job = cloud.job()
    first = run(cloud, job)
    for number in range(others):
        cloud.post("/v1/agents", {"prompt": {"text": f"Number {number}"}}, 201)
    second = run(cloud, job)
    assert second.outcome.session == first.outcome.session
    assert (first.facts["adopted"], second.facts["adopted"]) == (False, True)
    assert cloud.launched == 1 + others


@pytest.mark.parametrize("entry", [{"push": "early"}, {"push": "end"}, {"faults": ["no_branch"]}])
def test_launch_whose_answer_is_lost_is_found_also_before_it_has_pushed(
    cloud: CloudPlace, entry: dict[str, object]
) -> None:
    cloud.plays(delay=0.2, **entry)
    cloud.breaks("reset_after", LAUNCH)
    ended = run(cloud, cloud.job())
    assert ended.outcome.failure is None
    assert ended.facts["adopted"] is True
    assert cloud.launched == len(cloud.asked(LAUNCH)) == 1, "it is never sent twice"


def test_launch_that_nobody_has_seen_is_not_sent_again(cloud: CloudPlace) -> None:
    cloud.breaks("reset", LAUNCH)
    ended = run(cloud, cloud.job())
    assert ended.kind == "outage"
    assert "did not say whether" in ended.message
    assert len(cloud.asked(LAUNCH)) == 1


@pytest.mark.parametrize("lost", [False, True])
def test_follow_up_is_another_turn_and_sent_once(cloud: CloudPlace, lost: bool) -> None:
    cloud.plays(say="Turn {turn}")
    first = run(cloud, cloud.job("One"))
    if lost:
        cloud.breaks("reset_after", FOLLOW_UP)
    job = cloud.job("Two", session=first.outcome.session)
    second, again = run(cloud, job), run(cloud, job)
    assert [e.outcome.text for e in (first, second, again)] == ["Turn 1", "Turn 2", "Turn 2"]
    assert (second.facts["adopted"], again.facts["adopted"]) == (lost, True)
    assert (again.outcome.session or "").endswith("/turn-2")
    assert len(cloud.asked(FOLLOW_UP)) == 1


@pytest.mark.parametrize("how", ["archive", "delete"])
def test_agent_that_takes_no_follow_up_has_a_successor(cloud: CloudPlace, how: str) -> None:
    first = run(cloud, cloud.job("One"))
    agent = RunRef.parse(first.outcome.session or "").agent
    if how == "archive":
        cloud.post(f"/v1/agents/{agent}/archive")
    else:
        cloud.http.delete(f"/v0/agents/{agent}")
    job = cloud.job("Two", session=first.outcome.session, base="main")
    second = run(cloud, job)
    assert second.outcome.failure is None
    assert second.outcome.branches == (f"segue/{job.token[:12]}",)
    source = cloud.asked(LAUNCH)[1]["body"]["source"]
    assert source["ref"] == (first.outcome.branches[0] if how == "archive" else "main")


@pytest.mark.parametrize(("name", "kind"), [("error", "crash"), ("expired", "timeout"), ("no_branch", None)])
def test_run_that_fails_says_so(cloud: CloudPlace, name: str, kind: str | None) -> None:
    cloud.plays(faults=[name])
    assert run(cloud, cloud.job()).kind == kind


@pytest.mark.parametrize("word", ["FINISHED", "STOPPED"])
def test_deadline_stops_whatever_word_comes_after_it(cloud: CloudPlace, word: str) -> None:
    cloud.post("/_sim/script", {"stopped_status": word, "on": [{"faults": ["hang"]}]})
    job = cloud.job(wall=2.0)
    assert run(cloud, job).kind == "timeout"
    assert len(cloud.asked(STOP)) == 1
    assert run(cloud, job).kind == "timeout", "who resumes is told the same, not that it was a success"


def test_closing_stops(cloud: CloudPlace) -> None:
    cloud.plays(hold=True)
    job = cloud.job()

    async def close() -> None:
        async with cloud.agent(api_version="v0") as agent, aclosing(agent.run(job)) as events:
            async with asyncio.timeout(DEADLINE):
                assert isinstance(await anext(events), AgentStarted)

    asyncio.run(close())
    assert len(cloud.asked(STOP)) == 1
    assert run(cloud, job).kind == "interrupted"
    assert cloud.launched == 1


@pytest.mark.parametrize("name", ["bad_gateway", "reset", "not_json", "rate_limit_exceeded"])
def test_looks_that_fail_are_repeated(cloud: CloudPlace, name: str) -> None:
    cloud.breaks(name, LOOK, times=2)
    assert run(cloud, cloud.job()).outcome.failure is None
