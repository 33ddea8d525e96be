"""A failed task leaves no independent task waiting: what it left is put aside, and comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.place import Place, make_template

PLAN = """# Plan

## Task 1
Write one.

## Task 2
Write two.

## Task 3
Write three, after Task 1.

## Task 4
Write four.
"""
SCRIPT = """
[[on]]
phase = "execute"
task = 1
append = { "notes.txt" = "one\\n", "f1" = "tried\\n" }
run = ["rm -f old.txt", "test -e GATE"]

[[on]]
phase = "execute"
write = { "f{task}" = "the work of {task}" }
"""
FILES = {"plan.md": PLAN, "notes.txt": "Notes\n", "old.txt": "old\n"}


@pytest.fixture
def failing(tmp_path: Path) -> Place:
    """A place where task 1 fails, with changes in the work tree, until its gate is open."""
    place = Place.make(tmp_path, template=make_template(FILES))
    place.script(SCRIPT)
    return place


def kept_refs(place: Place) -> list[str]:
    return place.git("for-each-ref", "--format=%(refname)", "refs/segue/kept").split()


def test_independent_tasks_are_run_and_the_failed_one_begins_with_its_work_again(failing: Place) -> None:
    stopped = failing.segue("run", "plan.md", code=3)
    assert failing.subjects() == ["Task 2: Write two.", "Task 4: Write four."]
    assert failing.git("status", "--short") == ""
    assert failing.git("show", "HEAD:notes.txt") == "Notes\n", "nothing of task 1 is in another's commit"
    (ref,) = kept_refs(failing)
    assert f"what the agent left behind is kept as {ref}" in stopped.stderr
    assert "1 more waits for that" in stopped.stderr
    shown = failing.segue("status", failing.last_run()).stdout
    assert f"stash apply {ref}" in shown
    assert "Task 3: waits for 1" in shown
    tasks = {task["key"]: task for task in failing.json("status", failing.last_run())["tasks"]}
    assert (tasks["1"]["state"], tasks["1"]["kept"], tasks["3"]["state"]) == ("needs_human", ref, "blocked")

    failing.gate.touch()
    failing.segue("resume")
    assert failing.subjects()[2:] == ["Task 1: Write one.", "Task 3: Write three, after Task 1."]
    assert failing.git("show", "HEAD:notes.txt") == "Notes\none\none\n", "it began with what it had left"
    assert "old.txt" not in failing.git("ls-files")
    assert failing.git("status", "--short") == ""
    assert failing.json("status", failing.last_run())["tasks"][0]["kept"] is None


def test_what_a_person_had_not_committed_stays(failing: Place) -> None:
    (failing.repo / "mine.txt").write_text("mine\n")
    (failing.repo / "notes.txt").write_text("My notes\n")
    failing.segue("run", "plan.md", "--allow-dirty", code=3)
    assert failing.git("show", "HEAD:notes.txt") == "My notes\n"
    assert failing.git("show", "HEAD:mine.txt") == "mine\n"
    assert not (failing.repo / "f1").exists()
    failing.gate.touch()
    failing.segue("resume")
    assert failing.git("show", "HEAD:notes.txt") == "My notes\none\none\n"


@pytest.mark.parametrize(("setting", "option"), [("", ["--fail-fast"]), ('on_failure = "stop"\n', [])])
def test_the_run_can_stop_instead(failing: Place, setting: str, option: list[str]) -> None:
    failing.more_config(setting)
    failing.segue("run", "plan.md", *option, code=3)
    assert failing.subjects() == []
    assert kept_refs(failing) == []
    assert (failing.repo / "f1").read_text() == "tried\n"
