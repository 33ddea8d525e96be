"""A fleet as its users see it: submit, work, watch, stop, continue, fetch."""

from __future__ import annotations

import shlex
import signal
import time

import pytest

from tests.cli.place import DEADLINE, until
from tests.parts.fleet.machines import ALLOW, Fleet, gate, launches


def test_work_comes_back_as_a_pushed_branch(fleet: Fleet) -> None:
    fleet.commit(segue__toml='gates = ["task"]\n')
    remote = fleet.share()
    (run,) = fleet.submit("plan.md", "--agent", "scripted", "--task", "1", "--task", "2")
    assert fleet.state(run) == "queued"
    fleet.machine().start()
    fleet.until(run, "needs_human")
    assert len(fleet.events(run, "gate.reached")) == 1
    fleet.user.segue("resume", run)
    fleet.until(run, "done")
    assert len(fleet.events(run, "gate.passed")) == 1, "a person has resumed it"
    fleet.user.git("fetch", "--quiet", "origin")
    subjects = fleet.user.git("log", "--format=%s", f"origin/segue/{run}").splitlines()
    assert subjects == ["Task 2: Write two.", "Task 1: Write one.", "settings", "plan"]
    assert fleet.user.git("branch", "--format=%(refname:short)").split() == ["main"]
    (spec,) = fleet.ask("SELECT spec FROM orchestrator_runs WHERE id = %s", run)[0]
    assert spec["repo"] == spec["origin"]["url"] == str(remote)
    assert str(fleet.machines[0].root) not in str(spec), "nothing of a machine is stored"


def test_the_simulated_agent_gets_no_real_plan_unasked(fleet: Fleet) -> None:
    (fleet.user.root / "config" / "segue" / "config.toml").unlink()
    words = ("plan.md", "--agent", "scripted", "--database-url", fleet.url)
    said = fleet.user.segue("submit", *words, code=2).stderr
    assert "The scripted agent is simulated" in said
    assert f"segue submit {shlex.join(words)} --yes" in said
    later = ("nightly", "0 3 * * *", *words)
    said = fleet.user.segue("schedule", "add", *later, code=2).stderr
    assert "segue schedule add nightly '0 3 * * *' plan.md" in said
    tables = "segue_fleet.bundles", "orchestrator_runs", "procrastinate_jobs", "segue_fleet.schedules"
    assert [fleet.ask(f"SELECT count(*) FROM {name}") for name in tables] == [[(0,)]] * 4
    fleet.user.segue("submit", *words, "--yes")
    fleet.user.segue("schedule", "add", *later, "--yes")
    assert fleet.ask("SELECT count(*) FROM orchestrator_runs") == [(1,)]


@pytest.mark.thorough
def test_work_without_a_remote_is_fetched_from_the_database(fleet: Fleet) -> None:
    before, run = fleet.submit("plan.md", "plan.md", "--agent", "scripted")
    fleet.machine().start("--jobs", "1")
    fleet.until(before, "done")
    fleet.until(run, "done")
    drivers = "SELECT count(DISTINCT split_part(owner, '#', 1)) FROM orchestrator_steps"
    assert fleet.ask(drivers) == [(1,)], "one process after the other would begin with nothing"
    kept = "SELECT count(*) FROM segue_fleet.bundles WHERE name = 'work/' || %s"
    said = fleet.user.segue("fetch", "last", "--keep").stdout
    assert f"segue/{run}" in said
    assert fleet.ask(kept, run) == [(1,)]
    assert fleet.user.git("rev-list", "--count", f"main..segue/{run}").strip() == "3"
    assert "has the work already" in fleet.user.segue("fetch", run).stdout
    assert fleet.ask(kept, run) == [(0,)], "somebody has it now"
    assert fleet.ask(kept, before) == [(1,)]
    assert "has the work already" in fleet.user.segue("fetch", run).stdout
    fleet.user.git("branch", "--quiet", "-D", f"segue/{run}")
    assert "somebody has fetched it" in fleet.user.segue("fetch", run, code=2).stderr
    proof = fleet.user.segue("proof", "last").stdout
    assert "Task 3" in proof


