"""The cloud simulator speaks v1: agents, runs, errors, and pushes that are really there."""

from __future__ import annotations

import asyncio
import base64
import re
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from segue.parts.sim.cloud.remote import BranchTaken, Change, Remotes, normalize_url
from tests import loopback
from tests.parts.sim.cloud_desk import REPO, Desk, events, git, open_desk, wait_for

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with open_desk(tmp_path) as made:
        yield made


def refused(answer: httpx2.Response, status: int, code: str) -> str:
    """Check an error in the documented shape; gives its message."""
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["code"] == code
    message: str = error["message"]
    return message


def test_a_launch_becomes_a_commit_on_a_branch_of_its_own(desk: Desk) -> None:
    desk.plays(write={"poem.txt": "Roses\n"}, say="A poem.", times=1)
    made = desk.post("/v1/agents", {"prompt": {"text": "Write a poem!"}, "repos": [{"url": REPO}]}, 201)
    agent, run = made["agent"], made["run"]
    assert re.fullmatch(f"bc-{UUID}", agent["id"])
    assert re.fullmatch(f"run-{UUID}", run["id"])
    assert re.fullmatch(STAMP, agent["createdAt"])
    assert (run["status"], run["agentId"], agent["latestRunId"]) == ("CREATING", agent["id"], run["id"])
    assert "git" not in run
    ended = desk.until(agent["id"], run["id"], "FINISHED")
    assert ended["result"] == "A poem."
    [entry] = ended["git"]["branches"]
    assert entry["repoUrl"] == "github.com/Me/App", "the API gives addresses without a scheme"
    assert re.fullmatch(r"cursor/write-a-poem-[0-9a-f]{4}", entry["branch"])
    assert desk.git("show", f"{entry['branch']}:poem.txt") == "Roses"
    assert desk.git("log", "--format=%s", entry["branch"]).splitlines() == ["Write a poem!", "First"]
    assert desk.git("log", "-1", "--format=%an", entry["branch"]) == "Cursor Agent"
    desk.git("fsck", "--strict")


def test_without_a_script_a_small_file_is_written(desk: Desk) -> None:
    _, run = desk.done("Add a login page")
    branch = run["git"]["branches"][0]["branch"]
    assert desk.git("show", f"{branch}:notes/add-a-login-page-1.md").endswith("Add a login page")


def test_a_follow_up_goes_on_where_the_agent_stopped(desk: Desk) -> None:
    agent, first = desk.done("One")
    second = desk.until(agent, desk.follow(agent, "Two"), "FINISHED")
    assert second["git"] == first["git"]
    assert desk.run(agent, first["id"])["git"] == second["git"]
    branch = second["git"]["branches"][0]["branch"]
    assert desk.git("log", "--format=%s", branch).splitlines() == ["Two", "One", "First"]


def test_git_is_a_snapshot_of_the_agent_on_all_its_runs(desk: Desk) -> None:
    desk.plays(turn=1, faults=["no_branch"])
    agent, first = desk.done("One")
    assert "git" not in first
    second = desk.until(agent, desk.follow(agent), "FINISHED")
    assert desk.run(agent, first["id"])["git"] == second["git"]


def test_the_push_can_be_seen_while_the_run_is_running(desk: Desk) -> None:
    desk.plays(push="early", hold=True)
    agent, run = desk.launch()
    found = wait_for(lambda: desk.run(agent, run), lambda now: "git" in now)
    assert found["status"] == "RUNNING"
    assert desk.git("branch", "--list", found["git"]["branches"][0]["branch"])
    desk.post(f"/_sim/agents/{agent}/release", {})
    desk.until(agent, run, "FINISHED")


@pytest.mark.parametrize("by", ["branch", "sha"])
def test_chaining_starts_from_a_branch_or_a_commit(desk: Desk, by: str) -> None:
    _, run = desk.done("One")
    branch = run["git"]["branches"][0]["branch"]
    ref = branch if by == "branch" else desk.git("rev-parse", branch)
    _, run = desk.done("Two", repos=[{"url": f"{REPO}.git/", "startingRef": ref}])
    second = run["git"]["branches"][0]["branch"]
    assert second != branch
    assert desk.git("log", "--format=%s", second).splitlines() == ["Two", "One", "First"]


