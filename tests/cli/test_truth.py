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

from tests.cli.place import DEADLINE, PLAN, Place, until

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


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_no_finished_task_is_launched_again_without_its_state_file(place: Place, damage: Damage) -> None:
    place.script(SLOW_THIRD)
    kill_in_task_3(place, "run", "plan.md")
    before = json.loads(place.state_file().read_text())
    damage(place.state_file())
    done = place.segue("run", "plan.md")
    assert "Rebuilt the state file from the journal (2 tasks done)" in done.stderr
    assert (place.repo / "started").read_text().split() == ["1", "2", "3"]
    assert place.subjects() == ["Task 1: Write one.", "Task 2: Write two.", "Task 3: Write three."]
    after = json.loads(place.state_file().read_text())
    assert after["completed_task_indices"] == [1, 2, 3]
    assert after["last_completed_ref"] == place.git("rev-parse", "HEAD").strip()
    assert {key: after["task_hashes"][key] for key in "12"} == before["task_hashes"]


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


def make_anew(place: Place) -> None:
    shutil.rmtree(place.repo)
    place.repo.mkdir()
    (place.repo / "plan.md").write_text(PLAN)
    for args in (("init", "-q"), ("config", "user.name", "T"), ("config", "user.email", "t@localhost")):
        place.git(*args)
    place.git("add", "--all")
    place.git("commit", "-q", "-m", "anew")


def test_a_repository_made_anew_is_asked_about(place: Place) -> None:
    place.script('[[on]]\nappend = { "f{task}" = "x" }\n')
    place.segue("run", "plan.md")
    make_anew(place)
    done = place.segue("run", "plan.md", code=2)
    assert "tasks 1 (" in done.stderr
    assert "does not contain them" in done.stderr
    assert "--plan-changed keep" in done.stderr
    assert place.segue("run", "plan.md", "--plan-changed", "keep").stdout == "No pending tasks to process.\n"
    place.segue("run", "plan.md", "--plan-changed", "restart")
    assert place.subjects() == ["Task 1: Write one.", "Task 2: Write two.", "Task 3: Write three."]
    place.segue("run", "plan.md")


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


def test_a_second_machine_without_the_work_is_refused(place: Place) -> None:
    command = ("resume",)
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
