"""A failed task leaves no independent task waiting: what it left is put aside, and comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.place import Place, make_template
from tests.crash.faults import FAULTS, KILLS
from tests.crash.points import compiler, crash

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


@pytest.mark.thorough
def test_a_person_can_take_what_was_put_aside(failing: Place) -> None:
    failing.segue("run", "plan.md", code=3)
    (ref,) = kept_refs(failing)
    failing.git("stash", "apply", "--quiet", ref)
    changed = failing.git("status", "--short", "--untracked-files=all").split()
    assert {"f1", "notes.txt", "old.txt"} == set(changed[1::2])


@pytest.mark.thorough
def test_who_accepts_the_task_is_told_where_its_work_is(failing: Place) -> None:
    failing.segue("run", "plan.md", code=3)
    (ref,) = kept_refs(failing)
    assert f"stash apply {ref}" in failing.segue("task", "accept", "1").stderr


@pytest.mark.thorough
def test_it_fails_again_and_again_and_nothing_is_lost(failing: Place) -> None:
    failing.segue("run", "plan.md", code=3)
    failing.segue("resume", code=3)  # the only task that can be run, so what it leaves stays where it is
    assert (failing.repo / "f1").read_text() == "tried\n" * 2
    failing.gate.touch()
    failing.segue("resume")
    assert failing.git("show", "HEAD~1:f1") == "tried\n" * 3


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_nothing_is_committed_and_still_the_work_is_told_apart(failing: Place) -> None:
    failing.more_config('commit = "never"\n')
    failing.segue("run", "plan.md", code=3)
    assert failing.git("status", "--short", "--untracked-files=all").split() == ["??", "f2", "??", "f4"]
    assert len(kept_refs(failing)) == 1


@pytest.mark.thorough
def test_what_does_not_fit_any_more_stays_aside_and_is_named(failing: Place) -> None:
    failing.segue("run", "plan.md", code=3)
    (ref,) = kept_refs(failing)
    (failing.repo / "notes.txt").write_text("Something else\n")
    failing.git("commit", "--quiet", "--all", "-m", "Rewrite")
    failing.gate.touch()
    done = failing.segue("resume")
    assert f"does not fit what was done since (notes.txt). It is kept as {ref}" in done.stdout + done.stderr
    assert failing.git("show", "HEAD:notes.txt") == "Something else\none\n"
    assert kept_refs(failing) == [ref]


@pytest.mark.parametrize("way", ["option", "setting", "old name"])
def test_the_run_can_stop_instead(failing: Place, way: str) -> None:
    settings = {"setting": 'on_failure = "stop"\n', "old name": "continue_with_remaining_tasks = false\n"}
    failing.more_config(settings.get(way, ""))
    stopped = failing.segue("run", "plan.md", *(["--fail-fast"] if way == "option" else []), code=3)
    assert failing.subjects() == []
    assert kept_refs(failing) == []
    assert (failing.repo / "f1").read_text() == "tried\n"
    if way == "old name":
        assert "continue_with_remaining_tasks = false is now on_failure = stop" in stopped.stderr


@pytest.mark.thorough
def test_a_repository_that_the_task_made_is_moved_out_of_the_way(failing: Place) -> None:
    failing.script(SCRIPT.replace('run = ["', 'run = ["git init --quiet inner", "touch inner/file", "'))
    failing.segue("run", "plan.md", code=3)
    assert failing.subjects() == ["Task 2: Write two.", "Task 4: Write four."]
    assert not (failing.repo / "inner").exists()
    (moved,) = (failing.repo / ".git" / "segue-kept").glob("*/1/inner")
    assert (moved / "file").exists()


@pytest.mark.thorough
@pytest.mark.skipif(compiler() is None, reason="no C compiler is installed")
@pytest.mark.parametrize("share", [number / 12 for number in range(3, 12)])
@pytest.mark.parametrize("fault", KILLS)
def test_a_kill_at_any_time_loses_nothing_of_it(failing: Place, fault: str, share: float) -> None:
    """Of Segue alone, or of everything: from the end of the failed task to the end of the run."""
    calls = crash(failing, ("run", "plan.md"), 0, *FAULTS[fault]).calls
    again = Place.make(failing.root / "again", template=make_template(FILES))
    noted = f"sh -c 'echo 1 >> {again.root}/launches'"
    again.script(SCRIPT.replace('run = ["', f'run = ["{noted}", "'))
    crash(again, ("run", "plan.md"), int(share * calls), *FAULTS[fault])
    again.segue("resume", code=3)
    assert again.git("show", "HEAD:notes.txt") == "Notes\n", "nothing of task 1 is in another's commit"
    again.gate.touch()
    again.segue("resume")
    lines = again.git("show", "HEAD:notes.txt").splitlines()
    attempts = len((again.root / "launches").read_text().split())
    assert set(lines) == {"Notes", "one"}
    assert len(lines) > attempts > 1, "every attempt began with what was left before it"
    assert sorted(again.subjects()) == sorted(
        [
            "Task 1: Write one.",
            "Task 2: Write two.",
            "Task 3: Write three, after Task 1.",
            "Task 4: Write four.",
        ]
    )
    assert again.git("status", "--short") == ""
    assert again.rows("select key from orchestrator_steps where state = 'started'") == []


@pytest.mark.thorough
def test_what_a_person_committed_after_a_failure_is_in_nobodys_way(failing: Place) -> None:
    failing.segue("run", "plan.md", "--task", "1", code=3)
    failing.git("restore", ".")
    failing.git("clean", "--quiet", "--force", "f1")
    failing.git("commit", "--quiet", "--allow-empty", "-m", "By hand")
    (failing.repo / "mine.txt").write_text("not committed")
    refused = failing.segue("run", "plan.md", "--task", "2", "--allow-dirty", code=3)
    assert (
        "No task was begun: what task 1 left cannot be put aside: somebody else committed" in refused.stderr
    )
    (failing.repo / "mine.txt").unlink()
    failing.segue("run", "plan.md", "--task", "2")
    assert failing.subjects() == ["By hand", "Task 2: Write two."]
