"""The real gh and PyGithub work with the GitHub simulator."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.later import Later
from tests.parts.sim.hub_desk import NAME, REPO, GhProgram, HubDesk, git, open_desk

github: Any = Later("github")
needs_gh = pytest.mark.skipif(shutil.which("gh") is None, reason="gh is not installed")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[HubDesk]:
    with open_desk(tmp_path) as desk:
        yield desk
        assert desk.bot.get("/_sim/state").json()["unknown_fields"] == []


@needs_gh
def test_gh_works_on_issues(desk: HubDesk, tmp_path: Path) -> None:
    gh = GhProgram(tmp_path / "home", desk)
    assert "Logged in to github.com as bot" in gh("auth", "status")
    listed = json.loads(gh("issue", "list", "--label", "ready", "--json", "number,title,milestone"))
    assert [(one["number"], one["title"]) for one in listed] == [(2, "Second"), (1, "First")]
    assert listed[1]["milestone"]["title"] == "v1"
    assert "/issues/1#issuecomment-" in gh("issue", "comment", "1", "--body", "Hello")
    assert "Hello" in gh("issue", "view", "1", "--comments")
    gh("issue", "edit", "1", "--add-label", "bug", "--remove-label", "ready")
    assert [label["name"] for label in desk.bot.get(f"{REPO}/issues/1").json()["labels"]] == ["bug"]
    gh("issue", "close", "1", "--comment", "Done.")
    assert json.loads(gh("issue", "view", "1", "--json", "state"))["state"] == "CLOSED"
    gh("issue", "create", "--title", "Fourth", "--body", "", "--label", "bug")
    assert "Fourth" in gh("search", "issues", "--repo", NAME, "--label", "bug", "--state", "open")
    assert "Could not resolve" in gh("issue", "view", "99", code=1)


@pytest.mark.thorough
@needs_gh
def test_gh_takes_a_pull_request_from_draft_to_merge(desk: HubDesk, tmp_path: Path) -> None:
    gh, alice = (GhProgram(tmp_path / who, desk, f"{who}-token") for who in ("bot", "alice"))
    made = ("pr", "create", "--head", "feature", "--base", "main", "--title", "T", "--body", "Closes #1")
    assert "/pull/4" in gh(*made, "--draft")
    assert "already exists" in gh(*made, code=1)
    shown = json.loads(gh("pr", "list", "--head", "feature", "--json", "number,isDraft,headRefOid"))
    assert shown == [{"number": 4, "isDraft": True, "headRefOid": git(desk.clone, "rev-parse", "feature")}]
    gh("pr", "ready", "4")
    step = {"name": "pytest", "conclusion": "failure", "log": "2026-01-01T00:00:00Z 1 failed\n"}
    jobs = [
        {"name": "test", "conclusion": "failure", "steps": [step]},
        {"name": "lint", "conclusion": "success"},
    ]
    run = desk.bot.post(f"/_sim{REPO}/runs", json={"head_branch": "feature", "jobs": jobs}).json()["id"]
    checks = gh("pr", "checks", "4", code=1)
    assert ("test\tfail" in checks, "lint\tpass" in checks) == (True, True)
    assert gh("run", "view", str(run), "--log-failed") == "test\tpytest\t2026-01-01T00:00:00Z 1 failed\n"
    alice("pr", "review", "4", "--request-changes", "--body", "No")
    assert (
        json.loads(gh("pr", "view", "4", "--json", "reviewDecision"))["reviewDecision"] == "CHANGES_REQUESTED"
    )
    alice("pr", "review", "4", "--approve")
    gh("pr", "merge", "4", "--merge")
    assert json.loads(gh("pr", "view", "4", "--json", "state"))["state"] == "MERGED"
    assert "Merge pull request #4" in git(desk.bare, "log", "-1", "--format=%s", "main")
    assert json.loads(gh("issue", "view", "1", "--json", "state"))["state"] == "CLOSED"


def open_pygithub(desk: HubDesk, token: str) -> Any:
    auth = github.Auth.Token(token)
    return github.Github(
        auth=auth, base_url=f"{desk.url}/api/v3", retry=None, per_page=2, seconds_between_writes=None
    )


def test_pygithub_works_on_issues(desk: HubDesk) -> None:
    repo = open_pygithub(desk, "bot-token").get_repo(NAME)
    assert [issue.number for issue in repo.get_issues()] == [3, 2, 1], "over pages"
    issue = repo.get_issue(1)
    comment = issue.create_comment("One")
    comment.edit("Two")
    assert [(c.user.login, c.body) for c in issue.get_comments()] == [("bot", "Two")]
    issue.add_to_labels("new")
    issue.remove_from_labels("ready")
    assert [label.name for label in repo.get_issue(1).labels] == ["new"]
    assert [one.title for one in repo.get_issues(milestone=repo.get_milestone(1))] == ["First"]
    issue.edit(state="closed", state_reason="completed")
    assert [one.number for one in repo.get_issues()] == [3, 2]


def test_pygithub_works_on_pull_requests(desk: HubDesk) -> None:
    repo = open_pygithub(desk, "bot-token").get_repo(NAME)
    pull = repo.create_pull(base="main", head="feature", title="T", body="B", draft=True)
    assert pull.draft
    mergeable = [repo.get_pull(pull.number).raw_data["mergeable"] for _ in range(2)]
    assert mergeable == [None, True]
    assert [file.filename for file in pull.get_files()] == ["b.txt"]
    pull.mark_ready_for_review()
    theirs = open_pygithub(desk, "alice-token").get_repo(NAME).get_pull(pull.number)
    theirs.create_review(
        body="No", event="REQUEST_CHANGES", comments=[{"path": "b.txt", "line": 1, "body": "Rename"}]
    )
    [comment] = pull.get_review_comments()
    pull.create_review_comment_reply(comment.id, "Done")
    assert [(c.body, c.in_reply_to_id) for c in pull.get_review_comments()] == [
        ("Rename", None),
        ("Done", comment.id),
    ]
    with pytest.raises(github.GithubException) as refused:
        repo.create_pull(base="main", head="feature", title="T")
    assert refused.value.status == 422
    assert repo.get_pull(pull.number).merge().merged
