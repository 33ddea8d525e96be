"""A person decides about a failed task while the run works on others: it obeys between two tasks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.place import DEADLINE, Place, make_template, until
from tests.cli.test_on_failure import FILES, kept_refs

SCRIPT = """
[[on]]
phase = "execute"
task = 1
append = { "notes.txt" = "one\\n", "f1" = "tried\\n" }
run = ["rm -f old.txt", "test -e OPEN"]

[[on]]
phase = "execute"
task = 2
wait_for = "GATE"
write = { "f2" = "the work of 2" }

[[on]]
phase = "execute"
write = { "f{task}" = "the work of {task}" }
"""
SUBJECTS = {
    "Task 1: Write one.",
    "Task 2: Write two.",
    "Task 3: Write three, after Task 1.",
    "Task 4: Write four.",
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A place where task 1 fails until somebody opens it, and task 2 waits for the gate."""
    return failing(tmp_path)


def failing(root: Path) -> Place:
    place = Place.make(root, template=make_template(FILES))
    place.script(SCRIPT.replace("OPEN", str(root / "open")))
    return place


def open_task(place: Place) -> None:
    (place.root / "open").touch()


def begin(place: Place, *args: str) -> subprocess.Popen[str]:
    """Start a run, and return when task 1 has failed and task 2 is worked on."""
    process = place.start("run", "plan.md", *args)
    until(lambda: place.started("task/1/end") and place.started("task/2/execute/1"), "task 1 has failed")
    return process


def end(place: Place, process: subprocess.Popen[str], code: int = 0) -> None:
    place.gate.touch()
    assert process.wait(DEADLINE) == code
    assert place.git("status", "--short") == ""
    assert place.rows("select key from orchestrator_steps where state = 'started'") == []


def launches(place: Place, task: str) -> int:
    """How many agents worked on a task."""
    return sum(event["task"] == task for event in place.events("step.started") if event["phase"] == "execute")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_task_is_accepted_as_it_is(place: Place, jobs: str) -> None:
    process = begin(place, "--jobs", jobs)
    before = launches(place, "1")
    said = place.segue("task", "accept", "1", "--reason", "good enough").stdout
    assert "The run works: it will accept task 1 before it begins another one." in said
    end(place, process)
    assert launches(place, "1") == before
    assert set(place.subjects()) >= SUBJECTS
    assert place.git("show", "HEAD:f1") == "tried\n" * before, "its work as it was left"
    assert place.git("show", "HEAD:notes.txt") == "Notes\n" + "one\n" * before
    assert "old.txt" not in place.git("ls-files")
    (marked,) = [event for event in place.events("task.marked") if event["by"]]
    assert (marked["task"], marked["by"], marked["reason"]) == ("1", "Tester", "good enough")
    task = place.json("status", place.last_run())["tasks"][0]
    assert (task["state"], task["kept"]) == ("done", None)
    assert "accepted by Tester" in place.segue("proof", place.last_run(), "1").stdout


def test_a_task_is_tried_again_with_what_i_say(place: Place) -> None:
    process = begin(place)
    before = launches(place, "1")
    open_task(place)
    assert place.json("task", "say", "1", "Now it works.")["how"] == "launch"
    end(place, process)
    assert launches(place, "1") == before + 1
    assert set(place.subjects()) >= SUBJECTS, "also what waited for it"
    prompts = [text for (text,) in place.rows("select text from orchestrator_prompts")]
    assert sum("Now it works." in text for text in prompts) == 1


def test_what_does_not_fit_any_more_is_not_accepted(place: Place) -> None:
    place.script(SCRIPT.replace("OPEN", "nowhere").replace('"f2" =', '"notes.txt" = "Mine", "f2" ='))
    process = begin(place)
    place.segue("task", "accept", "1")
    end(place, process, 3)
    (ref,) = kept_refs(place)
    assert f"does not fit what was done since; it is kept as {ref}" in place.segue("logs", "last").stdout
    assert place.json("status", place.last_run())["tasks"][0]["state"] == "needs_human"
