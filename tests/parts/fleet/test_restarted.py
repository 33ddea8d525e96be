"""Workers that are asked to end while a run is about to start, or that were frozen for a while."""

from __future__ import annotations

import asyncio
import gc
import signal
from typing import Any

import pytest

from segue.parts.fleet.drive import Order
from segue.parts.fleet.options import WorkerSettings
from segue.parts.fleet.queue import QueueEntry, enqueue, key_of, make_queue
from segue.parts.fleet.seats import RunSeats
from tests.cli.place import until
from tests.parts.fleet.machines import Fleet, gate, launches


def test_a_run_whose_process_is_just_starting_is_handed_over_at_once(fleet: Fleet) -> None:
    log, _gate = gate(fleet)
    [run] = fleet.submit("plan.md")
    allowed = WorkerSettings(allow_repos=("*",), allow_settings=("agents.*",))
    order = Order(run, fleet.url, fleet.root / "state", allowed)

    async def end_at_once() -> None:
        seats = RunSeats()
        driving = asyncio.create_task(seats.drive(order))
        await asyncio.sleep(0)  # the process is being made in a thread
        assert seats.runs == [run]
        await seats.hand_over()
        end = await driving
        assert end is not None
        assert end.killed

    asyncio.run(end_at_once())
    assert launches(log) == 0
    assert fleet.state(run) == "queued"


def test_a_job_that_others_took_over_meanwhile_is_no_error(fleet: Fleet) -> None:
    unseen: list[dict[str, Any]] = []

    async def drive(_run: str) -> None:
        """Find the job gone at the end, as a worker does that was frozen."""
        fleet.ask("DELETE FROM procrastinate_jobs WHERE status = 'doing' RETURNING id")

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unseen.append(context))
        queue = make_queue(fleet.url, drive)
        async with queue.open_async():
            entry = QueueEntry("run-1", key_of((), "https://example.org/a.git"))
            await enqueue(queue, [entry])
            await queue.run_worker_async(queues=[entry.key.name], wait=False, delete_jobs="always")
        gc.collect()  # a task that failed is told of when nobody can ask for its result any more

    asyncio.run(work())
    assert unseen == []
    assert fleet.ask("SELECT count(*) FROM procrastinate_jobs") == [(0,)]


@pytest.mark.thorough
def test_what_a_killed_worker_has_left_at_work_is_handed_over_by_the_next_one(fleet: Fleet) -> None:
    """The process that drives a run outlives its worker, so that the agent is not paid twice."""
    log, opened = gate(fleet)
    [run] = fleet.submit("plan.md", "--task", "1")
    machine = fleet.machine().start()
    until(lambda: launches(log), "an agent works")
    assert machine.process is not None
    machine.process.kill()
    machine.process.wait()
    said = len(machine.said)
    machine.start()
    until(lambda: "seats" in machine.said[said:], "the next worker is there")
    machine.end(signal.SIGINT)
    assert fleet.state(run) == "queued", machine.said
    assert not machine.has_agent()
    opened.touch()
    fleet.machine().start()
    fleet.until(run, "done")
