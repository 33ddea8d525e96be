"""A fleet as its users see it: what its machines do with what was submitted."""

from __future__ import annotations

import time

from tests.cli.place import until
from tests.features.fleet.machines import ALLOW, Fleet, gate, launches


def test_powerful_settings_of_who_submits_need_the_owner(fleet: Fleet) -> None:
    fleet.user.env["SEGUE_CHECKS"] = '["touch /tmp/never"]'
    (found,) = fleet.submit("plan.md", "--agent", "scripted")
    fleet.machine().start()
    fleet.until(found, "needs_human")
    assert (
        "no powerful settings" in fleet.ask("SELECT note FROM orchestrator_runs WHERE id = %s", found)[0][0]
    )


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
    assert fleet.pushed(run) == ["Task 2: Write two.", "Task 1: Write one."]


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
    assert fleet.pushed(run) == ["Task 1: Write one."]
