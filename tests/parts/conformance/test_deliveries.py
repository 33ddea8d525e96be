"""The deliveries that come with Segue keep the promises of their socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from segue.deliveries.hosting import PullRequestOptions
from segue.deliveries.local import BranchDelivery, MergeDelivery
from segue.deliveries.pull_request import PullRequestDelivery
from segue.domain.delivery import Target
from segue.domain.options import Options
from segue.parts.conformance.delivery import check_delivery
from segue.parts.sim.github.app import github_app
from segue.parts.trackers.gitlab_sim.app import gitlab_app
from segue.ports import Handover
from segue.system.http.server import start_server
from tests import loopback
from tests.services import make_services
from tests.system.test_git import git, repo

__all__ = ["repo"]

PATHS = {"github": "/repos/me/app/pulls", "gitlab": "/api/v4/projects/me%2Fapp/merge_requests"}


@pytest.mark.parametrize("kind", [BranchDelivery, MergeDelivery])
def test_local_ones_conform(kind: type[BranchDelivery | MergeDelivery], tmp_path: Path) -> None:
    check_delivery(lambda: kind(Options(), make_services(tmp_path)), Target("main"))


@pytest.fixture(params=["github", "gitlab"])
def service(
    request: pytest.FixtureRequest, repo: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, Path]]:
    bare = tmp_path_factory.mktemp("bare") / "app.git"
    git(repo, "init", "--quiet", "--bare", "--initial-branch=main", str(bare))
    git(repo, "remote", "add", "origin", str(bare))
    git(repo, "push", "--quiet", "origin", "main")
    make = github_app if request.param == "github" else gitlab_app
    url, stop = start_server(make(None, {"me/app": bare}))
    yield request.param, url, repo
    stop()


def test_pull_requests_conform(service: tuple[str, str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    name, url, repo = service
    monkeypatch.setenv("GITHUB_TOKEN" if name == "github" else "GITLAB_TOKEN", "a-token-of-tests")
    api = url if name == "github" else f"{url}/api/v4"
    options = PullRequestOptions(service=name, api=api, project="me/app")  # type: ignore[arg-type]
    target = Target("main", str(repo))
    git(repo, "switch", "--quiet", "--create", "segue/r1")
    git(repo, "commit", "--quiet", "--allow-empty", "-m", "work")

    async def push() -> None:
        git(repo, "push", "--quiet", "origin", "segue/r1")

    async def merge() -> str:
        return "no"

    def count() -> int:
        headers = {"authorization": "Bearer x", "private-token": "x"}
        return len(loopback.get(f"{url}{PATHS[name]}", headers=headers, params={"state": "all"}).json())

    head = git(repo, "rev-parse", "HEAD").strip()
    work = Handover(
        run="r1",
        branch="segue/r1",
        head=head,
        target=target,
        title="Work",
        text="Proof",
        push=push,
        merge=merge,
    )
    check_delivery(lambda: PullRequestDelivery(options, make_services(repo)), target, work, count)
