"""Cloud agents of several lanes start from the branch of the run; their branches are fetched side by side."""

from __future__ import annotations

import asyncio
from asyncio import run
from pathlib import Path

import pytest

from segue.domain.errors import WorkspaceError
from segue.domain.workspace import Snapshot
from segue.system.git.branches import RemoteBranches
from segue.system.git.integration import Integration
from segue.system.git.remotes import PushRemote
from segue.system.git.repository import Repository
from tests.system.test_git import git, repo
from tests.system.test_merging import RUN, commit

__all__ = ["repo"]


@pytest.fixture
def hosted(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The remote of the repository, in which the run has its branch."""
    folder = tmp_path_factory.mktemp("hosted") / "origin.git"
    git(repo, "clone", "--quiet", "--bare", str(repo), str(folder))
    git(repo, "remote", "add", "origin", str(folder))
    git(repo, "branch", RUN)
    return folder


def lane(repo: Path, number: int) -> RemoteBranches:
    branches = RemoteBranches(run(Repository.open(repo)), "origin", repo.parent / "scratch")
    return branches.in_lane(number, RUN)


def push(repo: Path, hosted: Path, branch: str, base: str) -> str:
    """Do as a cloud agent does: push a branch that the repository here does not know yet."""
    made = commit(hosted, base, {branch: b"1\n"})
    git(hosted, "update-ref", f"refs/heads/{branch}", made)
    return made


def test_a_task_starts_on_the_remote_from_what_the_run_has_merged(repo: Path, hosted: Path) -> None:
    for number in (1, 2, 1):
        head = git(repo, "rev-parse", RUN)
        begun = run(lane(repo, number).begin("3", "cursor/earlier"))
        assert begun.head == head == git(hosted, "rev-parse", begun.branch)
        assert run(Integration(lane(repo, number).repo, RUN).advance(head, commit(repo, head, {"a": b"1\n"})))
    one, two = (run(lane(repo, number).begin("3", None)).branch for number in (1, 2))
    assert one != two, "nobody moves the branch from which another one is about to start"


def test_the_remote_follows_when_the_branch_has_advanced(repo: Path, hosted: Path) -> None:
    one = lane(repo, 1)
    start = run(one.publish())
    made = push(repo, hosted, "cursor/one", start)
    arrived = run(one.arrive(["cursor/one"], Snapshot(start, RUN, "")))
    assert arrived == Snapshot(made, "cursor/one", "")
    own = Integration(one.repo, RUN)
    assert run(own.advance(start, arrived.head))
    assert run(one.publish()) == made
    assert git(hosted, "rev-parse", RUN) == made
    assert git(hosted, "rev-parse", "cursor/one") == made, "the agent's branch stays"


def test_a_push_that_another_lane_has_overtaken_is_no_failure(repo: Path, hosted: Path) -> None:
    start = git(repo, "rev-parse", RUN)
    heads = [commit(repo, start, {"a": b"1\n"})]
    heads.append(commit(repo, heads[0], {"b": b"1\n"}))

    async def work() -> None:
        found = await Repository.open(repo)
        own = Integration(found, RUN)
        lanes = [RemoteBranches(found, "origin", repo).in_lane(number, RUN) for number in range(1, 5)]
        before = start
        for head in heads:
            pushing = asyncio.gather(*(one.publish() for one in lanes))
            assert await own.advance(before, head)
            await pushing
            before = head
        await lanes[0].publish()

    run(work())
    assert git(hosted, "rev-parse", RUN) == heads[1]


def test_a_branch_that_somebody_else_has_moved_on_the_remote_is_not_overwritten(
    repo: Path, hosted: Path
) -> None:
    name = run(lane(repo, 1).begin("1", None)).branch
    alien = push(repo, hosted, name, "main")
    git(repo, "update-ref", f"refs/heads/{RUN}", commit(repo, "main", {"a": b"1\n"}))
    with pytest.raises(WorkspaceError, match="could not be pushed to origin"):
        run(lane(repo, 1).begin("1", None))
    assert git(hosted, "rev-parse", name) == alien


def test_a_remote_that_leads_elsewhere_since_the_run_began_gets_nothing_and_is_not_believed(
    repo: Path, hosted: Path, tmp_path: Path
) -> None:
    """Whoever can write git's configuration must not have the work pushed to another place."""
    elsewhere, said = tmp_path / "elsewhere.git", list[str]()
    git(repo, "clone", "--quiet", "--bare", str(hosted), str(elsewhere))
    git(elsewhere, "update-ref", "refs/heads/cursor/one", "HEAD")

    async def tell(words: str) -> None:
        said.append(words)

    found = run(Repository.open(repo))
    address = run(PushRemote(found).address())
    one = RemoteBranches(found, "origin", repo, run=RUN, address=address, tell=tell)
    assert run(one.publish()) == git(hosted, "rev-parse", RUN)
    assert said == []
    for name in ("url", "pushurl"):
        git(repo, "config", f"remote.origin.{name}", str(elsewhere))
        head = commit(repo, RUN, {name: b"1\n"})
        git(repo, "update-ref", f"refs/heads/{RUN}", head)
        assert run(one.publish()) == head == git(hosted, "rev-parse", RUN)
        assert RUN not in git(elsewhere, "branch", "--list")
        assert run(one.fetch("cursor/one")) is None
        assert str(hosted) in said[-1]
        assert str(elsewhere) in said[-1]
        git(repo, "config", "remote.origin.url", str(hosted))
    git(repo, "remote", "remove", "origin")
    assert run(one.publish()) == head
    assert "gone" in said[-1]