def test_work_on_the_current_branch_adds_to_it(desk: Desk) -> None:
    desk.git("branch", "topic", "main")
    repos = [{"url": REPO, "startingRef": "topic"}]
    _, run = desk.done("One", repos=repos, workOnCurrentBranch=True)
    assert run["git"]["branches"] == [{"repoUrl": "github.com/Me/App", "branch": "topic"}]
    desk.done("Two", repos=repos, workOnCurrentBranch=True)
    assert desk.git("log", "--format=%s", "topic").splitlines() == ["Two", "One", "First"]
    _, run = desk.done("Three", workOnCurrentBranch=True)
    assert run["git"]["branches"][0]["branch"] == "main"


def test_a_follow_up_does_not_overrun_what_somebody_else_pushed(desk: Desk, tmp_path: Path) -> None:
    agent, run = desk.done("One")
    branch = run["git"]["branches"][0]["branch"]
    work = tmp_path / "work"
    git(work, "fetch", "--quiet")
    git(work, "checkout", "--quiet", branch)
    git(work, "commit", "--quiet", "--allow-empty", "-m", "Mine")
    git(work, "push", "--quiet", "origin", branch)
    desk.until(agent, desk.follow(agent, "Two"), "FINISHED")
    assert desk.git("log", "--format=%s", branch).splitlines() == ["Two", "Mine", "One", "First"]


def test_nothing_is_pushed_when_nothing_changes(desk: Desk) -> None:
    desk.plays(write={"README.md": "An app\n"})
    _, run = desk.done()
    assert (run["status"], "git" in run) == ("FINISHED", False)
    assert desk.git("branch", "--format=%(refname:short)") == "main"


def test_files_can_be_deleted(desk: Desk) -> None:
    desk.plays(delete=["README.md"])
    _, run = desk.done()
    assert desk.git("ls-tree", run["git"]["branches"][0]["branch"]) == ""


def test_odd_names_and_bytes_arrive_whole(desk: Desk) -> None:
    name = 'dir/a "quoted" ümlaut\\file.txt'
    desk.plays(write={name: "data 5\nfrom nowhere\n\n"})
    _, run = desk.done()
    shown = desk.git("ls-tree", "-r", "-z", "--name-only", run["git"]["branches"][0]["branch"])
    assert name in shown.split("\0")


def test_texts_are_filled_from_the_prompt(desk: Desk) -> None:
    desk.plays(
        prompt=r"Task (?P<key>\d+)", write={"t{key}.txt": "{turn} {launch} {other}\n"}, say="Did {key}"
    )
    _, run = desk.done("Do Task 7 now")
    assert run["result"] == "Did 7"
    assert desk.git("show", f"{run['git']['branches'][0]['branch']}:t7.txt") == "1 1 {other}"


