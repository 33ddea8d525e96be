"""The GitLab simulator, as python-gitlab sees it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gitlab
import pytest

from segue.parts.trackers.gitlab_sim.app import gitlab_app
from segue.parts.trackers.gitlab_sim.script import GitlabScript, GitlabToken
from segue.system.http.server import start_server
from tests import loopback
from tests.system.test_git import git, repo

__all__ = ["repo"]


@pytest.fixture
def url(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A project `me/app` with the branches main and work."""
    bare = tmp_path_factory.mktemp("bare") / "app.git"
    git(repo, "switch", "--quiet", "--create", "work")
    (repo / "file").write_text("new\n")
    git(repo, "commit", "--quiet", "--all", "-m", "work")
    git(repo, "switch", "--quiet", "main")
    subprocess.run(["git", "clone", "--quiet", "--bare", str(repo), str(bare)], check=True)
    tokens = {"t": GitlabToken(username="root"), "guest": GitlabToken(username="eve", access_level=10)}
    address, stop = start_server(gitlab_app(GitlabScript(tokens=tokens), {"me/app": bare}))
    yield address
    stop()


def connect(url: str, token: str = "t") -> Any:
    return gitlab.Gitlab(url, private_token=token, retry_transient_errors=False)


def test_a_merge_request_is_opened_discussed_and_merged(url: str) -> None:
    lab = connect(url)
    lab.auth()
    assert lab.user.username == "root"
    project = lab.projects.get("me/app")
    request = project.mergerequests.create(
        {"source_branch": "work", "target_branch": "main", "title": "Draft: Work"}
    )
    assert request.draft
    assert request.detailed_merge_status == "draft_status"
    with pytest.raises(gitlab.GitlabCreateError) as twice:
        project.mergerequests.create({"source_branch": "work", "target_branch": "main", "title": "Again"})
    assert twice.value.response_code == 409
    request.title, request.labels = "Work", ["proof: checked"]
    request.save()
    assert not project.mergerequests.get(request.iid).draft
    discussion = request.discussions.create({"body": "Why?"})
    discussion.notes.create({"body": "Because."})
    assert project.mergerequests.get(request.iid).detailed_merge_status == "discussions_not_resolved"
    discussion = request.discussions.get(discussion.id)
    discussion.resolved = True
    discussion.save()
    assert all(note["resolved"] for note in request.discussions.get(discussion.id).attributes["notes"])
    request.merge()
    assert project.mergerequests.list(source_branch="work", state="merged")[0].iid == 1


def test_pipelines_have_jobs_with_logs(url: str) -> None:
    lab = connect(url)
    project = lab.projects.get("me/app")
    request = project.mergerequests.create({"source_branch": "work", "target_branch": "main", "title": "W"})
    jobs = [{"name": "test", "status": "failed", "log": "boom\n"}, {"name": "lint", "status": "success"}]
    asked = {"project": "me/app", "ref": "work", "jobs": jobs}
    assert loopback.post(f"{url}/_sim/pipelines", json=asked).status_code == 200
    (pipeline,) = request.pipelines.list()
    assert (pipeline.status, pipeline.sha) == ("failed", request.sha)
    found = project.pipelines.get(pipeline.id, lazy=True).jobs.list()
    assert [(job.name, job.status) for job in found] == [("test", "failed"), ("lint", "success")]
    assert project.jobs.get(found[0].id, lazy=True).trace() == b"boom\n"


def test_rights_pages_and_etags(url: str) -> None:
    with pytest.raises(gitlab.GitlabAuthenticationError):
        connect(url, "unknown").auth()
    guest = connect(url, "guest").projects.get("me/app")
    with pytest.raises(gitlab.GitlabCreateError) as refused:
        guest.mergerequests.create({"source_branch": "work", "target_branch": "main", "title": "W"})
    assert refused.value.response_code == 403
    request = (
        connect(url)
        .projects.get("me/app")
        .mergerequests.create({"source_branch": "work", "target_branch": "main", "title": "W"})
    )
    for number in range(5):
        request.notes.create({"body": f"note {number}"})
    assert len(request.notes.list(get_all=True, per_page=2)) == 5
    headers = {"private-token": "t"}
    address = f"{url}/api/v4/projects/me%2Fapp"
    first = loopback.get(address, headers=headers)
    again = loopback.get(address, headers={**headers, "if-none-match": first.headers["etag"]})
    assert (first.status_code, again.status_code) == (200, 304)
