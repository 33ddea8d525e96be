"""What goes wrong between machines: jobs, connections, clocks and processes that are lost."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psutil
import pytest

from segue.domain.errors import StoreError, UsageError
from segue.parts.fleet.register import Register
from segue.parts.fleet.schema import address_of, prepare
from segue.parts.sim.cloud.app import cloud_app
from segue.parts.sim.cloud.script import CloudScript
from segue.runtime.app import App
from segue.store.database import RETRY_PAUSES
from segue.system.http.server import start_server
from tests import loopback
from tests.cli.place import PLAN, until
from tests.crash.points import compiler
from tests.parts.fleet.machines import ALLOW, Fleet, Machine, can_rename, gate, launches, make_fleet
from tests.parts.notify.servers import webhook
from tests.store.cluster import own_cluster
from tests.store.test_postgres import break_connections

JOBS = "procrastinate.procrastinate_jobs"
HOSTED = "https://github.com/me/app"


def count(fleet: Fleet, sql: str, *values: object) -> int:
    found: int = fleet.ask(f"SELECT count(*) FROM {sql}", *values)[0][0]
    return found


def enqueue(fleet: Fleet, run: str) -> None:
    """Put a job into the queue, as a worker that was wrong about a run might."""
    fleet.ask(
        "INSERT INTO procrastinate_jobs (queue_name, task_name, priority, args, status)"
        " VALUES ('segue', 'segue.drive', 0, %s::jsonb, 'todo') RETURNING 1",
        json.dumps({"run": run, "needs": [], "repo": ""}),
    )


@pytest.mark.thorough
def test_a_run_whose_bell_was_lost_is_rung_for_again(fleet: Fleet) -> None:
    (run,) = fleet.submit("plan.md", "--agent", "scripted", "--task", "1")
    fleet.ask(f"DELETE FROM {JOBS} RETURNING 1")
    fleet.machine().start()
    fleet.until(run, "done")


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_job_of_a_worker_that_is_gone_is_given_to_others(fleet: Fleet) -> None:
    """Procrastinate has pruned the worker: its job would stay "doing" for ever."""
    (run,) = fleet.submit("plan.md", "--agent", "scripted", "--task", "1")
    fleet.ask(f"UPDATE {JOBS} SET status = 'doing', worker_id = NULL RETURNING 1")
    fleet.machine().start()
    fleet.until(run, "done")
    until(lambda: count(fleet, JOBS) == 0, "nothing is left in the queue")


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_run_that_two_machines_cannot_drive_needs_a_person(fleet: Fleet) -> None:
    """They may work on its repository, but not with the settings that come with it."""
    fleet.user.env["SEGUE_CHECKS"] = '["true"]'
    (run,) = fleet.submit("plan.md", "--agent", "scripted", "--task", "1")
    with webhook() as hook:
        notified = f'{ALLOW}[notify.webhook]\nurl = "{hook.url}"\n'
        refusing = [fleet.machine(notified).start() for _ in range(2)]
        until(lambda: count(fleet, "segue_fleet.workers") == 2, "both workers are there")
        fleet.until(run, "needs_human")
        until(hook.json, "people are notified")
        assert [said["title"] for said in hook.json()] == [f"Run {run} needs a human"]
    note = fleet.ask("SELECT note FROM orchestrator_runs WHERE id = %s", run)[0][0]
    assert note.startswith("2 workers could not drive it: This worker takes no powerful settings")
    for machine in refusing:
        machine.end()
    fleet.machine(ALLOW.replace('"agents.*"', '"checks"')).start()
    fleet.user.segue("resume", run)
    fleet.until(run, "done")


@pytest.mark.thorough
def test_runs_are_left_to_machines_that_may_work_on_their_repository(fleet: Fleet) -> None:
    closed = '[worker]\nallow_repos = ["https://github.com/acme/*"]\n'
    for _ in range(2):
        fleet.machine(closed).start()
    until(lambda: count(fleet, "segue_fleet.workers") == 2, "both workers are there")
    said = fleet.user.segue("submit", "plan.md", "--agent", "scripted", "--task", "1")
    assert "No worker is here that may work on local:repo" in said.stderr
    ((run,),) = fleet.ask("SELECT id FROM orchestrator_runs")
    (waiting,) = fleet.user.json("fleet", "status")["queues"]
    assert not waiting["served"]
    fleet.machine().start()
    fleet.until(run, "done")
    assert count(fleet, "segue_fleet.failures") == 0


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_postgres_is_away_longer_than_anybody_tries_to_reconnect(tmp_path: Path) -> None:
    """Nobody asked the run to stop, so it is not stopped: the agent goes on, and so does the run."""
    with own_cluster() as cluster:
        for fleet in make_fleet(tmp_path, cluster.url, PLAN):
            log, opened = gate(fleet)
            (run,) = fleet.submit("plan.md", "--task", "1")
            fleet.machine().start()
            until(partial(_are, log, 1), "the agent works")
            cluster.stop()
            time.sleep(sum(RETRY_PAUSES) + 6)  # how long it is away is the fault
            cluster.start()
            opened.touch()
            fleet.until(run, "done")
            assert not fleet.events(run, "run.ended")[:-1], "no session ended before the last one"
            assert launches(log) == 1


@pytest.mark.thorough
def test_a_worker_does_not_wait_for_the_database_to_say_that_it_lives() -> None:
    """Else one that is asked to end while Postgres is away would take longer than its container allows."""
    with own_cluster() as cluster, ThreadPoolExecutor() as pool:
        prepare(cluster.url)
        with Register(cluster.url) as asking, Register(cluster.url) as living:
            assert not asking.sweep()
            living.heartbeat("w", ())
            cluster.stop()
            patient = pool.submit(asking.sweep)
            with pytest.raises(StoreError):
                living.heartbeat("w", ())
            with pytest.raises(StoreError):
                living.end_worker("w")
            assert not patient.done(), "others wait for the database"
            cluster.start()
            assert patient.result() == []


@pytest.mark.thorough
def test_work_is_pushed_when_a_remote_that_was_away_at_the_end_is_back(fleet: Fleet) -> None:
    log, opened = gate(fleet)
    remote, hidden = fleet.share(), fleet.root / "hidden.git"
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


@pytest.mark.thorough
def test_a_done_run_whose_remote_stays_away_is_parked_until_it_was_pushed(fleet: Fleet) -> None:
    log, opened = gate(fleet)
    remote, hidden = fleet.share(), fleet.root / "hidden.git"
    fleet.user.env["SEGUE_LIMITS__PATIENCE"] = "0.5"
    (run,) = fleet.submit("plan.md", "--task", "1")
    fleet.machine().start()
    until(partial(_are, log, 1), "the agent works")
    remote.rename(hidden)
    opened.touch()
    fleet.until(run, "parked")
    assert "could not be pushed yet" in fleet.user.segue("status", run).stdout
    hidden.rename(remote)
    fleet.user.segue("resume", run)
    fleet.until(run, "done")
    assert launches(log) == 1
    pushed = subprocess.run(["git", "branch", "--list"], cwd=remote, capture_output=True, text=True).stdout
    assert f"segue/{run}" in pushed


@pytest.mark.thorough
def test_status_says_that_the_remote_refused_the_work(fleet: Fleet) -> None:
    log, opened = gate(fleet)
    hook = fleet.share() / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho nobody may push today\nexit 1\n")
    hook.chmod(0o755)
    (run,) = fleet.submit("plan.md", "--task", "1")
    fleet.machine().start()
    until(partial(_are, log, 1), "the agent works")
    opened.touch()
    fleet.until(run, "done")
    said = fleet.user.segue("status", run).stdout
    assert "The work could not be pushed" in said
    assert "nobody may push today" in said
    assert f"segue fetch {run}" in said


def _are(log: Path, number: int) -> bool:
    return launches(log) == number


@pytest.mark.thorough
def test_workers_hear_of_runs_after_their_connections_broke(fleet: Fleet) -> None:
    log, opened = gate(fleet)
    (run,) = fleet.submit("plan.md", "--task", "1")
    fleet.machine().start("--jobs", "2")
    until(lambda: launches(log), "an agent works")
    assert break_connections(fleet.url) > 3
    (next_,) = fleet.submit("plan.md", "--task", "2")
    until(lambda: launches(log) == 2, "the next run is taken")
    fleet.user.segue("stop", run)
    opened.touch()
    fleet.until(next_, "done")
    assert fleet.state(run) == "stopped"


@pytest.mark.skipif(compiler() is None, reason="no C compiler is installed")
@pytest.mark.thorough
def test_clocks_of_machines_do_not_matter(fleet: Fleet) -> None:
    """One is a day ahead, one a day behind; who drives a run is decided by the clock of the database."""
    library = _shifting(fleet.root)
    log, opened = gate(fleet)
    (run,) = fleet.submit("plan.md", "--task", "1")
    for days in (1, -1):
        machine = fleet.machine()
        machine.env |= {"LD_PRELOAD": str(library), "CLOCK_SHIFT": str(days * 86_400)}
        machine.start()
    until(lambda: launches(log), "an agent works")
    for _ in range(2):
        enqueue(fleet, run)
    until(lambda: count(fleet, f"{JOBS} WHERE status = 'todo'") == 0, "every job was taken")
    assert launches(log) == 1
    opened.touch()
    fleet.until(run, "done")
    assert launches(log) == 1


def _shifting(folder: Path) -> Path:
    """Compile a library that sets the clock of the processes that load it."""
    source, library = folder / "shift.c", folder / "shift.so"
    source.write_text(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdlib.h>\n#include <time.h>\n"
        "int clock_gettime(clockid_t id, struct timespec *at) {\n"
        '  int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");\n'
        "  int done = real(id, at);\n"
        '  const char *shift = getenv("CLOCK_SHIFT");\n'
        "  if (id == CLOCK_REALTIME && shift) at->tv_sec += atol(shift);\n"
        "  return done;\n}\n"
    )
    program = compiler()
    assert program is not None
    subprocess.run([program, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.mark.skipif(not can_rename(), reason="needs to give processes a host name of their own")
@pytest.mark.thorough
def test_the_run_of_a_machine_that_died_is_taken_over(fleet: Fleet) -> None:
    """Its processes cannot be asked whether they live: the lease has to run out."""
    log, opened = gate(fleet)
    opened.with_name("gate-1").touch()
    (run,) = fleet.submit("plan.md", "--task", "1", "--task", "2")
    first = fleet.machine(host="first").start()
    until(lambda: launches(log) == 2, "the second agent works")
    fleet.machine(host="second").start()
    until(lambda: count(fleet, "segue_fleet.workers") == 2, "both workers are there")
    first.kill()
    fleet.age_lease(run)
    until(lambda: launches(log) == 3, "the other machine continues")
    opened.touch()
    fleet.until(run, "done")
    lost = [
        event
        for event in fleet.events(run, "agent.ended")
        if (event.get("failure") or {}).get("kind") == "lost"
    ]
    assert len(lost) == 1, "the agent that was at work counts as lost, once"
    subjects = ["Task 2: Write two.", "Task 1: Write one."]
    fleet.user.segue("fetch", run)
    assert fleet.user.git("log", "--format=%s", f"main..segue/{run}").splitlines() == subjects
    first.start()
    kept = first.state / "fleet" / "runs" / run
    until(lambda: not kept.exists(), "the first machine removes what it has of the run")


@pytest.mark.thorough
def test_a_cloud_agent_is_found_again_by_another_machine(fleet: Fleet) -> None:
    remote = fleet.share()
    script = CloudScript()
    url, stop = start_server(cloud_app(script, {HOSTED: remote}))
    try:
        loopback.post(f"{url}/_sim/script", json={"on": [{"hold": True}]}).raise_for_status()
        fleet.commit(
            segue__toml=f'agent = "cursor-cloud"\n[agents.cursor-cloud]\nbase_url = "{url}"\n'
            f'repository = "{HOSTED}"\npoll_interval = 0.2\nretry_pause = 0.05\n'
        )
        (run,) = fleet.submit("plan.md", "--task", "1")
        first = _with_key(fleet).start()
        until(lambda: _posts(url), "a cloud agent was launched")
        until(lambda: fleet.events(run, "agent.started"), "that was written down")
        first.kill()
        second = _with_key(fleet).start()
        until(lambda: fleet.events(run, "run.resumed"), "the other machine drives the run")
        loopback.post(f"{url}/_sim/release", json={}).raise_for_status()
        fleet.until(run, "done", "needs_human", "failed")
        assert len(_posts(url)) == 1, second.said
    finally:
        stop()


def _with_key(fleet: Fleet) -> Machine:
    machine = fleet.machine()
    machine.env["CURSOR_API_KEY"] = "crsr_test"
    return machine


def _posts(url: str) -> set[str]:
    """The ids that were asked for; a repeated request has the same."""
    requests = loopback.get(f"{url}/_sim/log").json()["requests"]
    return {
        one["body"]["agentId"] for one in requests if (one["method"], one["path"]) == ("POST", "/v1/agents")
    }


def test_a_transaction_pooler_is_refused(tmp_path: Path) -> None:
    address = "postgresql://postgres.abc:secret@aws-0-eu-central-1.pooler.supabase.com:6543/postgres"
    with pytest.raises(UsageError, match="gives away connections after each transaction") as refused:
        address_of(App.load(tmp_path, command_line={"database_url": address}))
    assert "secret" not in refused.value.message
    assert "5432" in (refused.value.hint or "")


@pytest.mark.thorough
def test_a_worker_keeps_little(fleet: Fleet) -> None:
    machine = fleet.machine(ALLOW + "cache_gb = 0\n")
    runs = fleet.submit("plan.md", "plan.md", "--task", "1", "--agent", "scripted")
    machine.start()
    for run in runs:
        fleet.until(run, "done")
    machine.end()
    machine.start()
    folder = machine.state / "fleet"
    until(lambda: not list((folder / "runs").iterdir()), "what is done is removed")
    until(lambda: not list((folder / "clones").glob("*.git")), "and mirrors that nobody uses")
    (again,) = fleet.submit("plan.md", "--task", "1", "--agent", "scripted")
    fleet.until(again, "done")