def test_an_empty_repository_gets_its_first_commit(desk: Desk, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", "empty.git")
    desk.post("/_sim/script", {"repos": {"https://github.com/me/empty": str(tmp_path / "empty.git")}})
    _, run = desk.done(repos=[{"url": "https://github.com/me/empty"}])
    branch = run["git"]["branches"][0]["branch"]
    assert git(tmp_path / "empty.git", "rev-list", "--count", branch) == "1"


def test_an_agent_without_a_repository(desk: Desk) -> None:
    agent, run = desk.done(repos=[])
    assert "git" not in run
    assert "repos" not in desk.get(f"/v1/agents/{agent}")


def test_a_pull_request_is_opened_found_and_worked_on(desk: Desk) -> None:
    agent, run = desk.done("One", autoCreatePR=True)
    [entry] = run["git"]["branches"]
    assert entry["prUrl"] == "https://github.com/Me/App/pull/1"
    assert [a["id"] for a in desk.get("/v1/agents", prUrl=entry["prUrl"])["items"]] == [agent]
    assert desk.get("/v1/agents", prUrl="https://github.com/Me/App/pull/9")["items"] == []
    repos = [{"url": REPO, "prUrl": entry["prUrl"], "startingRef": "ignored"}]
    _, run = desk.done("Two", repos=repos, workOnCurrentBranch=True)
    assert run["git"]["branches"][0]["branch"] == entry["branch"]
    assert desk.git("log", "-1", "--format=%s", entry["branch"]) == "Two"


def test_both_schemes_of_authentication(desk: Desk) -> None:
    basic = base64.b64encode(b"crsr_test:").decode()
    with loopback.client(base_url=desk.url) as client:
        assert client.get("/v1/me", headers={"Authorization": f"Basic {basic}"}).status_code == 200
        assert client.get("/v1/me", headers={"Authorization": "Bearer crsr_test"}).status_code == 200
        for header in ("", "Basic !!!", "Bearer", "Digest x", "Basic " + base64.b64encode(b":x").decode()):
            refused(client.get("/v1/me", headers={"Authorization": header}), 401, "unauthorized")
    assert {seen["auth"] for seen in desk.log(path="/v1/me")} == {"Basic", "Bearer", "", "Digest"}
    assert "crsr_test" not in str(desk.log())
    desk.post("/_sim/script", {"keys": ["crsr_other"]})
    refused(desk.http.get("/v1/me"), 401, "api_key_not_found")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "composer-2.5"}, "Expected object, received string"),
        ({"model": {"id": "gpt-1"}}, "unknown model"),
        ({"prompt": {"text": ""}}, "at least 1 character"),
        ({"prompt": {}}, "prompt.text: Required"),
        ({"prompt": "x"}, "Expected object, received string"),
        ({"name": "x" * 101}, "name"),
        ({"repos": [{"url": "github.com/me/app"}]}, "Invalid url"),
        ({"repos": [{"url": "https://github.com/me/other"}]}, "cannot be found"),
        ({"repos": [{"url": REPO, "startingRef": "nope"}]}, "Failed to verify existence of branch"),
        ({"repos": [{"url": REPO, "prUrl": "https://github.com/Me/App/pull/5"}]}, "prUrl"),
        ({"repos": [{"url": REPO}] * 21}, "repos"),
        ({"agentId": "bc-1"}, "agentId"),
        ({"mode": "ask"}, "mode"),
        ({"envVars": {"CURSOR_API_KEY": "x"}}, "CURSOR_API_KEY"),
        ({"envVars": {"A": "x" * 4097}}, "too long"),
        ({"envVars": {"A": "x"}, "agentId": f"bc-{uuid.uuid4()}"}, "envVars"),
        ({"env": {"type": "cloud", "name": "n"}}, "excludes repos"),
        ({"prompt": {"text": "x", "images": [{"url": "u"}] * 6}}, "images"),
        ({"prompt": {"text": "x", "images": [{"data": "eA==", "mimeType": "image/bmp"}]}}, "image/bmp"),
        ({"mcpServers": [{"name": "a"}] * 51}, "mcpServers"),
        ({"customSubagents": [{"name": "a"}] * 21}, "customSubagents"),
    ],
)
def test_what_a_launch_may_not_say(desk: Desk, change: dict[str, Any], words: str) -> None:
    body = {"prompt": {"text": "x"}, "repos": [{"url": REPO}], **change}
    assert words in refused(desk.http.post("/v1/agents", json=body), 400, "validation_error")
    assert desk.get("/v1/agents")["items"] == []


def test_bodies_that_are_missing_or_no_json(desk: Desk) -> None:
    refused(desk.http.post("/v1/agents"), 400, "missing_body")
    refused(desk.http.post("/v1/agents", content=b"{"), 400, "validation_error")


def test_an_unknown_pool_is_refused_in_another_shape(desk: Desk) -> None:
    body = {"prompt": {"text": "x"}, "env": {"type": "pool", "name": "p"}}
    answer = desk.http.post("/v1/agents", json=body)
    assert (answer.status_code, type(answer.json()["error"])) == (400, str)
    desk.post("/_sim/script", {"pools": ["p"]})
    assert desk.post("/v1/agents", body, 201)["agent"]["env"] == {"type": "pool", "name": "p"}


def test_a_replayed_launch_is_a_conflict_and_can_be_adopted(desk: Desk) -> None:
    mine = f"bc-{uuid.uuid4()}"
    agent, run = desk.launch(agentId=mine, model={"id": "composer"})
    assert agent == mine
    body = {"prompt": {"text": "x"}, "agentId": mine}
    assert refused(desk.http.post("/v1/agents", json=body), 409, "agent_id_conflict")
    assert desk.get(f"/v1/agents/{mine}")["latestRunId"] == run
    launched = [seen for seen in desk.log(path="/v1/agents", method="POST") if seen["status"] == 201]
    assert len(launched) == 1


