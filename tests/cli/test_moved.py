"""A repository is recognised when its folder was moved, copied, cloned again or mounted elsewhere."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.place import PLAN, Place
from tests.warm import run_segue

RUN = ("run", "plan.md", "--agent", "scripted")
WORKS = '[[on]]\nwrite = { "f{task}" = "x" }\n'
FAILS = f"[[on]]\ntask = 2\nexit_code = 3\n{WORKS}"
ALL = ["Task 1: Write one.", "Task 2: Write two.", "Task 3: Write three."]


def segue(place: Place, folder: Path, *args: str, code: int = 0) -> str:
    """Give a command in a folder and return what it said."""
    done = run_segue(args, folder, place.env, place.patience)
    said = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == code, said
    return said


def git(place: Place, folder: Path, *args: str) -> str:
    return subprocess.run(
        ["git", *args], cwd=folder, env=place.env, check=True, capture_output=True, text=True
    ).stdout


def subjects(place: Place, folder: Path) -> list[str]:
    return git(place, folder, "log", "--format=%s", "--reverse").splitlines()[1:]


def publish(place: Place) -> Path:
    """Give the repository a remote, and push to it."""
    hub = place.root / "hub.git"
    git(place, place.root, "clone", "--quiet", "--bare", str(place.repo), str(hub))
    place.git("remote", "add", "origin", str(hub))
    return hub


def test_a_moved_repository_continues_where_it_was(place: Place, database: str) -> None:
    place.env["SEGUE_DATABASE_URL"] = database
    place.segue(*RUN, "--task", "1")
    there = place.repo.rename(place.root / "renamed")

    same = f"This repository was at {place.repo}; it is the same one."
    shown = segue(place, there, "status", "last")
    assert same in shown
    assert "Write one." in shown
    listed = segue(place, there, "task", "list", "plan.md")
    assert "done" in next(line for line in listed.splitlines() if "Write one." in line)
    assert same in segue(place, there, *RUN)
    assert subjects(place, there) == ALL
    assert same not in segue(place, there, *RUN)
    assert subjects(place, there) == ALL


@pytest.mark.thorough
def test_a_run_that_did_not_finish_resumes_in_the_moved_folder(place: Place) -> None:
    place.script(FAILS)
    place.segue("run", "plan.md", "--fail-fast", code=3)
    run = place.last_run()
    there = place.repo.rename(place.root / "renamed")
    place.script(WORKS)

    assert f"This repository was at {place.repo}" in segue(place, there, "resume")
    assert subjects(place, there) == ALL
    assert place.rows("select id, state from orchestrator_runs") == [(run, "done")]


@pytest.mark.thorough
def test_a_run_in_a_work_tree_of_its_own_resumes_after_a_move(place: Place) -> None:
    place.script(FAILS)
    place.segue("run", "plan.md", "--worktree", "--fail-fast", code=3)
    branch = f"segue/{place.last_run()}"
    there = place.repo.rename(place.root / "renamed")
    place.script(WORKS)

    segue(place, there, "resume")
    assert git(place, there, "log", "--format=%s", "--reverse", branch).splitlines()[1:] == ALL


@pytest.mark.thorough
def test_a_copy_beside_the_original_is_asked_about(place: Place) -> None:
    place.segue(*RUN, "--task", "1")
    run = place.last_run()
    copy = Path(shutil.copytree(place.repo, place.root / "copy"))

    asked = segue(place, copy, *RUN, code=2)
    assert f"{copy} is a copy of {place.repo}, which still exists and where run {run} worked." in asked
    assert f"cd {place.repo}" in asked
    assert f"segue run {copy / 'plan.md'} --plan-changed keep" in asked
    assert "is a copy of" in segue(place, copy, "status", "last", code=2)
    assert subjects(place, copy) == ALL[:1]

    segue(place, copy, *RUN, "--plan-changed", "keep")
    assert subjects(place, copy) == ALL
    # The runs are the copy's now, so that the original is the one to be asked about.
    assert f"{place.repo} is a copy of {copy}" in place.segue(*RUN, code=2).stderr


@pytest.mark.thorough
def test_a_copy_that_starts_over_is_another_repository_from_then_on(place: Place) -> None:
    place.segue(*RUN, "--task", "1")
    copy = Path(shutil.copytree(place.repo, place.root / "copy"))
    segue(place, copy, *RUN, "--task", "1", "--plan-changed", "restart")
    assert subjects(place, copy) == [ALL[0], ALL[0]]

    there = copy.rename(place.root / "moved-copy")
    assert f"This repository was at {copy}; it is the same one." in segue(place, there, *RUN)
    assert subjects(place, there) == [ALL[0], *ALL]
    place.segue(*RUN)
    assert place.subjects() == ALL


@pytest.mark.thorough
def test_another_clone_is_asked_about_and_taken_once_the_first_is_gone(place: Place) -> None:
    hub = publish(place)
    place.segue(*RUN, "--task", "1")
    place.git("push", "--quiet", "origin", "main")
    clone = place.root / "clone"
    git(place, place.root, "clone", "--quiet", str(hub), str(clone))

    assert f"{clone} is another clone of {place.repo}" in segue(place, clone, *RUN, code=2)
    assert subjects(place, clone) == ALL[:1]
    shutil.rmtree(place.repo)
    assert f"This repository was at {place.repo}; it is the same one." in segue(place, clone, *RUN)
    assert subjects(place, clone) == ALL


@pytest.mark.quick("{}/.git")
@pytest.mark.parametrize("address", ["{}", "{}/.git", "file://{}", "../repo"])
def test_a_clone_made_from_the_folder_itself_is_asked_about(place: Place, address: str) -> None:
    place.segue(*RUN, "--task", "1")
    clone = place.root / "clone"
    git(place, place.root, "clone", "--quiet", str(place.repo), str(clone))
    git(place, clone, "remote", "set-url", "origin", address.format(place.repo))

    assert f"{clone} is another clone of {place.repo}" in segue(place, clone, *RUN, code=2)
    assert subjects(place, clone) == ALL[:1]
    segue(place, clone, *RUN, "--plan-changed", "keep")
    assert subjects(place, clone) == ALL
    asked = place.segue(*RUN, code=2).stderr
    assert f"{place.repo} is another clone of {clone}" in asked, "the runs are the clone's now"


@pytest.mark.thorough
def test_work_that_was_not_pushed_is_missed_in_a_new_clone(place: Place) -> None:
    hub = publish(place)
    place.segue(*RUN, "--task", "1")
    clone = place.root / "clone"
    git(place, place.root, "clone", "--quiet", str(hub), str(clone))
    shutil.rmtree(place.repo)
    assert "The journal knows commits of task 1" in segue(place, clone, *RUN, code=2)
    assert subjects(place, clone) == []


@pytest.mark.thorough
def test_a_fork_with_another_remote_is_another_repository(place: Place) -> None:
    hub = publish(place)
    place.segue(*RUN, "--task", "1")
    fork, clone = place.root / "fork.git", place.root / "clone"
    shutil.copytree(hub, fork)
    git(place, place.root, "clone", "--quiet", str(fork), str(clone))
    git(place, clone, "remote", "add", "upstream", str(hub))
    shutil.rmtree(place.repo)
    assert "it is the same one" not in segue(place, clone, *RUN)
    assert subjects(place, clone) == ALL


@pytest.mark.thorough
def test_a_work_tree_of_the_same_repository_has_runs_of_its_own(place: Place) -> None:
    publish(place)
    other, third = place.root / "other", place.root / "third"
    place.git("worktree", "add", "--quiet", "-b", "side", str(other))
    place.segue(*RUN, "--task", "1")
    assert "same one" not in segue(place, other, *RUN)
    assert subjects(place, other) == ALL
    # One that was removed is not the next one that is made.
    place.git("worktree", "remove", "--force", str(other))
    place.git("worktree", "add", "--quiet", "-b", "next", str(third), "HEAD~1")
    assert "same one" not in segue(place, third, *RUN, "--task", "1")
    assert subjects(place, third) == ALL[:1]


@pytest.mark.thorough
def test_a_repository_without_commits_is_recognised_by_its_id(place: Place) -> None:
    plan = place.root / "plan.md"
    plan.write_text(PLAN)
    empty = place.root / "empty"
    git(place, place.root, "init", "--quiet", str(empty))
    run = ("run", str(plan), "--agent", "scripted", "--commit", "never")
    segue(place, empty, *run, "--task", "1", "--allow-dirty")
    there = empty.rename(place.root / "renamed")
    assert f"This repository was at {empty}; it is the same one." in segue(place, there, "status", "last")
    said = segue(place, there, *run, "--allow-dirty")
    assert "task 2 started" in said
    assert "task 1 started" not in said


@pytest.mark.parametrize("run_kept", [False, True], ids=["older-version", "id-lost"])
def test_one_without_a_mark_is_recognised_by_the_commits_of_its_runs(place: Place, run_kept: bool) -> None:
    place.segue(*RUN, "--task", "1")
    (place.repo / ".git" / "segue.id").unlink()
    if not run_kept:
        with closing(sqlite3.connect(place.database)) as journal, journal:
            journal.execute("update orchestrator_runs set spec = json_remove(spec, '$.repository')")
    there = place.repo.rename(place.root / "renamed")
    assert f"This repository was at {place.repo}; it is the same one." in segue(place, there, *RUN)
    assert subjects(place, there) == ALL


@pytest.mark.thorough
def test_a_feature_and_its_ticks_move_along(place: Place) -> None:
    feature = place.repo / "specs" / "001-login"
    feature.mkdir(parents=True)
    (feature / "tasks.md").write_text("# Tasks\n\n- [ ] T001 Write one.\n- [ ] T002 Write two.\n")
    (feature / "spec.md").write_text("# Login\n")
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "feature")
    run = ("run", "specs/001-login", "--agent", "scripted", "--flow", "execute")
    place.segue(*run, "--task", "T001")
    there = place.repo.rename(place.root / "renamed")
    said = segue(place, there, *run)
    assert "T002" in said
    assert "task T001 started" not in said
