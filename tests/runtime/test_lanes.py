"""A lane is given links and dependencies before a task; only what is missing, and only once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from segue.config.settings import Settings
from segue.domain.errors import NeedsHuman
from segue.domain.options import read_options
from segue.runtime.parallel import LaneSetup
from segue.system.git.lanes import LaneTrees
from segue.system.git.repository import Repository
from segue.system.isolation.isolate import Isolation
from segue.system.redact import Redactor
from tests.system.test_git import git, repo

__all__ = ["repo"]

COUNT = [
    "sh",
    "-c",
    "echo run >> node_modules/.count || (mkdir node_modules && echo run > node_modules/.count)",
]


class Place:
    """A repository that ignores some files, and a lane of it."""

    def __init__(self, repo: Path, state: Path) -> None:
        self.repo, self.state = repo, state
        (repo / ".gitignore").write_text("node_modules\n.env*\ndata/\n")
        (repo / "package-lock.json").write_text("{}")
        git(repo, "add", "--all")
        git(repo, "commit", "--quiet", "-m", "Ignore")

    def prepare(self, **settings: object) -> Path:
        """Open the lane and give it what the settings say."""

        async def work() -> Path:
            home = await Repository.open(self.repo)
            lane = await LaneTrees(home, self.state, "run").open(1, "HEAD")
            await self.setup(home, settings).prepare(lane)
            return lane.root

        return asyncio.run(work())

    def setup(self, home: Repository, settings: dict[str, Any]) -> LaneSetup:
        return LaneSetup(home, read_options(Settings, settings), Isolation(), Redactor([]))


@pytest.fixture
def place(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(repo, tmp_path_factory.mktemp("state"))


def test_folders_are_linked(place: Place) -> None:
    (place.repo / "node_modules").mkdir()
    (place.repo / "node_modules" / "one").write_text("1")
    lane = place.prepare(lane_link=["node_modules"])
    assert (lane / "node_modules").readlink() == place.repo / "node_modules"
    assert place.prepare(lane_link=["node_modules"]) == lane
    assert git(lane, "status", "--porcelain") == ""


def test_nothing_from_outside_gets_into_a_lane(place: Place) -> None:
    (place.state / "secret").write_text("precious")
    (place.repo / ".env").symlink_to(place.state / "secret")
    (place.repo / "data").symlink_to(place.state)
    patterns = [".env", "data/secret", "../state*/secret", str(place.state / "secret"), ".git/config"]
    lane = place.prepare(lane_link=patterns)
    assert sorted(path.name for path in lane.iterdir()) == [".git", ".gitignore", "file", "package-lock.json"]


def test_what_git_would_commit_is_refused(place: Place) -> None:
    """Of `data/` git ignores the folder, but not a link to it."""
    (place.repo / "data").mkdir()
    (place.repo / "data" / "one").write_text("1")
    with pytest.raises(NeedsHuman, match="does not ignore") as refused:
        place.prepare(lane_link=["data"])
    assert "/data" in refused.value.hint


def test_setup_runs_when_a_lane_is_new_and_when_a_lock_file_differs(place: Place) -> None:
    lane = place.prepare(lane_setup=[COUNT])
    place.prepare(lane_setup=[COUNT])
    count = lane / "node_modules" / ".count"
    assert count.read_text().count("run") == 1
    (lane / "package-lock.json").write_text('{"changed": 1}')
    place.prepare(lane_setup=[COUNT])
    place.prepare(lane_setup=[COUNT])
    assert count.read_text().count("run") == 2
    place.prepare(lane_setup=[COUNT, ["true"]])
    assert count.read_text().count("run") == 3, "other commands were named"


def test_a_setup_that_fails_says_so_and_is_repeated(place: Place) -> None:
    failing = ["sh", "-c", "test -e node_modules || { echo no network >&2; exit 7; }"]
    with pytest.raises(NeedsHuman, match="exit code 7\nno network") as failed:
        place.prepare(lane_setup=[failing])
    assert "test -e node_modules" in failed.value.message
    assert "give the same command again" in failed.value.hint
    with pytest.raises(NeedsHuman):
        place.prepare(lane_setup=[failing])
    lane = place.state / "run-lane-1"
    (lane / "node_modules").mkdir()
    assert place.prepare(lane_setup=[failing]) == lane