def test_of_launches_at_once_with_one_id_one_succeeds(desk: Desk) -> None:
    body = {"prompt": {"text": "x"}, "repos": [{"url": REPO}], "agentId": f"bc-{uuid.uuid4()}"}
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(desk.http.post("/v1/agents", json=body).status_code))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [201, *[409] * 7]


def test_one_run_at_a_time(desk: Desk) -> None:
    desk.plays(hold=True)
    agent, run = desk.launch()
    body = {"prompt": {"text": "x"}}
    message = refused(desk.http.post(f"/v1/agents/{agent}/runs", json=body), 409, "agent_busy")
    assert message == "Agent already has an active run"
    desk.post(f"/_sim/agents/{agent}/release", {})
    desk.until(agent, run, "FINISHED")
    desk.follow(agent)


def test_a_cancelled_run_has_ended(desk: Desk) -> None:
    desk.plays(hold=True, times=1)
    agent, run = desk.launch()
    assert desk.post(f"/v1/agents/{agent}/runs/{run}/cancel") == {"id": run}
    assert desk.run(agent, run)["status"] == "CANCELLED"
    refused(desk.http.post(f"/v1/agents/{agent}/runs/{run}/cancel"), 409, "run_not_cancellable")
    desk.until(agent, desk.follow(agent), "FINISHED")


def test_an_archived_agent_takes_no_runs_until_it_is_unarchived(desk: Desk) -> None:
    agent, _ = desk.done()
    for _ in range(2):
        assert desk.post(f"/v1/agents/{agent}/archive") == {"id": agent}
    refused(desk.http.post(f"/v1/agents/{agent}/runs", json={"prompt": {"text": "x"}}), 409, "agent_archived")
    assert desk.get("/v1/agents", includeArchived="false")["items"] == []
    assert [item["status"] for item in desk.get("/v1/agents")["items"]] == ["ARCHIVED"]
    desk.post(f"/v1/agents/{agent}/unarchive")
    desk.follow(agent)


def test_a_deleted_agent_is_gone_and_its_id_stays_taken(desk: Desk) -> None:
    desk.plays(hold=True)
    agent, run = desk.launch(agentId=f"bc-{uuid.uuid4()}")
    assert desk.http.delete(f"/v1/agents/{agent}").json() == {"id": agent}
    for path in ("", f"/runs/{run}", "/usage", "/artifacts", "/runs"):
        refused(desk.http.get(f"/v1/agents/{agent}{path}"), 404, "agent_not_found")
    body = {"prompt": {"text": "x"}, "agentId": agent}
    refused(desk.http.post("/v1/agents", json=body), 409, "agent_id_conflict")
    assert desk.get("/_sim/state") == {"agents": 1, "active": 0}


def test_what_is_not_there(desk: Desk) -> None:
    agent, _ = desk.launch()
    refused(desk.http.get(f"/v1/agents/bc-{uuid.uuid4()}"), 404, "agent_not_found")
    refused(desk.http.get(f"/v1/agents/{agent}/runs/run-1"), 404, "run_not_found")
    refused(desk.http.get(f"/v1/agents/{agent}/usage?runId=run-1"), 404, "run_not_found")
    refused(desk.http.get("/v2/agents"), 404, "not_found")
    assert desk.http.put("/v1/agents").status_code == 405


def test_pages_end_without_a_cursor(desk: Desk) -> None:
    made = [desk.launch(repos=[])[0] for _ in range(5)]
    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        page = desk.get("/v1/agents", limit=2, **({"cursor": cursor} if cursor else {}))
        seen += [item["id"] for item in page["items"]]
        cursor, pages = page.get("nextCursor"), pages + 1
    assert "nextCursor" not in page
    assert (seen, pages) == (made[::-1], 3)
    for wrong in ({"limit": 0}, {"limit": 101}, {"limit": "x"}, {"cursor": "nonsense"}):
        refused(desk.http.get("/v1/agents", params=wrong), 400, "validation_error")


