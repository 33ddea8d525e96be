"""What goes wrong between machines: jobs, connections, clocks and processes that are lost."""

from __future__ import annotations

import json
import signal
import subprocess
from functools import partial
from pathlib import Path

import psutil

from segue.features.fleet.queue import key_of
from tests.cli.place import PLAN, until
from tests.features.fleet.machines import Fleet, gate, launches, make_fleet
from tests.store.cluster import own_cluster

JOBS = "procrastinate.procrastinate_jobs"


def count(fleet: Fleet, sql: str, *values: object) -> int:
    found: int = fleet.ask(f"SELECT count(*) FROM {sql}", *values)[0][0]
    return found


def enqueue(fleet: Fleet, run: str) -> None:
    """Put a job into the queue, as a worker that was wrong about a run might."""
    [(needs, url)] = fleet.ask(
        "SELECT spec->'origin'->'needs', spec->'origin'->>'url' FROM orchestrator_runs WHERE id = %s", run
    )
    key = key_of(needs or [], url)
    fleet.ask(
        "INSERT INTO procrastinate_jobs (queue_name, task_name, priority, args, status)"
        " VALUES (%s, 'segue.drive', 0, %s::jsonb, 'todo') RETURNING 1",
        key.name,
        json.dumps({"run": run, "needs": list(key.needs), "repo": key.repo}),
    )


def test_bells_that_ring_twice_launch_one_agent(fleet: Fleet) -> None:
    log, opened = gate(fleet)
    (run,) = fleet.submit("plan.md", "--task", "1")
    for _ in range(3):
        enqueue(fleet, run)
    machines = [fleet.machine().start("--jobs", "2"), fleet.machine().start("--jobs", "2")]
    until(lambda: launches(log), "an agent works")
    until(lambda: count(fleet, f"{JOBS} WHERE status = 'todo'") == 0, "every job was taken")
    until(lambda: sum(machine.has_agent() for machine in machines) == 1, "one of them has an agent")
    opened.touch()
    fleet.until(run, "done")
    enqueue(fleet, run)
    until(lambda: count(fleet, JOBS) == 0, "a job for a run that is done has no effect")
    assert launches(log) == 1
    assert len(fleet.events(run, "agent.started")) == 1


def test_an_agent_survives_the_process_that_drives_its_run(fleet: Fleet) -> None:
    log, opened = gate(fleet)
    (run,) = fleet.submit("plan.md", "--task", "1")
    machine = fleet.machine().start()
    until(lambda: launches(log), "an agent works")
    driver = fleet.ask("SELECT owner FROM orchestrator_runs WHERE id = %s", run)[0][0]
    psutil.Process(int(driver.split("/")[2])).send_signal(signal.SIGKILL)
    until(lambda: len(fleet.events(run, "run.resumed")) == 1, "another process drives the run")
    assert machine.has_agent()
    opened.touch()
    fleet.until(run, "done")
    assert launches(log) == 1
    assert count(fleet, "segue_fleet.failures") == 0, "nobody is to blame"


def test_postgres_is_restarted_while_agents_work(tmp_path: Path) -> None:
    with own_cluster() as cluster:
        for fleet in make_fleet(tmp_path, cluster.url, PLAN):
            log, opened = gate(fleet)
            first, second = fleet.submit("plan.md", "plan.md", "--task", "1")
            fleet.machine().start("--jobs", "1")
            fleet.machine().start("--jobs", "1")
            until(partial(_are, log, 2), "both agents work")
            cluster.stop()
            opened.touch()  # their agents end while nobody can be told
            cluster.start()
            fleet.until(first, "done")
            fleet.until(second, "done")
            assert launches(log) == 2
            (third,) = fleet.submit("plan.md", "--task", "2")
            fleet.until(third, "done")


def test_work_is_pushed_when_a_remote_that_was_away_at_the_end_is_back(fleet: Fleet) -> None:
    log, opened = gate(fleet)
    remote, hidden = fleet.remote, fleet.root / "hidden.git"
    (run,) = fleet.submit("plan.md", "--task", "1")
    fleet.machine().start()
    until(partial(_are, log, 1), "the agent works")
    remote.rename(hidden)
    opened.touch()
    until(lambda: fleet.events(run, "wait.began"), "the remote is waited for")
    hidden.rename(remote)
    fleet.until(run, "done")
    pushed = subprocess.run(["git", "branch", "--list"], cwd=remote, capture_output=True, text=True).stdout
    assert f"segue/{run}" in pushed
    assert launches(log) == 1


def _are(log: Path, number: int) -> bool:
    return launches(log) == number
