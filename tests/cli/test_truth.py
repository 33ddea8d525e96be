"""The journal is the truth: what becomes of a run when its state file or its repository is lost."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.place import DEADLINE, PLAN, SEGUE, Place, until
from tests.cli.test_build import GOAL, TWO
from tests.cli.test_spec import feature as feature
from tests.cli.test_spec import folder

SLOW_THIRD = """
[[on]]
task = "3"
append = { "started" = "{task}\\n" }
wait_for = "GATE"
write = { "f{task}" = "x" }
[[on]]
append = { "started" = "{task}\\n" }
write = { "f{task}" = "x" }
"""
WORK = '[[on]]\nappend = { "f{task}" = "x" }\n'
FAIL = '[[on]]\ntask = "3"\nexit_code = 1\n' + WORK

Damage = Callable[[Path], object]
DAMAGES: dict[str, Damage] = {
    "deleted": Path.unlink,
    "emptied": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:60]),
    "garbage": lambda path: path.write_bytes(b"\xff\x00{"),
}


def completed(place: Place) -> list[int]:
    """Return what the state file says; it may be written a moment after a task has ended."""
    known: list[int] = json.loads(place.state_file().read_text())["completed_task_indices"]
    return known


def kill_in_task_3(place: Place, *command: str) -> None:
    process = place.start(*command)
    until(lambda: place.started("task/3/execute/1"), "task 3 has begun")
    until(lambda: completed(place) == [1, 2], "the state file knows what is done")
    process.kill()
    process.wait(DEADLINE)
    place.gate.touch()


@pytest.mark.quick("emptied-run")
@pytest.mark.parametrize("again", [("resume",), ("run", "plan.md")], ids=["resume", "run"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_no_finished_task_is_launched_again_without_its_state_file(
    place: Place, damage: Damage, again: tuple[str, ...]
) -> None:
    place.script(SLOW_THIRD)
    kill_in_task_3(place, "run", "plan.md")
    before = json.loads(place.state_file().read_text())
    damage(place.state_file())
    done = place.segue(*again)
    assert "Rebuilt the state file from the journal (2 tasks done)" in done.stderr
    assert (place.repo / "started").read_text().split() == ["1", "2", "3"]
    assert place.subjects() == ["Task 1: Write one.", "Task 2: Write two.", "Task 3: Write three."]
    after = json.loads(place.state_file().read_text())
    assert after["completed_task_indices"] == [1, 2, 3]
    assert after["last_completed_ref"] == place.git("rev-parse", "HEAD").strip()
    assert {key: after["task_hashes"][key] for key in "12"} == before["task_hashes"]


@pytest.mark.thorough
def test_an_older_state_file_is_brought_up_to_date(place: Place) -> None:
    place.script(FAIL)
    place.segue("run", "plan.md", "--task", "1")
    backup = place.state_file().read_bytes()
    place.segue("run", "plan.md", code=3)
    place.state_file().write_bytes(backup)
    place.script(WORK)
    done = place.segue("resume")
    assert "older than the journal" in done.stderr
    assert "(2 tasks done)" in done.stderr
    assert (place.repo / "f2").read_text() == "x"


@pytest.mark.thorough
def test_a_rebuilt_state_file_still_knows_what_the_tasks_said(place: Place) -> None:
    place.script(FAIL)
    place.segue("run", "plan.md", code=3)
    place.state_file().unlink()
    (place.repo / "plan.md").write_text(PLAN.replace("Write one.", "Write something else."))
    done = place.segue("run", "plan.md", "--allow-dirty", code=2)
    assert "completed tasks 1 say something else" in done.stderr
    assert "--plan-changed keep" in done.stderr


@pytest.mark.thorough
def test_what_a_person_decided_survives_the_loss_of_the_state_file(place: Place) -> None:
    place.script('[[on]]\ntask = "1"\nexit_code = 1\n[[on]]\nappend = { "f{task}" = "x" }\n')
    place.segue("run", "plan.md", "--fail-fast", code=3)
    place.segue("task", "skip", "1", "--reason", "no need")
    place.segue("task", "accept", "2")
    place.state_file().unlink()
    place.segue("resume")
    assert not (place.repo / "f2").exists()
    assert (place.repo / "f3").exists()
    state = json.loads(place.state_file().read_text())
    assert (state["completed_task_indices"], state["skipped_task_keys"]) == ([2, 3], ["1"])


def test_an_edited_state_file_is_adopted_for_good(place: Place) -> None:
    place.script(FAIL)
    place.segue("run", "plan.md", code=3)
    state = json.loads(place.state_file().read_text())
    state |= {"completed_task_indices": [1], "completed_task_keys": ["1"]}
    place.state_file().write_text(json.dumps(state))
    process = place.start("run", "plan.md", SEGUE_LIMITS__LAUNCHES="1")
    assert process.wait(DEADLINE) != 0
    place.state_file().unlink()
    place.script(WORK)
    done = place.segue("resume", SEGUE_LIMITS__LAUNCHES="100")
    assert "(1 task done)" in done.stderr
    assert (place.repo / "f1").read_text() == "x"
    assert (place.repo / "f2").read_text() == "xx"


@pytest.mark.thorough
def test_a_restart_is_not_taken_for_a_loss(place: Place) -> None:
    place.script('[[on]]\nappend = { "f{task}" = "x" }\n')
    place.segue("run", "plan.md")
    place.segue("run", "plan.md", "--restart", "--task", "1")
    assert (place.repo / "f1").read_text() == "xx"
    place.state_file().unlink()
    done = place.segue("run", "plan.md", "--task", "1", "--task", "2")
    assert "(1 task done)" in done.stderr
    assert [(place.repo / name).read_text() for name in ("f1", "f2", "f3")] == ["xx", "xx", "x"]


@pytest.mark.thorough
def test_a_running_source_is_not_restarted(place: Place) -> None:
    place.script(SLOW_THIRD)
    process = place.start("run", "plan.md")
    until(lambda: place.started("task/3/execute/1"), "task 3 has begun")
    until(lambda: completed(place) == [1, 2], "the state file knows what is done")
    place.segue("run", "plan.md", "--restart", code=6)
    assert completed(place) == [1, 2]
    place.segue("stop")
    assert process.wait(DEADLINE) == 130


@pytest.mark.thorough
@pytest.mark.quick("deleted")
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_the_state_of_a_feature_is_rebuilt_with_its_branch(feature: Place, damage: Damage) -> None:
    judged = 'judged_by = "checks"\nchecks = [["true"]]\n'
    feature.script(FAIL.replace('"3"', '"T003"'))
    feature.more_config(judged)
    feature.segue("run", code=3)
    path, tasks = folder(feature) / "state.json", folder(feature) / "tasks.md"
    before = json.loads(path.read_text())
    damage(path)
    tasks.write_text(tasks.read_text().replace("[x]", "[ ]"))
    feature.script(WORK)
    feature.more_config(judged)
    done = feature.segue("resume")
    assert "(2 tasks done)" in done.stderr
    assert tasks.read_text().count("[x]") == 3
    after = json.loads(path.read_text())
    for key in ("T001", "T002"):
        kept = {
            name: before["tasks"][key][name] for name in ("status", "text", "branch", "commit", "attempts")
        }
        assert {name: after["tasks"][key][name] for name in kept} == kept
    assert [(feature.repo / f"f{key}").read_text() for key in ("T001", "T002")] == ["x", "x"]
    assert (
        feature.git("status", "--porcelain").split() == ["M", "specs/001-greeting/tasks.md"] or path.exists()
    )


@pytest.mark.thorough
def test_a_feature_killed_before_its_state_was_written_resumes(feature: Place) -> None:
    feature.script('[[on]]\nwait_for = "GATE"\nwrite = { "done/{task}" = "x" }\n')
    feature.more_config('judged_by = "checks"\nchecks = [["test", "-d", "done"]]\n')
    process = feature.start("run")
    until(lambda: feature.started("task/T001/execute/1"), "the first task has begun")
    process.kill()
    process.wait(DEADLINE)
    feature.gate.touch()
    (folder(feature) / "state.json").unlink(missing_ok=True)
    feature.segue("resume")
    assert (folder(feature) / "tasks.md").read_text().count("[x]") == 3


@pytest.mark.thorough
def test_the_plan_an_agent_made_is_rebuilt(place: Place) -> None:
    place.script(TWO + '[[on]]\ntask = "2"\nphase = "execute"\nexit_code = 1\n')
    place.segue("run", GOAL, code=3, SEGUE_LIMITS__RESOLUTIONS="0")
    (path,) = (place.database.parent / "prompts").glob("*.json")
    before = json.loads(path.read_text())
    path.unlink()
    place.script(TWO)
    done = place.segue("resume")
    assert "(1 task done)" in done.stderr
    assert place.subjects() == ["Task 1: Make a", "Task 2: Make b"]
    assert [step["title"] for step in json.loads(path.read_text())["steps"]] == ["Make a", "Make b"]
    assert [step["criteria"] for step in before["steps"]] == [
        step["criteria"] for step in json.loads(path.read_text())["steps"]
    ]
    place.segue("run", GOAL, "--restart")
    assert len(place.events("plan.revised")) == 2


def make_anew(place: Place) -> None:
    shutil.rmtree(place.repo)
    place.repo.mkdir()
    (place.repo / "plan.md").write_text(PLAN)
    for args in (("init", "-q"), ("config", "user.name", "T"), ("config", "user.email", "t@localhost")):
        place.git(*args)
    place.git("add", "--all")
    place.git("commit", "-q", "-m", "anew")


@pytest.mark.thorough
@pytest.mark.parametrize("state", ["kept", "lost"])
def test_a_repository_made_anew_is_asked_about(place: Place, state: str) -> None:
    place.script('[[on]]\nappend = { "f{task}" = "x" }\n')
    place.segue("run", "plan.md")
    make_anew(place)
    if state == "lost":
        place.state_file().unlink()
    done = place.segue("run", "plan.md", code=2)
    assert "tasks 1 (" in done.stderr
    assert "does not contain them" in done.stderr
    assert "--plan-changed keep" in done.stderr
    assert place.segue("run", "plan.md", "--plan-changed", "keep").stdout == "No pending tasks to process.\n"
    place.segue("run", "plan.md", "--plan-changed", "restart")
    assert place.subjects() == ["Task 1: Write one.", "Task 2: Write two.", "Task 3: Write three."]
    place.segue("run", "plan.md")


@pytest.mark.thorough
def test_a_task_that_was_cut_off_in_the_old_repository_begins_again(place: Place) -> None:
    place.script(SLOW_THIRD)
    kill_in_task_3(place, "run", "plan.md")
    place.segue("stop")
    make_anew(place)
    for command in (("resume",), ("run", "plan.md")):
        done = place.segue(*command, code=2)
        assert "tasks 1 (" in done.stderr
        assert "bad object" not in done.stderr
    place.segue("run", "plan.md", "--plan-changed", "keep")
    assert place.subjects() == ["Task 3: Write three."]
    assert place.segue("run", "plan.md").stdout == "No pending tasks to process.\n", "it asks only once"


@pytest.mark.thorough
def test_a_rebased_commit_is_found_by_its_trailer(place: Place) -> None:
    place.script(FAIL)
    place.segue("run", "plan.md", code=3)
    place.git("stash", "--include-untracked", "--quiet")
    place.git("commit", "--quiet", "--amend", "--reset-author", "--no-edit", "--date", "2001-01-01T00:00:00")
    place.git("reflog", "expire", "--expire=now", "--all")
    place.git("gc", "--quiet", "--prune=now")
    place.script(WORK)
    place.segue("run", "plan.md")
    assert len(place.subjects()) == 3


@pytest.mark.thorough
def test_a_shallow_clone_is_asked_about_and_told_how_to_get_the_rest(place: Place) -> None:
    place.script(FAIL)
    place.segue("run", "plan.md", "--task", "1")
    place.segue("run", "plan.md", "--task", "2")
    full = place.root / "full"
    place.repo.rename(full)
    subprocess.run(
        ["git", "clone", "-q", "--depth=1", full.as_uri(), str(place.repo)], check=True, env=place.env
    )
    done = place.segue("run", "plan.md", code=2)
    assert "task 1 (" in done.stderr
    assert "git fetch --unshallow" in done.stderr
    place.git("fetch", "-q", "--unshallow")
    place.git("config", "user.name", "T")
    place.git("config", "user.email", "t@localhost")
    place.segue("run", "plan.md", code=3)


def move_to_second_machine(place: Place) -> Place:
    """A clone at the same path, with a state folder of its own and the same database."""
    place.segue("stop")
    here = "substr(owner, 1, instr(owner, '/'))"
    owner = f"update orchestrator_steps set owner = replace(owner, {here}, 'elsewhere/')"
    with closing(sqlite3.connect(place.database)) as database, database:
        database.execute(owner)
    place.repo.rename(place.root / "first")
    subprocess.run(
        ["git", "clone", "-q", str(place.root / "first"), str(place.repo)], check=True, env=place.env
    )
    for name, value in (("user.name", "T"), ("user.email", "t@localhost")):
        place.git("config", name, value)
    database_url = {"SEGUE_DATABASE_URL": str(place.database)}
    return Place(place.root, {**place.env, **database_url, "XDG_STATE_HOME": str(place.root / "second")})


def test_a_second_machine_continues_where_the_work_is(place: Place) -> None:
    place.script(FAIL)
    place.segue("run", "plan.md", code=3)
    second = move_to_second_machine(place)
    second.script(WORK)
    done = second.segue("resume")
    assert "(2 tasks done)" in done.stderr
    assert [(second.repo / name).read_text() for name in ("f1", "f2", "f3")] == ["x", "x", "x"]
    assert len(second.subjects()) == 3


@pytest.mark.quick("resume")
@pytest.mark.parametrize("command", [("resume",), ("run", "plan.md")], ids=["resume", "run"])
def test_a_second_machine_without_the_work_is_refused(place: Place, command: tuple[str, ...]) -> None:
    place.script(FAIL)
    place.segue("run", "plan.md", code=3)
    second = move_to_second_machine(place)
    second.git("reset", "-q", "--hard", "HEAD~2")
    for args in (("remote", "remove", "origin"), ("reflog", "expire", "--expire=now", "--all")):
        second.git(*args)
    second.git("gc", "-q", "--prune=now")
    done = second.segue(*command, code=2)
    assert "tasks 1 (" in done.stderr
    assert "last worked on by the machine elsewhere" in done.stderr
    assert "bad object" not in done.stderr
    assert second.subjects() == []


@pytest.mark.thorough
def test_a_run_whose_repository_is_not_here_is_refused(place: Place) -> None:
    place.script(FAIL)
    place.segue("run", "plan.md", code=3)
    run = place.last_run()
    shutil.rmtree(place.repo)
    subprocess.run(["git", "init", "--quiet", str(place.root / "other")], check=True)
    done = subprocess.run(
        [*SEGUE, "resume", run],
        cwd=place.root / "other",
        env=place.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"works in {place.repo}, which does not exist here" in done.stderr