def test_items_of_a_list_carry_identity_alone(desk: Desk) -> None:
    desk.launch()
    [item] = desk.get("/v1/agents")["items"]
    assert {"id", "name", "status", "url", "createdAt"} <= set(item)
    assert {"repos", "latestRunId"} & set(item) == set()


def test_runs_are_listed_newest_first(desk: Desk) -> None:
    agent, first = desk.done()
    second = desk.follow(agent)
    page = desk.get(f"/v1/agents/{agent}/runs", limit=1)
    assert [run["id"] for run in page["items"]] == [second]
    rest = desk.get(f"/v1/agents/{agent}/runs", limit=1, cursor=page["nextCursor"])
    assert ([run["id"] for run in rest["items"]], "nextCursor" in rest) == ([first["id"]], False)


def test_usage_is_zero_until_a_run_has_ended(desk: Desk) -> None:
    desk.plays(
        turn=1, usage={"inputTokens": 10, "outputTokens": 5}, cost={"rawCostCents": 2.5, "chargedCents": 2}
    )
    desk.plays(turn=2, hold=True)
    agent, first = desk.done()
    second = desk.follow(agent)
    found = desk.get(f"/v1/agents/{agent}/usage")
    assert found["totalUsage"]["totalTokens"] == 15
    assert found["cost"] == {"rawCostCents": 2.5, "chargedCents": 2}
    by_run = {run["id"]: run for run in found["runs"]}
    assert by_run[first["id"]]["usage"]["inputTokens"] == 10
    assert set(by_run[second]["usage"].values()) == {0}
    assert "cost" not in by_run[second]
    only = desk.get(f"/v1/agents/{agent}/usage", runId=second)
    assert [run["id"] for run in only["runs"]] == [second]


def test_artifacts_come_by_an_address_that_needs_no_key_and_ends(desk: Desk) -> None:
    desk.plays(artifacts={"artifacts/shot.png": "PNG"})
    agent, _ = desk.done()
    [item] = desk.get(f"/v1/agents/{agent}/artifacts")["items"]
    assert (item["path"], item["sizeBytes"]) == ("artifacts/shot.png", 3)
    offered = desk.get(f"/v1/agents/{agent}/artifacts/download", path=item["path"])
    assert offered["url"].startswith(desk.url)
    assert re.fullmatch(STAMP, offered["expiresAt"])
    assert loopback.get(offered["url"]).content == b"PNG"
    refused(desk.http.get(f"/v1/agents/{agent}/artifacts/download"), 400, "validation_error")
    missing = desk.http.get(f"/v1/agents/{agent}/artifacts/download?path=artifacts/x")
    assert missing.status_code == 404
    desk.post("/_sim/script", {"artifact_ttl": 0})
    late = desk.get(f"/v1/agents/{agent}/artifacts/download", path=item["path"])
    assert loopback.get(late["url"]).status_code == 403


def test_me_models_and_repositories(desk: Desk) -> None:
    assert "userEmail" in desk.get("/v1/me")
    assert "composer-2.5" in [model["id"] for model in desk.get("/v1/models")["items"]]
    assert desk.get("/v1/repositories") == {"items": [{"url": "https://github.com/Me/App"}]}
    answer = desk.http.get("/v1/repositories")
    refused(answer, 429, "rate_limit_exceeded")
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    desk.post("/_sim/script", {"service_account": True, "models": ["auto"]})
    assert desk.get("/v1/me").keys() == {"apiKeyName", "createdAt"}
    assert desk.get("/v1/models") == {"items": ["auto"]}


def test_rate_limits_are_told_in_headers(desk: Desk) -> None:
    desk.post("/_sim/script", {"rate_limit": 3})
    answers = [desk.http.get("/v1/me") for _ in range(4)]
    assert [a.status_code for a in answers] == [200, 200, 200, 429]
    assert [a.headers["X-RateLimit-Remaining"] for a in answers] == ["2", "1", "0", "0"]
    assert {a.headers["X-RateLimit-Limit"] for a in answers} == {"3"}
    assert int(answers[3].headers["X-RateLimit-Reset"]) > 0
    assert len({a.headers["x-request-id"] for a in answers}) == 4