def test_what_cannot_be_submitted_stores_nothing(fleet: Fleet) -> None:
    fleet.commit(empty__md="# Nothing to do\n")
    tables = "segue_fleet.bundles", "orchestrator_runs", "procrastinate_jobs"
    before = [fleet.ask(f"SELECT count(*) FROM {name}") for name in tables]
    for words in (["empty.md"], ["plan.md", "plans.md"], ["plan.md", "--agent", "nobody"]):
        fleet.user.segue("submit", *words, code=2)
    assert [fleet.ask(f"SELECT count(*) FROM {name}") for name in tables] == before


@pytest.mark.thorough
def test_a_source_outside_of_the_repository_comes_along(fleet: Fleet) -> None:
    outside = fleet.root / "other.md"
    outside.write_text("## Task 1\nWrite one.\n")
    (run,) = fleet.submit(str(outside), "--agent", "scripted")
    fleet.machine().start()
    fleet.until(run, "done")
    assert [row[0] for row in fleet.steps(run, "task/1/end")] == ["done"]


def test_what_workers_would_not_see_is_refused(fleet: Fleet) -> None:
    (fleet.user.repo / "plan.md").write_text("## Task 1\nAnother.\n")
    assert "uncommitted changes: plan.md" in fleet.user.segue("submit", "plan.md", code=2).stderr
    fleet.user.git("checkout", "--quiet", "plan.md")
    fleet.share()
    (fleet.user.repo / "new").write_text("x")
    fleet.user.git("add", "new")
    fleet.user.git("commit", "--quiet", "-m", "not pushed")
    refused = fleet.user.segue("submit", "plan.md", code=2).stderr
    assert "workers could not fetch it" in refused
    assert "git push" in refused
    assert fleet.ask("SELECT count(*) FROM orchestrator_runs") == [(0,)]


def test_secrets_do_not_travel(fleet: Fleet) -> None:
    given = {"SEGUE_AGENTS__COMMAND__ENV__API_TOKEN": "hunter2hunter2"}
    refused = fleet.user.segue("submit", "plan.md", code=2, **given)
    assert "Secrets never travel" in refused.stderr
    assert fleet.ask("SELECT count(*) FROM orchestrator_runs") == [(0,)]


@pytest.mark.thorough
def test_a_machine_does_only_what_its_owner_allows(fleet: Fleet) -> None:
    (run,) = fleet.submit("plan.md", "--agent", "scripted")
    (evil,) = fleet.submit("plan.md", "--agent", "scripted", "--json", *())
    assert run != evil
    fleet.machine(ALLOW + 'allow_agents = ["claude"]\n').start()
    fleet.machine('[worker]\nallow_repos = ["https://github.com/acme/*"]\n').start()
    until(lambda: len(fleet.user.json("fleet", "status")["workers"]) == 2, "both workers are there")
    assert fleet.state(run) == fleet.state(evil) == "queued"
    assert fleet.ask("SELECT count(*) FROM orchestrator_events") == [(0,)], "nothing was begun"
    assert "No repository is allowed" in fleet.user.segue("worker", code=2).stderr


@pytest.mark.thorough
def test_powerful_settings_of_who_submits_need_the_owner(fleet: Fleet) -> None:
    fleet.user.env["SEGUE_CHECKS"] = '["touch /tmp/never"]'
    (found,) = fleet.submit("plan.md", "--agent", "scripted")
    fleet.machine().start()
    fleet.until(found, "needs_human")
    assert (
        "no powerful settings" in fleet.ask("SELECT note FROM orchestrator_runs WHERE id = %s", found)[0][0]
    )


