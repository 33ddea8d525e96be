"""A lane in the sandbox: seen at the repository's own path, with its dependencies, and git works there."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from segue.domain.proof import CheckState, Seal
from segue.system.isolation.isolate import Isolation, SandboxOptions
from segue.system.isolation.policy import Strength
from tests.isolation.lane_project import Project, project
from tests.isolation.means import MOUNTER
from tests.proof.projects import needs_sandbox
from tests.system.test_git import git

__all__ = ["project"]
pytestmark = needs_sandbox


@pytest.mark.parametrize("strength", Strength)
def test_a_lane_is_seen_in_the_place_of_the_users_work_tree(
    project: Project, strength: Strength, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where all of the home is hidden, with the repository in it."""
    monkeypatch.setenv("HOME", str(project.repo.parent))
    project.options = msgspec.structs.replace(project.options, strength=strength)
    project.write(file="committed", **{".gitignore": "node_modules/\n.env\n"})
    project.commit()
    project.write(file="the user's edit", node_modules__one="installed", **{".env": "KEY=1"})
    lane = project.lane()
    (lane / "file").write_text("the agent's edit")
    assert project.run(lane, "pwd") == str(project.repo)
    assert project.run(lane, "cat", str(project.repo / "file")) == "the agent's edit"
    assert project.run(lane, "cat", str(lane / "file")) == "the agent's edit"
    for place in (project.repo, lane):
        assert project.run(lane, "cat", f"{place}/node_modules/one", f"{place}/.env") == "installedKEY=1"
    project.run(lane, "sh", "-c", "echo made > new")
    assert (lane / "new").read_text() == "made\n"
    assert not (project.repo / "new").exists()
    assert (project.repo / "file").read_text() == "the user's edit"
    assert git(lane, "status", "--porcelain").split() == ["M", "file", "??", "new"]


def test_git_works_in_a_lane_and_cannot_be_changed(project: Project) -> None:
    project.write(file="committed\n")
    head = project.commit()
    lane = project.lane()
    (lane / "file").write_text("edit\n")
    assert project.run(lane, "git", "rev-parse", "--show-toplevel", "HEAD").split() == [
        str(project.repo),
        head,
    ]
    assert project.run(lane, "git", "status", "--porcelain") == "M file"
    assert "+edit" in project.run(lane, "git", "diff")
    assert project.run(lane, "git", "-C", str(lane), "log", "--format=%s") == "Start"
    before = {path: path.read_bytes() for path in (project.repo / ".git").rglob("*") if path.is_file()}
    script = (
        "git config user.name X; git branch other; git commit -qam x; git update-ref HEAD HEAD~0 -m x;"
        f" for place in {project.repo}/.git {lane}/.git $(git rev-parse --git-common-dir); do"
        " echo x > $place/config; echo x > $place/hooks/pre-commit; rm -rf $place; done"
    )
    project.run(lane, "sh", "-c", script)
    after = {path: path.read_bytes() for path in (project.repo / ".git").rglob("*") if path.is_file()}
    assert before == after
    assert (lane / ".git").read_text().startswith(f"gitdir: {project.repo}")


def test_checks_see_what_an_agent_has_installed_in_its_lane(project: Project) -> None:
    project.write(file="x", **{".gitignore": "node_modules\n", "check.sh": "cat node_modules/one\n"})
    base = project.commit()
    project.write(node_modules__one="the user's")
    lane = project.lane()

    async def check() -> list[tuple[Seal, str]]:
        sealer = project.sealer(lane)
        await sealer.prepare()
        found = []
        for _ in range(2):
            result = await sealer.check(["sh", "check.sh"], base, base)
            found.append((result.seal, result.output))
            (lane / "node_modules").mkdir(exist_ok=True)
            (lane / "node_modules" / "one").write_text("the agent's")
        return found

    assert asyncio.run(check()) == [(Seal.SEALED, "the user's"), (Seal.WEAK, "the agent's")]


def test_git_works_in_the_checks_of_a_lane(project: Project) -> None:
    """There it knows the lane's commit, not the user's."""
    script = "git log -1 --format=%s && git diff --exit-code HEAD -- file && test $SEGUE_LANE = 1\n"
    project.write(file="x\n", **{"check.sh": script})
    base = project.commit()
    lane = project.lane()
    project.write(file="of the user\n")
    project.commit("The user's")
    result = asyncio.run(project.check(lane, ["sh", "check.sh"], base))
    assert result == (CheckState.PASSED, Seal.SEALED, "Start"), result


def test_who_cannot_install_in_a_lane_is_told_what_helps() -> None:
    said = Isolation(SandboxOptions(isolation=MOUNTER)).explain(
        "npm error EROFS: read-only file system, mkdir '/home/me/app/node_modules/left-pad'"
    )
    assert "lane_setup" in said
