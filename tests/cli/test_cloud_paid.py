"""A cloud agent that was started is paid for: no odd answer of its API makes Segue start another one."""

from __future__ import annotations

from typing import Any

import pytest

from tests import loopback
from tests.cli.cloud_place import Cloud
from tests.cli.place import until

RUN = ("run", "specs/001-greeting", "--task", "T001")
LOOK = "GET /v1/agents/*/runs/*"


def breaks(cloud: Cloud, fault: str, on: str = LOOK, **more: Any) -> None:
    faults = [{"fault": fault, "on": on, **more}]
    loopback.post(f"{cloud.url}/_sim/faults", json=faults).raise_for_status()


def heal(cloud: Cloud) -> None:
    loopback.post(f"{cloud.url}/_sim/script", json={"on": [], "faults": []}).raise_for_status()


def without_streams(cloud: Cloud) -> None:
    cloud.place.more_config("agents.cursor-cloud.stream = false\n")


@pytest.mark.quick("unauthorized")
@pytest.mark.parametrize(
    "fault",
    [
        "unauthorized",
        "plan_required",
        "run_not_found",
        "bad_gateway",
        "reset",
        "not_json",
        "rate_limit_exceeded",
    ],
)
def test_one_odd_answer_abandons_nobody(cloud: Cloud, fault: str) -> None:
    without_streams(cloud)
    breaks(cloud, fault, times=2)
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
    loopback.post(f"{cloud.url}/_sim/release", json={}).raise_for_status()
    cloud.place.segue("resume")
    assert len({launch["body"]["agentId"] for launch in cloud.launches()}) == 1
    assert [one["state"] for one in cloud.place.json("status", "last")["tasks"]] == ["done"]


@pytest.mark.thorough
def test_one_that_vanished_is_named_before_another_is_started(cloud: Cloud) -> None:
    without_streams(cloud)
    breaks(cloud, "agent_not_found", times=0)
    said = cloud.place.segue(*RUN, code=3).stderr
    assert "the cloud agent or its run is gone" in said
    assert len(cloud.launches()) == 1
    heal(cloud)
    cloud.place.segue("resume")
    assert len({launch["body"]["agentId"] for launch in cloud.launches()}) == 2


@pytest.mark.thorough
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
    loopback.post(f"{cloud.url}/_sim/release", json={}).raise_for_status()
    cloud.place.segue("resume")
    assert len({launch["body"]["agentId"] for launch in cloud.launches()}) == 1
