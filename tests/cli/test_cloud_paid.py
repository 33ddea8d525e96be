"""A cloud agent that was started is paid for: no odd answer of its API makes Segue start another one."""

from __future__ import annotations

from typing import Any

from tests import loopback
from tests.cli.cloud_place import Cloud
from tests.cli.place import until
from tests.fakes.cursor_cloud import fault

RUN = ("run", "specs/001-greeting", "--task", "T001")
LOOK = "GET /v1/agents/*/runs/*"


def breaks(cloud: Cloud, name: str, on: str = LOOK, **more: Any) -> None:
    loopback.post(f"{cloud.url}/_sim/faults", json=[fault(name, on, **more)]).raise_for_status()


def heal(cloud: Cloud) -> None:
    """Let nothing go wrong any more, and the agents end."""
    loopback.delete(f"{cloud.url}/_sim/faults").raise_for_status()
    loopback.post(f"{cloud.url}/_sim/release").raise_for_status()


def without_streams(cloud: Cloud) -> None:
    cloud.place.more_config("agents.cursor-cloud.stream = false\n")


def test_one_odd_answer_abandons_nobody(cloud: Cloud) -> None:
    without_streams(cloud)
    breaks(cloud, "unauthorized", times=2)
    cloud.place.segue(*RUN)
    assert len(cloud.launches()) == 1


def test_a_launch_whose_answer_is_cut_is_asked_for_under_the_same_id(cloud: Cloud) -> None:
    breaks(cloud, "not_json", on="POST /v1/agents", times=1)
    cloud.place.segue(*RUN)
    first, second = cloud.launches()
    assert first["body"]["agentId"] == second["body"]["agentId"]


def test_a_key_that_expires_is_replaced_and_the_agent_found_again(cloud: Cloud) -> None:
    without_streams(cloud)
    cloud.script({"hold": True})
    breaks(cloud, "unauthorized", times=0)
    said = cloud.place.segue(*RUN, code=4).stderr
    assert "The cloud agent may still be at work; on resume it is found again." in said
    assert "https://cursor.com/agents" in said

    breaks(cloud, "unauthorized", on="*", times=0)
    again = cloud.place.segue("resume", code=4).stderr
    assert "on resume it is found again" in again
    heal(cloud)
    cloud.place.segue("resume")
    assert len({launch["body"]["agentId"] for launch in cloud.launches()}) == 1
    assert [one["state"] for one in cloud.place.json("status", "last")["tasks"]] == ["done"]


def test_a_service_that_is_away_when_a_killed_run_resumes_costs_no_second_agent(cloud: Cloud) -> None:
    without_streams(cloud)
    cloud.script({"hold": True})
    process = cloud.place.start(*RUN)
    until(cloud.launches, "the agent")
    process.kill()
    process.wait()
    breaks(cloud, "bad_gateway", on="*", times=0)
    said = cloud.place.segue("resume", code=7, SEGUE_LIMITS__PATIENCE="0").stderr
    assert "on resume it is found again" in said
    heal(cloud)
    cloud.place.segue("resume")
    assert len({launch["body"]["agentId"] for launch in cloud.launches()}) == 1