@pytest.mark.thorough
def test_a_run_is_stopped_and_continued_from_elsewhere(fleet: Fleet) -> None:
    log, opened = gate(fleet)
    (run,) = fleet.submit("plan.md")
    machine = fleet.machine().start()
    until(lambda: launches(log), "an agent works")
    fleet.user.segue("stop", run)
    assert fleet.state(run) == "stopped"
    until(lambda: not machine.has_agent(), "the agent is ended")
    opened.touch()
    fleet.user.segue("resume", run)
    fleet.until(run, "done")


def test_a_queued_run_is_stopped_without_a_worker(fleet: Fleet) -> None:
    (run,) = fleet.submit("plan.md", "--agent", "scripted")
    fleet.user.segue("stop", run)
    assert fleet.state(run) == "stopped"
    assert fleet.ask("SELECT count(*) FROM procrastinate.procrastinate_jobs WHERE status = 'todo'") == [(0,)]


@pytest.mark.thorough
def test_a_person_accepts_and_skips_from_elsewhere(fleet: Fleet) -> None:
    fleet.commit(
        script__toml='[[on]]\ntask = "1"\nexit_code = 1\n[[on]]\ntask = "2"\nexit_code = 1\n',
        segue__toml='agent = "scripted"\nlimits.attempts = 1\n[agents.scripted]\nscript = "script.toml"\n',
    )
    (run,) = fleet.submit("plan.md")
    fleet.machine().start()
    fleet.until(run, "needs_human")
    fleet.user.segue("task", "accept", "1", "--run", run)
    fleet.user.segue("resume", run)
    until(lambda: [row[0] for row in fleet.steps(run, "task/2/end")] == ["failed"], "task 2 has failed")
    fleet.until(run, "needs_human")
    fleet.user.segue("task", "skip", "2", "--run", run, "--reason", "not needed")
    fleet.user.segue("resume", run)
    fleet.until(run, "done")
    assert len(fleet.events(run, "task.marked")) >= 3


@pytest.mark.thorough
def test_runs_go_where_their_needs_are_met(fleet: Fleet) -> None:
    (plain,) = fleet.submit("plan.md", "--agent", "scripted")
    (fast,) = fleet.submit("plan.md", "--agent", "scripted", "--needs", "gpu", "--needs", "big")
    fleet.machine().start("--tags", "gpu")
    fleet.until(plain, "done")
    assert fleet.state(fast) == "queued"
    status = fleet.user.json("fleet", "status")
    (waiting,) = status["queues"]
    assert (waiting["waiting"], waiting["served"]) == (1, False)
    assert "no worker can take this" in fleet.user.segue("fleet", "status").stdout
    fleet.machine(ALLOW + 'tags = ["big"]\n').start("--tags", "gpu")
    fleet.until(fast, "done")


@pytest.mark.thorough
def test_a_run_that_waits_for_a_limit_gives_its_seat_away(fleet: Fleet) -> None:
    fleet.commit(
        script__toml='[[on]]\ntask = "1"\nattempt = 1\n'
        'limit = "You\'ve hit your usage limit. Try again in 2 hours."\n',
        segue__toml='agent = "scripted"\n[agents.scripted]\nscript = "script.toml"\n',
    )
    (run,) = fleet.submit("plan.md")
    fleet.machine().start("--jobs", "1")
    fleet.until(run, "parked")
    (other,) = fleet.submit("plan.md", "--task", "2", "--base", "HEAD")
    fleet.until(other, "done")
    assert fleet.state(run) == "parked"
    wake, owner = fleet.ask("SELECT wake, owner FROM orchestrator_runs WHERE id = %s", run)[0]
    assert owner is None
    assert 7000 < wake / 1000 - time.time() <= 7260
    jobs = (
        "SELECT extract(epoch FROM scheduled_at) FROM procrastinate.procrastinate_jobs WHERE status = 'todo'"
    )
    ((at,),) = fleet.ask(jobs)
    assert abs(float(at) - wake / 1000) < 2


