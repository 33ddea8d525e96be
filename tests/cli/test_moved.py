"""A repository is recognised when its folder was moved."""

from __future__ import annotations

import shutil
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


def test_a_copy_starts_anew_while_the_original_is_there(place: Place) -> None:
    place.segue(*RUN, "--task", "1")
    copy = place.root / "copy"
    shutil.copytree(place.repo, copy, symlinks=True)
    assert "it is the same one" not in segue(place, copy, *RUN)
    assert subjects(place, copy) == [ALL[0], *ALL], "whose runs are those of the original"
    assert subjects(place, place.repo) == ALL[:1]
    place.segue(*RUN)
    assert subjects(place, place.repo) == ALL, "the original has runs of its own"
