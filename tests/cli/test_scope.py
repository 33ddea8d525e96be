"""Which run a command means: one of the repository it is called in, or the one whose id is given."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.place import Place

FAIL = "[[on]]\nexit_code = 1\n"
LOOK = [
    ("status", "last"),
    ("logs",),
    ("logs", "last"),
    ("proof",),
    ("proof", "last"),
]
ACT = [("resume",), ("resume", "last"), ("task", "accept", "1"), ("task", "skip", "1", "--reason", "no")]


@pytest.fixture
def failed(place: Place) -> Place:
    """A run that needs a human, and beside it a copy of the repository."""
    place.script(FAIL)
    place.segue("run", "plan.md", code=3)
    shutil.copytree(place.repo, place.root / "other")
    return place


def mean(place: Place, folder: Path) -> str:
    """Return the run that `last` means in a folder."""
    run: str = place.json("status", "last", "--repo", str(folder))["id"]
    return run


def test_a_run_of_another_repository_is_not_meant(failed: Place) -> None:
    before = failed.rows("select state, updated from orchestrator_runs")
    for command in (*LOOK, *ACT):
        done = failed.segue(*command, "--repo", str(failed.root / "other"), code=2)
        assert f"There is no run in {failed.root / 'other'}." in done.stderr
        assert failed.rows("select state, updated from orchestrator_runs") == before
    assert failed.segue("stop", "--repo", str(failed.root / "other")).stdout == "Nothing to stop.\n"
    assert failed.rows("select state from orchestrator_runs") == [("needs_human",)]


def test_a_folder_inside_and_another_name_of_it_mean_the_same(failed: Place) -> None:
    (failed.repo / "deep" / "down").mkdir(parents=True)
    (failed.root / "link").symlink_to(failed.repo)
    run = failed.last_run()
    assert mean(failed, failed.repo / "deep" / "down") == run
    assert mean(failed, failed.root / "link") == run


def test_a_repository_inside_is_another_one(failed: Place) -> None:
    inside = failed.repo / "vendored"
    subprocess.run(["git", "init", "-q", str(inside)], check=True, env=failed.env)
    failed.segue("status", "last", "--repo", str(inside), code=2)


def test_a_database_that_does_not_exist_has_no_run(place: Place) -> None:
    place.script(FAIL)
    gone = place.root / "gone.db"
    for command in (*LOOK, *ACT):
        assert "There is no run" in place.segue(*command, "--database-url", str(gone), code=2).stderr
        assert not gone.exists()
