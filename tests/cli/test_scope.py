"""Which run a command means: one of the repository it is called in, or the one whose id is given."""

from __future__ import annotations

import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.place import SEGUE, Place

FAIL = "[[on]]\nexit_code = 1\n"
LOOK = [
    ("status", "last"),
    ("logs",),
    ("logs", "last"),
    ("proof",),
    ("proof", "last"),
    ("report", "run", "last"),
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


@pytest.mark.thorough
def test_by_its_id_a_run_is_reached_from_everywhere(failed: Place) -> None:
    run, other = failed.last_run(), ("--repo", str(failed.root / "other"))
    for command in (["status", run], ["logs", run], ["proof", run], ["report", "run", run], ["stop", run]):
        failed.segue(*command, *other)
    failed.segue("task", "accept", "1", "--run", run, *other)
    failed.segue("resume", run, *other, code=3)
    assert not (failed.root / "other" / "2").exists()


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


@pytest.mark.thorough
def test_a_linked_work_tree_means_its_own_runs_or_else_those_of_the_repository(failed: Place) -> None:
    linked = failed.root / "linked"
    failed.git("worktree", "add", "-q", "-b", "side", str(linked))
    first = failed.last_run()
    assert mean(failed, linked) == first
    failed.segue("run", str(linked / "plan.md"), "--repo", str(linked), code=3)
    second = failed.last_run()
    assert first != second
    assert mean(failed, linked) == second
    assert mean(failed, failed.repo) == first


def test_a_database_that_does_not_exist_has_no_run(place: Place) -> None:
    place.script(FAIL)
    gone = place.root / "gone.db"
    for command in (*LOOK, *ACT):
        assert "There is no run" in place.segue(*command, "--database-url", str(gone), code=2).stderr
        assert not gone.exists()


@pytest.mark.thorough
def test_skipping_everything_is_said(failed: Place) -> None:
    for key in ("1", "2", "3"):
        failed.segue("task", "skip", key, "--reason", "not now")
    done = failed.segue("resume")
    assert "3 skipped" in done.stdout


@pytest.mark.thorough
def test_a_disk_that_takes_no_first_write_is_named_and_leaves_no_run(place: Place) -> None:
    place.script(FAIL)

    def allow_no_bytes() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    done = subprocess.run(
        [*SEGUE, "run", "plan.md"],
        cwd=place.repo,
        env=place.env,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=allow_no_bytes,
    )
    assert done.returncode == 2  # the first thing that is written is the lock of the repository
    assert "Cannot write" in done.stderr
    assert "unexpected" not in done.stderr
    place.segue("resume", code=2)
    place.script('[[on]]\nwrite = { "f{task}" = "x" }\n')
    place.segue("run", "plan.md")
    assert (place.database.parent / ".gitignore").read_text() == "*\n"
