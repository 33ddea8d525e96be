"""Everything that can go wrong with the cloud does go wrong in the simulator when it is told so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from segue.parts.sim.cloud.requests import ERROR_KINDS
from segue.parts.sim.cloud.script import RUN_FAULTS
from tests.parts.sim.cloud_desk import REPO, Desk, open_desk, wait_for

CREATE = "POST /v1/agents"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with open_desk(tmp_path) as made:
        yield made


@pytest.mark.parametrize("code", ERROR_KINDS)
def test_every_code_can_be_had(desk: Desk, code: str) -> None:
    desk.breaks(code, "GET /v1/me")
    answer = desk.http.get("/v1/me")
    assert answer.status_code == ERROR_KINDS[code].status
    body = answer.json()
    assert body.get("error", body)["code"] == code
    assert desk.http.get("/v1/me").status_code == 200, "one request was hit, as said"
    assert [(seen["status"], seen["fault"]) for seen in desk.log()] == [(answer.status_code, code), (200, "")]


@pytest.mark.parametrize(
    ("shape", "body"),
    [
        ("nested", {"error": {"code": "rate_limit_exceeded", "message": "No"}}),
        ("flat", {"code": "rate_limit_exceeded", "message": "No"}),
        ("text", {"error": "No"}),
        ("overview", {"error": "Too Many Requests", "message": "No"}),
    ],
)
def test_the_four_shapes_of_errors(desk: Desk, shape: str, body: dict[str, Any]) -> None:
    desk.breaks("rate_limit_exceeded", shape=shape, message="No")
    answer = desk.http.get("/v1/me")
    assert (answer.status_code, answer.json()) == (429, body)


def test_a_missing_integration_says_what_to_do(desk: Desk) -> None:
    desk.breaks("integration_not_connected", CREATE)
    error = desk.http.post("/v1/agents", json={"prompt": {"text": "x"}}).json()["error"]
    assert {"code", "message", "helpUrl", "provider"} == set(error)


@pytest.mark.parametrize("value", [None, "2", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_429_with_and_without_retry_after(desk: Desk, value: str | None) -> None:
    desk.breaks("rate_limit_exceeded", retry_after=value)
    assert desk.http.get("/v1/me").headers.get("Retry-After") == value


def test_faults_wait_and_end_by_count(desk: Desk) -> None:
    desk.breaks("internal_error", "GET /v1/agents/*", after=1, times=2)
    agent, _ = desk.launch()
    statuses = [desk.http.get(f"/v1/agents/{agent}").status_code for _ in range(4)]
    assert statuses == [200, 500, 500, 200]
    assert desk.http.get("/v1/agents").status_code == 200


def test_a_fault_without_end(desk: Desk) -> None:
    desk.breaks("plan_required", times=0)
    assert {desk.http.get("/v1/me").status_code for _ in range(3)} == {403}


def test_a_cancel_that_fails_leaves_the_run_running(desk: Desk) -> None:
    desk.plays(hold=True)
    agent, run = desk.launch()
    desk.until(agent, run, "RUNNING")
    desk.breaks("internal", "POST /v1/agents/*/runs/*/cancel", times=2)
    for _ in range(2):
        answer = desk.http.post(f"/v1/agents/{agent}/runs/{run}/cancel")
        assert (answer.status_code, answer.json()) == (500, {"code": "internal", "message": "Error"})
    assert desk.run(agent, run)["status"] == "RUNNING"
    desk.post(f"/v1/agents/{agent}/runs/{run}/cancel")


def test_a_gateway_answers_with_html(desk: Desk) -> None:
    desk.breaks("bad_gateway")
    answer = desk.http.get("/v1/me")
    assert (answer.status_code, answer.headers["content-type"][:9]) == (502, "text/html")
    assert answer.text.startswith("<html>")


def test_a_body_that_is_cut(desk: Desk) -> None:
    desk.breaks("not_json")
    answer = desk.http.get("/v1/me")
    assert answer.status_code == 200
    with pytest.raises(ValueError):
        answer.json()


def test_a_slow_answer_is_carried_out_in_the_end(desk: Desk) -> None:
    desk.breaks("slow", CREATE, delay=0.5)
    with pytest.raises(httpx2.ReadTimeout):
        desk.http.post("/v1/agents", json={"prompt": {"text": "x"}}, timeout=0.05)
    wait_for(lambda: desk.get("/v1/agents")["items"], bool)


def test_a_reset_before_anything_was_done(desk: Desk) -> None:
    desk.breaks("reset", CREATE)
    with pytest.raises(httpx2.ReadError):
        desk.launch()
    assert desk.get("/v1/agents")["items"] == []
    assert [seen["status"] for seen in desk.log(path="/v1/agents", method="POST")] == [0]
    desk.done()


def test_a_reset_after_the_agent_was_launched(desk: Desk) -> None:
    desk.breaks("reset_after", CREATE)
    with pytest.raises(httpx2.ReadError):
        desk.launch()
    [item] = desk.get("/v1/agents")["items"]
    latest = desk.get(f"/v1/agents/{item['id']}")["latestRunId"]
    desk.until(item["id"], latest, "FINISHED")


ENDS: dict[str, tuple[str, bool]] = {
    "error": ("ERROR", True),
    "error_bare": ("ERROR", False),
    "expired": ("EXPIRED", False),
    "no_branch": ("FINISHED", False),
    "several_branches": ("FINISHED", True),
    "unnamed_branch": ("FINISHED", True),
    "branch_deleted": ("FINISHED", True),
}
STAYS = {"stuck": "CREATING", "hang": "RUNNING", "unknown_status": "HIBERNATING"}


def test_every_fault_of_runs_is_tried() -> None:
    hooks = {name for name in RUN_FAULTS if name.startswith("webhook_")}
    assert set(RUN_FAULTS) == {*ENDS, *STAYS, *hooks}


@pytest.mark.parametrize("fault", ENDS)
def test_how_runs_end(desk: Desk, fault: str) -> None:
    desk.plays(faults=[fault])
    _, run = desk.done()
    status, pushed = ENDS[fault]
    assert (run["status"], "git" in run) == (status, pushed)
    assert ("error" in run) == (fault == "error")
    assert ("result" in run) == (status == "FINISHED")


@pytest.mark.parametrize("fault", STAYS)
def test_runs_that_never_end_can_be_cancelled(desk: Desk, fault: str) -> None:
    desk.plays(faults=[fault])
    agent, run = desk.launch()
    desk.until(agent, run, STAYS[fault])
    desk.post(f"/v1/agents/{agent}/runs/{run}/cancel")
    assert desk.run(agent, run)["status"] == "CANCELLED"


def test_several_branches_are_both_there(desk: Desk) -> None:
    desk.plays(faults=["several_branches"])
    _, run = desk.done()
    names = [entry["branch"] for entry in run["git"]["branches"]]
    assert len(set(names)) == 2
    assert len({desk.git("rev-parse", name) for name in names}) == 1


def test_a_deleted_branch_is_reported_all_the_same(desk: Desk) -> None:
    desk.plays(faults=["branch_deleted"], times=1)
    agent, run = desk.done()
    branch = run["git"]["branches"][0]["branch"]
    assert desk.git("branch", "--list", branch) == ""
    again = {"prompt": {"text": "x"}, "repos": [{"url": REPO, "startingRef": branch}]}
    assert desk.http.post("/v1/agents", json=again).status_code == 400
    desk.until(agent, desk.follow(agent, "Two"), "FINISHED")
    assert desk.git("log", "-1", "--format=%s", branch) == "Two", "the agent still has its work"


def test_an_error_of_any_shape(desk: Desk) -> None:
    desk.plays(statuses=["CREATING", "RUNNING", "ERROR"], error="out of memory")
    assert desk.done()[1]["error"] == "out of memory"


def test_statuses_in_any_order(desk: Desk) -> None:
    desk.plays(statuses=["CREATING", "PENDING", "RUNNING", "PAUSED"], create_delay=0)
    agent, run = desk.launch()
    desk.until(agent, run, "PAUSED")


def test_a_push_that_git_refuses_ends_in_error(desk: Desk) -> None:
    body = {"prompt": {"text": "x"}, "source": {"repository": REPO}, "target": {"branchName": "bad..name"}}
    agent = desk.post("/v0/agents", body, 201)["id"]
    run = desk.get(f"/v1/agents/{agent}")["latestRunId"]
    assert "simulator failed" in desk.until(agent, run, "ERROR")["error"]["message"]
