"""Deliveries keep the promises of their socket, and a stranger's pull request is not that of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from segue.deliveries.github import GitHub
from segue.deliveries.hosting import HostedPlace, PullRequestOptions
from segue.deliveries.local import BranchDelivery, BranchOptions, MergeDelivery
from segue.deliveries.pull_request import PullRequestDelivery
from segue.domain.delivery import Target
from segue.domain.options import Options
from segue.ports import Handover
from tests.conformance.delivery import check_delivery
from tests.fakes.github import Github
from tests.fakes.serving import serve
from tests.services import make_services
from tests.system.test_git import git, repo

__all__ = ["repo"]


def test_local_ones_conform(tmp_path: Path) -> None:
    services = make_services(tmp_path)
    check_delivery(lambda: BranchDelivery(BranchOptions(), services), Target("main"))
    check_delivery(lambda: MergeDelivery(Options(), services), Target("main"))


@pytest.fixture
def bare(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The origin of a repository that has a branch to deliver."""
    bare = tmp_path_factory.mktemp("bare") / "app.git"
    git(repo, "init", "--quiet", "--bare", "--initial-branch=main", str(bare))
    git(repo, "remote", "add", "origin", str(bare))
    git(repo, "push", "--quiet", "origin", "main")
    git(repo, "switch", "--quiet", "--create", "segue/r1")
    git(repo, "commit", "--quiet", "--allow-empty", "-m", "work")
    return bare


def test_pull_requests_conform(repo: Path, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "a-token-of-tests")
    hub = Github({"repos": {"me/app": {"bare": str(bare)}}})

    async def push(options: Sequence[str] = ()) -> None:
        git(repo, "push", "--quiet", "origin", "segue/r1")

    async def merge() -> str:
        return "no"

    with serve(hub.app) as url:
        options, target = PullRequestOptions(api=url, project="me/app"), Target("main", str(repo))
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
        count = lambda: len(hub.repos["me/app"].issues)  # noqa: E731
        check_delivery(lambda: PullRequestDelivery(options, make_services(repo)), target, work, count)


def test_pull_requests_from_forks_are_not_found(repo: Path, bare: Path) -> None:
    git(repo, "push", "--quiet", "origin", "segue/r1")
    hub = Github({"repos": {"acme/shop": {"bare": str(bare)}}})
    with serve(hub.app) as url:
        place = HostedPlace("example.org", url, "acme/shop")
        ours = asyncio.run(GitHub(place, "key", str).open("segue/r1", "main", "Ours", "", False))
        fork = {**hub.repos["acme/shop"].issues[1], "number": 2}
        hub.repos["acme/shop"].issues[2] = fork | {"pull": fork["pull"] | {"from": "stranger/shop"}}
        assert asyncio.run(GitHub(place, "key", str).find("segue/r1")) == [ours]
