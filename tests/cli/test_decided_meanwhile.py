"""A person decides about a failed task while the run works on others: it obeys between two tasks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.place import DEADLINE, Place, make_template, until
from tests.cli.test_on_failure import FILES, kept_refs
from tests.crash.faults import FAULTS, KILLS
from tests.crash.points import compiler, crash

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


JOBS = pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.thorough)])


@JOBS
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


@JOBS
def test_a_task_is_tried_again_with_what_i_say(place: Place, jobs: str) -> None:
    process = begin(place, "--jobs", jobs)
    before = launches(place, "1")
    open_task(place)
    assert place.json("task", "comment", "1", "Now it works.")["how"] == "launch"
    end(place, process)
    assert launches(place, "1") == before + 1
    assert set(place.subjects()) >= SUBJECTS, "also what waited for it"
    prompts = [text for (text,) in place.rows("select text from orchestrator_prompts")]
    assert sum("Now it works." in text for text in prompts) == 1


@pytest.mark.thorough
def test_where_a_seat_is_free_nobody_waits_for_another_task(place: Place) -> None:
    process = begin(place, "--jobs", "2")
    open_task(place)
    place.segue("say", "1", "Now it works.")
    until(
        lambda: place.started("task/3/commit/task"),
        "what waited for task 1 is done",
    )
    assert not place.started("task/2/end")
    end(place, process)


@JOBS
def test_a_task_is_skipped_and_its_work_is_kept(place: Place, jobs: str) -> None:
    process = begin(place, "--jobs", jobs)
    place.segue("task", "skip", "1", "--reason", "not needed")
    end(place, process)
    assert sorted(path.name for path in place.repo.glob("f*")) == ["f2", "f3", "f4"]
    assert [place.git("show", f"{ref}:notes.txt") for ref in kept_refs(place)] == ["Notes\none\n"]


@pytest.mark.thorough
def test_a_task_that_fails_again_may_be_decided_again(place: Place) -> None:
    process = begin(place)
    place.segue("say", "1", "Try it once more.")
    end(place, process, 3)
    assert launches(place, "1") == 2
    place.segue("task", "accept", "1")
    place.segue("resume")
    assert launches(place, "1") == 2


def test_what_does_not_fit_any_more_is_not_accepted(place: Place) -> None:
    place.script(SCRIPT.replace("OPEN", "nowhere").replace('"f2" =', '"notes.txt" = "Mine", "f2" ='))
    process = begin(place)
    place.segue("task", "accept", "1")
    end(place, process, 3)
    (ref,) = kept_refs(place)
    assert f"does not fit what was done since; it is kept as {ref}" in place.segue("logs", "last").stdout
    assert place.json("status", place.last_run())["tasks"][0]["state"] == "needs_human"


@pytest.mark.thorough
def test_only_what_has_failed_is_accepted_while_the_run_works(place: Place) -> None:
    process = begin(place)
    refused = place.segue("task", "accept", "2", code=6).stderr
    assert "Task 2 is being worked on, so it cannot be accepted now" in refused
    assert "segue stop" in refused
    assert "Task 4 is pending" in place.segue("task", "accept", "4", code=6).stderr
    end(place, process, 3)


@pytest.mark.thorough
@pytest.mark.skipif(compiler() is None, reason="no C compiler is installed")
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("share", [number / 10 for number in range(1, 10)])
@pytest.mark.parametrize("fault", KILLS)
def test_a_kill_at_any_time_obeys_once(tmp_path: Path, fault: str, share: float, jobs: str) -> None:
    def resume(place: Place, at: int) -> int:
        process = begin(place, "--jobs", jobs)
        place.segue("task", "accept", "1")
        process.kill()
        process.wait(DEADLINE)
        place.gate.touch()
        return crash(place, ("resume",), at, *FAULTS[fault]).calls

    calls = resume(failing(tmp_path), 0)
    place = failing(tmp_path / "again")
    resume(place, int(share * calls))
    place.segue("resume", code=None)
    assert launches(place, "1") == 1
    assert set(place.subjects()) >= SUBJECTS
    assert place.git("show", "HEAD:notes.txt") == "Notes\none\n"
    assert place.git("status", "--short") == ""
    assert place.rows("select key from orchestrator_steps where state = 'started'") == []