def test_a_limit_of_active_agents(desk: Desk) -> None:
    desk.post("/_sim/script", {"active_limit": 1, "on": [{"hold": True}]})
    desk.launch(repos=[])
    refused(desk.http.post("/v1/agents", json={"prompt": {"text": "x"}}), 429, "rate_limit_exceeded")
    assert desk.get("/_sim/state")["agents"] == 1


def test_what_the_sdk_sends_besides_is_accepted(desk: Desk) -> None:
    assert "accessToken" in desk.post("/auth/exchange_user_api_key", {})
    answer = desk.http.post("/aiserver.v1.DashboardService/GetUserPrivacyMode", content=b"")
    assert (answer.status_code, answer.content) == (200, b"")
    assert desk.post("/aiserver.v1.AnalyticsService/TrackEvents", {"events": []}) == {}


def test_web_pages_have_no_business_here(desk: Desk) -> None:
    assert desk.http.get("/v1/me", headers={"Host": "evil.example"}).status_code == 403
    form = desk.http.post("/_sim/script", content=b"{}", headers={"Content-Type": "text/plain"})
    assert form.status_code == 403


def test_a_script_that_is_wrong_is_refused_and_changes_nothing(desk: Desk) -> None:
    for path, body in (
        ("script", {"onn": []}),
        ("on", [{"faults": ["fire"]}]),
        ("on", [{"prompt": "("}]),
        ("faults", [{"fault": "fire"}]),
    ):
        answer = desk.http.post(f"/_sim/{path}", json=body)
        assert (answer.status_code, list(answer.json())) == (400, ["error"])
    _, run = desk.done()
    assert run["status"] == "FINISHED"


def test_entries_are_used_up(desk: Desk) -> None:
    desk.post("/_sim/script", {"on": [{"say": "a", "times": 1}, {"launch": 3, "say": "c"}, {"say": "b"}]})
    assert [desk.done(repos=[])[1]["result"] for _ in range(4)] == ["a", "b", "c", "b"]


def test_a_branch_that_an_earlier_simulator_left_is_not_touched(desk: Desk, tmp_path: Path) -> None:
    remotes = Remotes()
    remotes.add(REPO, desk.bare)
    remote = remotes.find(f"{REPO}.git")
    assert remote

    async def push(text: bytes) -> str | None:
        assert remote
        base = await remote.resolve("main")
        return await remote.push("cursor/x-0000", base, Change({"x": text}, [], "X"), new=True)

    first = asyncio.run(push(b"1"))
    with pytest.raises(BranchTaken):
        asyncio.run(push(b"2"))
    assert desk.git("rev-parse", "cursor/x-0000") == first


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/me/app",
        "https://GitHub.com/me/app.git",
        "http://user:token@github.com/me/app/",
        "github.com/me/app",
    ],
)
def test_addresses_are_compared_by_what_they_mean(url: str) -> None:
    assert normalize_url(url) == "github.com/me/app"


def test_a_run_in_plan_mode_never_pushes_and_submits_its_plan(desk: Desk) -> None:
    before = desk.git("for-each-ref")
    desk.plays(say="1. Think", write={"a.txt": "x"}, push="early")
    agent, run = desk.done(mode="plan")
    assert "git" not in run
    assert desk.git("for-each-ref") == before
    raw = desk.http.get(f"/v1/agents/{agent}/runs/{run['id']}/stream").content
    plans = [event.data["args"]["plan"] for event in events(raw) if event.data.get("name") == "create_plan"]
    assert plans == ["1. Think"] * 2
    assert desk.get(f"/v1/agents/{agent}/artifacts")["items"] == []
    follow = desk.follow(agent, "Now do it")
    ended = desk.until(agent, follow, "FINISHED")
    assert ended["git"]["branches"], "the mode is that of one run"


def test_a_run_leaves_an_artifact_unless_its_script_says_otherwise(desk: Desk) -> None:
    agent, _ = desk.done()
    desk.until(agent, desk.follow(agent), "FINISHED")
    listed = desk.get(f"/v1/agents/{agent}/artifacts")["items"]
    assert [item["path"] for item in listed] == ["artifacts/run-1.log", "artifacts/run-2.log"]
    desk.plays(artifacts={})
    assert desk.get(f"/v1/agents/{desk.done()[0]}/artifacts")["items"] == []
