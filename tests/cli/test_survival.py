"""Kill it at any instant, start it again, and nothing is lost or doubled."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from segue.system import identity
from tests.cli.place import DEADLINE, Place, processes_with, until
from tests.patience import seeds

COUNTED = """
[[on]]
append = { "started" = "{task}\\n" }
write = { "f{task}" = "x" }
"""
GATED = COUNTED + 'wait_for = "GATE"\n'


def started(place: Place) -> list[str]:
    """Which tasks an agent was started for, in order."""
    path = place.repo / "started"
    return path.read_text().split() if path.exists() else []


def gone(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(DEADLINE)


def test_an_agent_at_work_is_adopted_after_kill_9(place: Place) -> None:
    place.script(GATED)
    process = place.start("run", "plan.md")
    until(place.jobs_at_work, "the agent works")
    gone(process)
    place.gate.touch()
    place.segue("resume")
    assert started(place) == ["1", "2", "3"]
    assert len(place.subjects()) == 3
    assert place.rows("select count(*) from orchestrator_events where type = 'step.adopted'") == [(1,)]


@pytest.mark.thorough
def test_resume_after_the_agent_ended_without_segue(place: Place) -> None:
    place.script(GATED)
    process = place.start("run", "plan.md")
    until(place.jobs_at_work, "the agent works")
    gone(process)
    place.gate.touch()
    until(lambda: list((place.database.parent / "runs").glob("*/jobs/*/exit.json")), "the agent has ended")
    assert place.json("status")[0]["state"] == "stopped"
    place.segue("run", "plan.md")
    assert started(place) == ["1", "2", "3"]
    assert len(place.subjects()) == 3


@pytest.mark.thorough
@pytest.mark.torture
@pytest.mark.parametrize("seed", seeds(3))
def test_random_kills_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    plan = "".join(f"## Task {n}\nDo {n}.\n\n" for n in range(1, 9))
    place = Place.make(tmp_path, plan)
    place.script(COUNTED + "delay = 0.05\n")
    dice = random.Random(seed)
    for _ in range(40):
        process = place.start("run", "plan.md")
        killer = threading.Timer(dice.uniform(0.1, 1.2), process.kill)
        killer.start()
        code = process.wait(DEADLINE)
        killer.cancel()
        if code == 0:
            break
        assert code == -signal.SIGKILL, f"exit {code}"
    place.segue("run", "plan.md")
    assert started(place) == [str(n) for n in range(1, 9)]
    assert place.subjects() == [f"Task {n}: Do {n}." for n in range(1, 9)]
    assert json.loads(place.state_file().read_text())["completed_task_indices"] == list(range(1, 9))
    assert list(processes_with(str(tmp_path))) == []


def test_ctrl_c_saves_and_leaves_nothing_behind(place: Place) -> None:
    place.script(
        '[[on]]\ntask = "1"\nattempt = 1\norphan = true\nhang = true\n[[on]]\nwrite = { "f{task}" = "x" }\n'
    )
    marker = f"mark-{place.root.name}"
    process = place.start("run", "plan.md", LC_MARK=marker, SEGUE_LIMITS__KILL_GRACE="0.2")
    until(place.jobs_at_work, "the agent works")
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE) == 130
    assert list(processes_with(marker)) == []
    assert place.json("status")[0]["state"] == "stopped"
    place.segue("resume", "--json")
    assert len(place.subjects()) == 3


def test_stop_ends_a_living_run(place: Place) -> None:
    place.script("[[on]]\nhang = true\n")
    process = place.start("run", "plan.md", SEGUE_LIMITS__KILL_GRACE="0.2")
    until(place.jobs_at_work, "the agent works")
    done = place.segue("stop")
    assert process.wait(DEADLINE) == 130
    assert "stopped" in done.stdout


def test_stop_ends_what_a_killed_segue_left_behind(place: Place) -> None:
    place.script("[[on]]\nhang = true\n")
    marker = f"mark-{place.root.name}"
    process = place.start("run", "plan.md", LC_MARK=marker, SEGUE_LIMITS__KILL_GRACE="0.2")
    until(place.jobs_at_work, "the agent works")
    gone(process)
    assert list(processes_with(marker)) != []
    place.segue("stop")
    assert list(processes_with(marker)) == []
    assert place.json("status")[0]["state"] == "stopped"


def test_a_second_run_in_the_same_repository_is_told_who_holds_it(place: Place) -> None:
    place.script("[[on]]\nhang = true\n")
    (place.root / "other.md").write_text("## Task 1\nOther.\n")
    process = place.start("run", "plan.md", SEGUE_LIMITS__KILL_GRACE="0.2")
    until(place.jobs_at_work, "the agent works")
    for plan in ("plan.md", str(place.root / "other.md")):
        done = place.segue("run", plan, code=6)
        assert f"pid {process.pid}" in done.stderr
    gone(process)
    orphaned = place.segue("run", str(place.root / "other.md"), code=6)
    assert "segue stop" in orphaned.stderr
    place.segue("stop")


@pytest.mark.thorough
def test_runs_in_different_repositories_do_not_touch_each_other(tmp_path: Path) -> None:
    places = [Place.make(tmp_path / name) for name in ("a", "b")]
    shared = str(tmp_path / "shared")
    for one in places:
        one.env["XDG_STATE_HOME"] = shared
    processes = [one.start("run", "plan.md", "--agent", "scripted") for one in places]
    assert [process.wait(DEADLINE) for process in processes] == [0, 0]
    for one in places:
        assert len(one.subjects()) == 3


@pytest.mark.thorough
def test_detached_runs_are_followed_with_logs(place: Place) -> None:
    place.script('[[on]]\nwrite = { "f{task}" = "x" }\ndelay = 0.2\n')
    done = place.segue("run", "plan.md", "--detach", "--json")
    launch = json.loads(done.stdout)
    logs = place.segue("logs", "-f", launch["run"])
    assert "task 3 done" in logs.stdout
    assert place.json("status", launch["run"])["state"] == "done"
    until(lambda: identity.start_time(launch["pid"]) is None, "the background process is gone")


@pytest.mark.thorough
def test_a_task_taken_back_in_the_state_file_is_done_again(place: Place) -> None:
    place.script('[[on]]\nappend = { "f{task}" = "x" }\n')
    place.segue("run", "plan.md")
    state = json.loads(place.state_file().read_text())
    state["completed_task_indices"] = [1, 3]
    state["completed_task_keys"] = ["1", "3"]
    place.state_file().write_text(json.dumps(state))
    done = place.segue("run", "plan.md")
    assert (place.repo / "f2").read_text() == "xx"
    assert (place.repo / "f3").read_text() == "x"
    assert "edited" in done.stderr
