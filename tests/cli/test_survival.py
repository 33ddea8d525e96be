"""Kill it at any instant, start it again, and nothing is lost or doubled."""

from __future__ import annotations

import json
import signal
import subprocess

from segue.store import connect
from segue.system import identity
from tests.cli.place import DEADLINE, Place, processes_with, until

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


def test_ctrl_c_saves_and_leaves_nothing_behind(place: Place) -> None:
    leave = 'run = [["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 &"]]\nhang = true\n'
    place.script(f'[[on]]\ntask = "1"\nattempt = 1\n{leave}[[on]]\nwrite = {{ "f{{task}}" = "x" }}\n')
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


def test_what_was_left_of_asking_to_stop_does_not_end_the_next_session(place: Place) -> None:
    place.script("[[on]]\nexit_code = 1\n")
    place.segue("run", "plan.md", "--fail-fast", code=3)
    place.script(COUNTED)
    run = place.json("status")[0]["id"]
    with connect(place.database) as store:
        for _ in range(3):
            store.send(run, "stop", {})
    place.segue("resume", "--json")
    assert len(place.subjects()) == 3


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


def test_detached_runs_are_followed_with_logs(place: Place) -> None:
    place.script('[[on]]\nwrite = { "f{task}" = "x" }\ndelay = 0.2\n')
    done = place.segue("run", "plan.md", "--detach", "--json")
    launch = json.loads(done.stdout)
    logs = place.segue("logs", "-f", launch["run"])
    assert "task 3 done" in logs.stdout
    assert place.json("status", launch["run"])["state"] == "done"
    until(lambda: identity.start_time(launch["pid"]) is None, "the background process is gone")
