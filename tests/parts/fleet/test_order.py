"""In which order and when runs of a fleet begin: turns, priorities, limits, later, again and again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.parts.fleet.queue import QueueEntry, assign_turns, enqueue, key_of, open_queue
from segue.parts.fleet.schema import prepare
from tests.cli.place import until
from tests.parts.fleet.machines import Fleet, gate, launches

NAMES = st.sampled_from(["ada", "bob", "cy"])


@given(st.lists(st.one_of(st.lists(NAMES, min_size=1, max_size=8), st.none()), max_size=20))
def test_who_submits_little_does_not_wait_behind_who_submits_much(history: list[list[str] | None]) -> None:
    """Jobs come and are taken, the lowest turn first. No submitter is ever two turns behind another."""
    waiting: list[tuple[int, int, str]] = []
    number = 0
    for happens in history:
        if happens is None:
            waiting = waiting[1:]
            continue
        first_last = {
            name: (
                min(turn for turn, _, who in waiting if who == name),
                max(turn for turn, _, who in waiting if who == name),
            )
            for _, _, name in waiting
        }
        for name, turn in zip(happens, assign_turns(first_last, happens), strict=True):
            waiting.append((turn, number, name))
            number += 1
        waiting.sort()
        served = Counter[str]()
        for _, _, name in waiting:
            others = {who for _, _, who in waiting[sum(served.values()) :]}
            assert served[name] <= min(served[who] for who in others) + 1
            served[name] += 1


def test_higher_priorities_come_first_and_submitters_take_turns(postgres: str) -> None:
    prepare(postgres)

    async def main() -> list[str]:
        async with open_queue(postgres) as queue:
            key = key_of(["has:" + "x" * 80], "https://github.com/acme/" + "long" * 20)
            await enqueue(queue, [QueueEntry(f"ada{n}", key, submitter="ada") for n in range(3)])
            await enqueue(queue, [QueueEntry("bob0", key, 0, "bob"), QueueEntry("bob1", key, -1, "bob")])
            await enqueue(queue, [QueueEntry("cy0", key, 5, "cy"), QueueEntry("ada0", key, 0, "ada")])
            rows = await queue.connector.execute_query_all_async(
                "SELECT args->>'run' AS run FROM procrastinate_jobs ORDER BY priority DESC, id"
            )
            return [row["run"] for row in rows]

    assert asyncio.run(main()) == ["cy0", "ada0", "bob0", "ada1", "ada2", "bob1"]


@pytest.mark.thorough
def test_the_whole_fleet_shares_a_limit(fleet: Fleet) -> None:
    log, opened = gate(fleet)
    fleet.user.segue("fleet", "limit", "command", "1")
    runs = fleet.submit("plan.md", "plan.md", "plan.md", "--task", "1")
    machines = [fleet.machine().start("--jobs", "2") for _ in range(2)]
    owned = "SELECT count(*) FROM orchestrator_runs WHERE owner IS NOT NULL"
    until(lambda: fleet.ask(owned) == [(3,)], "all runs are driven")
    until(lambda: launches(log), "an agent works")
    status = fleet.user.json("fleet", "status")
    assert status["slots"] == {"command": [1, 1]}
    assert sum(machine.has_agent() for machine in machines) == 1
    assert launches(log) == 1
    opened.touch()
    for run in runs:
        fleet.until(run, "done")
    assert launches(log) == 3


@pytest.mark.thorough
def test_a_run_begins_later(fleet: Fleet) -> None:
    (late,) = fleet.submit("plan.md", "--agent", "scripted", "--task", "1", "--at", "2099-01-01 03:00")
    (now,) = fleet.submit("plan.md", "--agent", "scripted", "--task", "1")
    fleet.machine().start()
    fleet.until(now, "done")
    assert fleet.state(late) == "queued"
    assert "2099" in fleet.user.segue("status", late).stdout
    wrong = fleet.user.segue("submit", "plan.md", "--at", "soon", code=2)
    assert "soon" in wrong.stderr


@pytest.mark.thorough
def test_a_schedule_begins_runs_with_what_the_branch_has_then(fleet: Fleet) -> None:
    fleet.share()
    added = fleet.user.segue("schedule", "add", "nightly", "0 3 * * *", "plan.md", "--agent", "scripted")
    assert "Schedule nightly begins its first run at" in added.stdout
    again = fleet.user.segue("schedule", "add", "nightly", "0 4 * * *", "plan.md", code=2)
    assert "There is a schedule 'nightly' already" in again.stderr
    wrong = fleet.user.segue("schedule", "add", "other", "0 25 * * *", "plan.md", code=2)
    assert "is not a cron expression" in wrong.stderr
    fleet.commit(plan__md="## Task 1\nWrite the only one.\n")
    _make_due(fleet, "nightly")
    fleet.machine().start()
    found = "SELECT id FROM orchestrator_runs WHERE id LIKE '%-nightly'"
    until(lambda: fleet.ask(found), "the schedule has begun its run")
    ((run,),) = fleet.ask(found)
    fleet.until(run, "done")
    assert len(fleet.steps(run, "task/2/end")) == 0, "the plan of the newer commit"
    until(lambda: _waiting(fleet) == ["schedule/nightly"], "the next run is scheduled")
    listed = fleet.user.json("schedule", "list")
    assert [(one["name"], one["cron"]) for one in listed] == [("nightly", "0 3 * * *")]
    fleet.user.segue("schedule", "remove", "nightly")
    assert _waiting(fleet) == []
    assert fleet.ask(found) == [(run,)], "it began one run"


@pytest.mark.thorough
def test_a_schedule_that_was_missed_is_begun_late_and_once(fleet: Fleet) -> None:
    fleet.share()
    fleet.user.segue(
        "schedule", "add", "hourly", "0 * * * *", "plan.md", "--agent", "scripted", "--task", "1"
    )
    _make_due(fleet, "hourly")
    fleet.ask("DELETE FROM procrastinate_jobs RETURNING 1")
    for _ in range(2):
        fleet.machine().start()
    found = "SELECT id, state FROM orchestrator_runs WHERE id LIKE '%-hourly'"
    until(lambda: [state for _, state in fleet.ask(found)] == ["done"], "it was begun once")


def _make_due(fleet: Fleet, name: str) -> None:
    """Let the schedule be older than its last time, as if that had come meanwhile."""
    sql = "UPDATE segue_fleet.schedules SET created = 0 WHERE name = %s RETURNING 1"
    assert fleet.ask(sql, name) == [(1,)]
    fleet.ask("UPDATE procrastinate_jobs SET scheduled_at = now() RETURNING 1")


def _waiting(fleet: Fleet) -> list[str]:
    return [
        row[0]
        for row in fleet.ask(
            "SELECT queueing_lock FROM procrastinate.procrastinate_jobs WHERE status = 'todo'"
        )
    ]


def test_one_machine_notices_nothing() -> None:
    """Neither running nor looking imports anything of a fleet."""
    code = (
        "import sys; from segue.cli.run import run; from segue.cli.look import status; import segue.web.app;"
        "import segue.runtime.session, segue.runtime.open, segue.flow.phases;"
        "print([m for m in sys.modules if 'procrastinate' in m or m.startswith('segue.parts.fleet.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
