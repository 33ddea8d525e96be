"""The GitHub simulator keeps the rules of the API: pages, caching, limits, permissions, faults, webhooks."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from segue.parts.sim.github.script import GithubFault, GithubRepo, GithubScript, GithubToken
from segue.system.http.server import start_server
from tests import loopback
from tests.parts.sim.hub_desk import REPO, HubDesk, open_client, open_desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[HubDesk]:
    with open_desk(tmp_path) as desk:
        yield desk


def ask(client: httpx2.Client, query: str, **variables: Any) -> Any:
    """Ask GraphQL."""
    return client.post("/graphql", json={"query": query, "variables": variables}).json()


def open_pull(desk: HubDesk, **more: Any) -> int:
    """Open a pull request from `feature`."""
    body = {"head": "feature", "base": "main", "title": "T", **more}
    number: int = desk.bot.post(f"{REPO}/pulls", json=body).json()["number"]
    return number


def test_pages_are_linked_by_the_repositorys_id(desk: HubDesk) -> None:
    first = desk.bot.get(f"{REPO}/issues", params={"per_page": 2, "state": "all"})
    assert "/repositories/" in first.links["next"]["url"]
    second = desk.bot.get(first.links["next"]["url"])
    assert [issue["number"] for issue in (*first.json(), *second.json())] == [3, 2, 1]
    assert "next" not in second.links


def test_what_has_not_changed_costs_nothing(desk: HubDesk) -> None:
    first = desk.bot.get(f"{REPO}/issues")
    again = desk.bot.get(f"{REPO}/issues", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["x-ratelimit-used"] == first.headers["x-ratelimit-used"]
    desk.bot.post(f"{REPO}/issues/1/comments", json={"body": "x"})
    changed = desk.bot.get(f"{REPO}/issues", headers={"if-none-match": first.headers["etag"]})
    assert changed.status_code == 200


def test_limits_are_told_and_enforced(tmp_path: Path) -> None:
    with open_desk(tmp_path, GithubScript(rate_limit=2, rate_window=3600)) as desk:
        assert [desk.bot.get("/user").status_code for _ in range(2)] == [200, 200]
        refused = desk.bot.get("/user")
        assert (refused.status_code, refused.headers["x-ratelimit-remaining"]) == (403, "0")
        assert int(refused.headers["x-ratelimit-reset"]) > time.time()
        assert desk.bot.get("/rate_limit").status_code == 200, "asking is free"
        assert desk.alice.get("/user").status_code == 200, "others have their own"


def test_too_many_writes_meet_the_secondary_limit(tmp_path: Path) -> None:
    with open_desk(tmp_path, GithubScript(writes_per_minute=1)) as desk:
        made = [desk.bot.post(f"{REPO}/issues/1/comments", json={"body": "x"}) for _ in range(2)]
        assert [answer.status_code for answer in made] == [201, 403]
        assert "secondary rate limit" in made[1].json()["message"]
        assert int(made[1].headers["retry-after"]) > 0


def test_who_may_not_see_something_is_told_it_does_not_exist(tmp_path: Path) -> None:
    tokens = {
        "reader": GithubToken(login="reader", permissions={"issues": "read"}),
        "stranger": GithubToken(login="stranger", permissions={}),
    }
    repos = {"acme/secret": GithubRepo(private=True)}
    with (
        open_desk(tmp_path, GithubScript(tokens=tokens, repos=repos)) as desk,
        open_client(desk.url, "reader") as reader,
        open_client(desk.url, "stranger") as stranger,
        open_client(desk.url, "nobody") as nobody,
    ):
        assert reader.get(f"{REPO}/issues").status_code == 200
        refused = reader.post(f"{REPO}/issues", json={"title": "x"})
        assert (refused.status_code, refused.headers["x-accepted-github-permissions"]) == (
            403,
            "issues=write",
        )
        assert stranger.get(f"{REPO}/issues").status_code == 404
        assert desk.bot.get("/repos/acme/secret").status_code == 404
        assert nobody.get("/user").status_code == 401
        answer = ask(reader, 'mutation { closeIssue(input: {issueId: "I_1"}) { clientMutationId } }')
        assert answer["errors"][0]["type"] == "NOT_FOUND"


def test_checks_that_a_token_cannot_read_spoil_the_answer(tmp_path: Path) -> None:
    tokens = {"fine": GithubToken(login="fine", permissions={"pull_requests": "write", "actions": "read"})}
    with (
        open_desk(tmp_path, GithubScript(tokens=tokens)) as desk,
        open_client(desk.url, "fine") as fine,
    ):
        number = open_pull(desk)
        rollup = '{repository(owner:"acme",name:"shop"){pullRequest(number:%d){statusCheckRollup{state}}}}'
        assert ask(fine, rollup % number)["errors"][0]["type"] == "FORBIDDEN"
        assert fine.get(f"{REPO}/commits/feature/check-runs").status_code == 404
        assert fine.get(f"{REPO}/actions/runs").status_code == 200


def test_the_newer_version_has_fewer_fields(desk: HubDesk) -> None:
    number = open_pull(desk)
    newer = {"x-github-api-version": "2026-03-10"}
    old, new = (desk.bot.get(f"{REPO}/pulls/{number}", headers=headers).json() for headers in ({}, newer))
    assert set(old) - set(new) == {"merge_commit_sha", "assignee"}
    assert "rate" not in desk.bot.get("/rate_limit", headers=newer).json()
    assert desk.bot.get("/user", headers={"x-github-api-version": "2020-01-01"}).status_code == 400


def test_dependencies_and_sub_issues_go_by_id(desk: HubDesk) -> None:
    first, third = (desk.bot.get(f"{REPO}/issues/{number}").json()["id"] for number in (1, 3))
    assert desk.bot.get(f"{REPO}/issues/2/dependencies/blocked_by").json()[0]["number"] == 1
    added = desk.bot.post(f"{REPO}/issues/2/dependencies/blocked_by", json={"issue_id": third}).json()
    assert added["issue_dependencies_summary"]["total_blocked_by"] == 2
    assert desk.bot.post(f"{REPO}/issues/2/dependencies/blocked_by", json={"issue_id": 3}).status_code == 422
    assert desk.bot.delete(f"{REPO}/issues/2/dependencies/blocked_by/{first}").status_code == 200
    assert desk.bot.get(f"{REPO}/issues/3/dependencies/blocking").json()[0]["number"] == 2
    desk.bot.post(f"{REPO}/issues/1/sub_issues", json={"sub_issue_id": third})
    assert desk.bot.get(f"{REPO}/issues/3/parent").json()["sub_issues_summary"]["total"] == 1
    taken = desk.bot.post(f"{REPO}/issues/2/sub_issues", json={"sub_issue_id": third})
    assert taken.status_code == 422


def test_a_push_moves_a_pull_request_and_a_conflict_shows(desk: HubDesk) -> None:
    number = open_pull(desk)
    desk.bot.get(f"{REPO}/pulls/{number}")
    assert desk.bot.get(f"{REPO}/pulls/{number}").json()["mergeable"] is True
    head = desk.push("feature", "a.txt", "feature\n")
    desk.push("main", "a.txt", "main\n")
    seen = [desk.bot.get(f"{REPO}/pulls/{number}").json() for _ in range(2)]
    assert [one["mergeable"] for one in seen] == [None, False]
    assert (seen[1]["head"]["sha"], seen[1]["mergeable_state"]) == (head, "dirty")
    assert desk.bot.put(f"{REPO}/pulls/{number}/merge", json={}).status_code == 405
    assert desk.bot.put(f"{REPO}/pulls/{number}/merge", json={"sha": "0" * 40}).status_code == 409


def test_drafts_are_made_ready_by_graphql_only(desk: HubDesk) -> None:
    number = open_pull(desk, draft=True)
    assert desk.bot.patch(f"{REPO}/pulls/{number}", json={"draft": False}).json()["draft"] is True
    assert desk.bot.put(f"{REPO}/pulls/{number}/merge", json={}).status_code == 405
    pull = desk.bot.get(f"{REPO}/pulls/{number}").json()["node_id"]
    ready = """mutation($id: ID!) {
        markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } } }"""
    answer = ask(desk.bot, ready, id=pull)
    assert answer["data"]["markPullRequestReadyForReview"]["pullRequest"] == {"isDraft": False}


def test_threads_are_resolved_by_graphql_only(desk: HubDesk) -> None:
    number = open_pull(desk)
    comment = {"body": "Rename", "path": "b.txt", "line": 1}
    desk.alice.post(
        f"{REPO}/pulls/{number}/reviews", json={"event": "REQUEST_CHANGES", "comments": [comment]}
    )
    threads = """query($n: Int!) { repository(owner: "acme", name: "shop") { pullRequest(number: $n) {
        reviewThreads(first: 10) { nodes { id isResolved isOutdated path line
            comments(first: 5) { nodes { databaseId author { login } body } } } } } } }"""
    [thread] = _threads(ask(desk.bot, threads, n=number))
    assert (thread["path"], thread["line"], thread["isResolved"]) == ("b.txt", 1, False)
    top = thread["comments"]["nodes"][0]["databaseId"]
    reply = desk.bot.post(f"{REPO}/pulls/{number}/comments/{top}/replies", json={"body": "Done"})
    assert reply.json()["in_reply_to_id"] == top
    lower = desk.bot.post(f"{REPO}/pulls/{number}/comments/{reply.json()['id']}/replies", json={"body": "x"})
    assert lower.status_code == 404, "replies go to the top comment only"
    resolve = "mutation($id: ID!) { resolveReviewThread(input: {threadId: $id}) { thread { isResolved } } }"
    ask(desk.bot, resolve, id=thread["id"])
    desk.push("feature", "c.txt", "c\n")
    [thread] = _threads(ask(desk.bot, threads, n=number))
    assert (thread["isResolved"], thread["isOutdated"]) == (True, True)
    assert [one["body"] for one in thread["comments"]["nodes"]] == ["Rename", "Done"]


def _threads(answer: Any) -> Any:
    return answer["data"]["repository"]["pullRequest"]["reviewThreads"]["nodes"]


def test_logs_are_on_another_host_that_refuses_tokens(desk: HubDesk) -> None:
    step = {"name": "pytest", "conclusion": "failure", "log": "1 failed\n"}
    run = {"head_branch": "feature", "jobs": [{"name": "test", "conclusion": "failure", "steps": [step]}]}
    made = desk.bot.post(f"/_sim{REPO}/runs", json=run).json()
    assert desk.bot.get(f"{REPO}/actions/runs", params={"head_sha": "0"}).json()["total_count"] == 0
    text, packed = (
        desk.bot.get(f"{REPO}/actions/{path}/logs")
        for path in (f"jobs/{made['jobs'][0]['id']}", f"runs/{made['id']}")
    )
    assert (text.status_code, packed.status_code) == (302, 302)
    assert httpx2.URL(text.headers["location"]).host == "localhost"
    auth = {"authorization": "Bearer bot-token"}
    with loopback.client() as plain:
        assert plain.get(text.headers["location"], headers=auth).status_code == 403
        assert plain.get(text.headers["location"]).text == "1 failed\n"
        with zipfile.ZipFile(io.BytesIO(plain.get(packed.headers["location"]).content)) as archive:
            assert "test/1_pytest.txt" in archive.namelist()
    checks = desk.bot.get(f"{REPO}/commits/feature/check-runs").json()["check_runs"]
    assert [(check["name"], check["conclusion"]) for check in checks] == [("test", "failure")]
    assert desk.bot.get(f"{REPO}/commits/feature/status").json()["state"] == "pending", "no status at all"


def test_webhooks_are_signed_and_can_be_delivered_again(desk: HubDesk) -> None:
    received: Queue[tuple[dict[str, str], bytes]] = Queue()

    async def receive(request: Request) -> Response:
        received.put((dict(request.headers), await request.body()))
        return Response()

    url, stop = start_server(Starlette(routes=[Route("/hook", receive, methods=["POST"])]))
    try:
        config = {"url": f"{url}/hook", "secret": "s", "content_type": "json"}
        hook = desk.bot.post(f"{REPO}/hooks", json={"config": config, "events": ["issues"]}).json()
        assert received.get(timeout=120)[0]["x-github-event"] == "ping"
        desk.bot.post(f"{REPO}/issues", json={"title": "New"})
        headers, body = received.get(timeout=120)
        assert json.loads(body)["action"] == "opened"
        signed = hmac.new(b"s", body, hashlib.sha256).hexdigest()
        assert headers["x-hub-signature-256"] == f"sha256={signed}"
        deliveries = f"{REPO}/hooks/{hook['id']}/deliveries"
        newest = desk.bot.get(deliveries).json()[0]
        desk.bot.post(f"{deliveries}/{newest['id']}/attempts")
        again, same = received.get(timeout=120)
        assert (again["x-github-delivery"], same) == (headers["x-github-delivery"], body)
        assert "********" in desk.bot.get(f"{REPO}/hooks/{hook['id']}").text
    finally:
        stop()


def test_faults_are_met_in_turn(tmp_path: Path) -> None:
    faults = [
        GithubFault(fault="secondary_limit", on="GET /user", times=1, retry_after=7),
        GithubFault(fault="bad_gateway", on="GET /user", after=1),
        GithubFault(fault="reset_after", on="POST /repos/*/*/issues/*/comments"),
    ]
    with open_desk(tmp_path, GithubScript(faults=faults)) as desk:
        limited = desk.bot.get("/user")
        assert (limited.status_code, limited.headers["retry-after"]) == (403, "7")
        assert [desk.bot.get("/user").status_code for _ in range(2)] == [502, 200]
        with pytest.raises(httpx2.HTTPError):
            desk.bot.post(f"{REPO}/issues/1/comments", json={"body": "x"})
        assert len(desk.bot.get(f"{REPO}/issues/1/comments").json()) == 1, "it was served all the same"


def test_web_pages_are_refused(desk: HubDesk) -> None:
    assert desk.bot.get("/user", headers={"host": "evil.example"}).status_code == 403
    form = desk.bot.post("/_sim/script", content=b"{}", headers={"content-type": "text/plain"})
    assert form.status_code == 403


def test_other_branches_without_a_repository(tmp_path: Path) -> None:
    branches = {"main": "a" * 40, "work": "b" * 40}
    script = GithubScript(repos={"acme/light": GithubRepo(branches=branches)})
    with open_desk(tmp_path, script) as desk:
        body = {"head": "work", "base": "main", "title": "T"}
        made = desk.bot.post("/repos/acme/light/pulls", json=body).json()
        assert made["head"]["sha"] == "b" * 40
        missing = desk.bot.post("/repos/acme/light/pulls", json={**body, "head": "gone"})
        assert missing.status_code == 422
        desk.bot.post("/_sim/repos/acme/light", json={"branches": {"work": "c" * 40}, "conflicts": [1]})
        shown = [desk.bot.get("/repos/acme/light/pulls/1").json() for _ in range(2)]
        assert (shown[1]["head"]["sha"], shown[1]["mergeable"]) == ("c" * 40, False)
