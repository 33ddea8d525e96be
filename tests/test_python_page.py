"""The examples of docs/reference/python.md run as printed, one after the other, in a new repository."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import segue
from segue import (
    Agent,
    Delivery,
    Evidence,
    Handover,
    Job,
    Judge,
    Notifier,
    Options,
    Reviewer,
    Searcher,
    Source,
    Task,
    TaskList,
    check_judge,
    check_reviewer,
    public,
)

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "python.md"
PLAN = "## Task 1\n\nWrite hello.txt.\n\n## Task 2\n\nWrite bye.txt.\n"
SCRIPT = """
[[on]]
task = "1"
say = "I wrote it."
write = { "hello.txt" = "hello" }

[[on]]
say = "I wrote that too."
write = { "bye.txt" = "bye" }
"""


def example(name: str) -> str:
    """Return the block of the page with this name."""
    found = re.search(
        rf"^```python {name}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found, f"docs/reference/python.md has no example called {name}"
    return found[1]


def repository(folder: Path) -> Path:
    """Make a repository with a plan and a script for the simulated agent."""
    folder.mkdir()
    (folder / "plan.md").write_text(PLAN)
    (folder / "script.toml").write_text(SCRIPT)
    who = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    for words in (["init", "--quiet", "-b", "main"], ["add", "-A"], ["commit", "--quiet", "-m", "Start"]):
        subprocess.run(["git", *who, *words], cwd=folder, check=True)
    return folder


def run(code: str, folder: Path) -> str:
    """Run an example as a program of its own; return what it prints."""
    identity = {
        f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    environment = {**os.environ, **identity, "SEGUE_STATE_DIR": str(folder.parent / "state")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.thorough
def test_running_and_reading_a_source(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    lines = run(example("run"), repo).splitlines()
    assert lines[0] == "done"
    assert [line.split()[:3] for line in lines[1:3]] == [["1", "done", "1"], ["2", "done", "1"]]
    assert lines[3].split()[0] == "2"
    (listed, *ended) = run(example("store"), repo).splitlines()
    assert "plan done 2 of 2 tasks" in listed
    assert [line.split()[0] for line in ended] == ["task/1/execute/1", "task/2/execute/1"]


def test_watching_a_run(tmp_path: Path) -> None:
    said = run(example("watch"), repository(tmp_path / "repo"))
    assert "task 1: Write hello.txt." in said
    assert "  I wrote it." in said
    assert "task 2 done" in said


def test_the_reviewer_and_the_judge_conform() -> None:
    written: dict[str, Any] = {}
    exec(example("reviewer") + example("judge"), written)
    check_reviewer(
        lambda services: written["FixmeReviewer"](Options(), services), "notes.md", "FIXME: this\n", "Fine.\n"
    )
    check_judge(lambda services: written["ChangedJudge"](Options(), services))


def test_the_public_names_are_all_there_and_imported_late() -> None:
    for name in public.__all__:
        assert getattr(segue, name) is getattr(public, name)
    code = "import sys, segue; print(sorted(name for name in sys.modules if name.startswith('segue.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert segue.__all__ == public.__all__, "`from segue import *` works, too"


def classes_in(hint: object) -> Iterator[type]:
    """The classes of Segue that an annotation names."""
    if isinstance(hint, type) and hint.__module__.startswith("segue."):
        yield hint
    for one in hint if isinstance(hint, list) else get_args(hint):
        yield from classes_in(one)


@pytest.mark.parametrize(
    "part",
    [Agent, Source, Reviewer, Judge, Searcher, Notifier, Delivery, Job, Task, TaskList, Evidence, Handover],
)
def test_whoever_writes_a_part_finds_all_its_types(part: type) -> None:
    functions = [getattr(one, "fget", getattr(one, "__func__", one)) for one in vars(part).values()]
    hints = [get_type_hints(part), *(get_type_hints(one) for one in functions if inspect.isfunction(one))]
    used = {one.__name__ for hint in hints for found in hint.values() for one in classes_in(found)}
    assert used - set(public.__all__) == set()
