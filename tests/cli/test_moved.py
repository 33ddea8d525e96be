"""A repository is recognised when its folder was moved, copied, cloned again or mounted elsewhere."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cli.place import Place
from tests.warm import run_segue

RUN = ("run", "plan.md", "--agent", "scripted")
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


def test_a_clone_made_from_the_folder_itself_is_asked_about(place: Place) -> None:
    address = "{}/.git"
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