@pytest.mark.thorough
@pytest.mark.parametrize("hold", [120, 0])
def test_a_worker_that_is_told_to_end_leaves_or_hands_over(fleet: Fleet, hold: int) -> None:
    """With `hold` the agent continues and the next worker adopts it; without, the run is queued again."""
    log, opened = gate(fleet)
    (run,) = fleet.submit("plan.md", "--task", "1")
    machine = fleet.machine(ALLOW + f"hold = {hold}\n").start()
    until(lambda: launches(log), "an agent works")
    until(lambda: fleet.ask("SELECT 1 FROM segue_fleet.places WHERE run_id = %s", run), "it is driven")
    follow = fleet.user.start("logs", "-f", run)
    machine.end(signal.SIGTERM)
    working = machine.has_agent()
    assert working == bool(hold)
    assert fleet.state(run) == ("running" if hold else "queued")
    opened.touch()
    assert follow.poll() is None, "the run has not ended"
    machine.start()
    fleet.until(run, "done")
    assert follow.wait(DEADLINE) == 0
    assert launches(log) == (1 if hold else 2)
    assert len(fleet.events(run, "step.adopted")) == (1 if hold else 0) or not hold


@pytest.mark.thorough
def test_a_run_that_is_held_is_not_taken_by_others(fleet: Fleet) -> None:
    log, opened = gate(fleet)
    (run,) = fleet.submit("plan.md", "--task", "1")
    machine = fleet.machine().start()
    until(lambda: launches(log), "an agent works")
    machine.end(signal.SIGTERM)
    other = fleet.machine().start()
    until(lambda: "seats" in other.said, "the other worker is there")
    (next_,) = fleet.submit("plan.md", "--task", "2")
    opened.touch()
    fleet.until(next_, "done")
    assert fleet.state(run) == "running"
    machine.start()
    fleet.until(run, "done")
    assert launches(log) == 2, "one for each run"


@pytest.mark.thorough
def test_another_machine_continues_from_the_last_finished_step(fleet: Fleet) -> None:
    log, opened = gate(fleet)
    opened.with_name("gate-1").touch()
    (run,) = fleet.submit("plan.md", "--task", "1", "--task", "2")
    first = fleet.machine().start()
    until(lambda: launches(log) == 2, "the second agent works")
    first.kill()
    fleet.age_lease(run)
    opened.touch()
    fleet.machine().start()
    fleet.until(run, "done")
    lost = [
        event
        for event in fleet.events(run, "agent.ended")
        if (event.get("failure") or {}).get("kind") == "lost"
    ]
    assert len(lost) == 1, "the agent that was at work counts as lost, once"
    assert launches(log) == 3
    fleet.user.segue("fetch", run)
    assert fleet.user.git("log", "--format=%s", f"main..segue/{run}").splitlines() == [
        "Task 2: Write two.",
        "Task 1: Write one.",
    ]


@pytest.mark.thorough
def test_a_machine_that_comes_back_finds_itself_fenced_and_ends_its_agent(fleet: Fleet) -> None:
    log, opened = gate(fleet)
    (run,) = fleet.submit("plan.md", "--task", "1")
    first = fleet.machine().start()
    until(lambda: launches(log), "an agent works")
    frozen = first.freeze()
    assert len(frozen) > 2
    fleet.ask("UPDATE orchestrator_runs SET lease = 0, owner = 'gone/x/1/1#y' WHERE id = %s RETURNING 1", run)
    fleet.machine().start()
    until(lambda: launches(log) == 2, "the other machine launches its own agent")
    first.thaw()
    until(lambda: not first.has_agent(), "the first agent is ended")
    opened.touch()
    fleet.until(run, "done")
    fleet.user.segue("fetch", run)
    assert fleet.user.git("rev-list", "--count", f"main..segue/{run}").strip() == "1"
