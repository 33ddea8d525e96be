"""Watching a run: broken streams, strange ends, limits, and who cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from segue.domain.events import AgentRaw, AgentStarted, AgentText
from segue.domain.job import Job
from tests.agents.cloud_place import CANCEL, DEADLINE, KEY, LAUNCH, LOOK, STREAM, CloudPlace, Ended, wait_for
from tests.agents.items import as_stored, of

LONG = " ".join(f"word{number}" for number in range(60))


@pytest.mark.parametrize("name", ["stream_expired", "invalid_last_event_id", "reset", "bad_gateway"])
@pytest.mark.parametrize("times", [1, 0])
def test_broken_stream_does_not_spoil_the_run(cloud: CloudPlace, name: str, times: int) -> None:
    cloud.plays(say=LONG)
    cloud.breaks(name, STREAM, times=times)
    ended = cloud.run(cloud.job())
    assert ended.outcome.failure is None
    assert ended.outcome.text == LONG
    assert len(ended.outcome.branches) == 1


@pytest.mark.parametrize("name", ["bad_gateway", "reset", "not_json", "internal", "run_not_found"])
def test_looks_that_fail_are_repeated(cloud: CloudPlace, name: str) -> None:
    cloud.plays(say=LONG)
    cloud.breaks(name, LOOK, times=1)
    ended = cloud.run(cloud.job(), stream=False)
    assert ended.outcome.failure is None
    assert ended.outcome.text == LONG


def test_without_streams_the_run_is_asked_for(cloud: CloudPlace) -> None:
    cloud.plays(say=LONG, hold=True)

    def release(agent: str, _run: str) -> None:
        wait_for(lambda: len(cloud.asked(LOOK)) > 3)
        cloud.post(f"/_sim/agents/{agent}/release")

    ended = meanwhile(cloud, cloud.job(idle=0.01), release, stream=False)
    assert ended.outcome.failure is None, "nobody can say that a run is idle who does not hear it"
    assert ended.outcome.text == LONG
    assert ended.said == ""
    assert cloud.asked(STREAM) == []


@pytest.mark.parametrize(
    ("entry", "kind", "said"),
    [
        ({"faults": ["error"]}, "crash", "The agent failed."),
        ({"faults": ["error_bare"]}, "crash", "but not why"),
        ({"faults": ["error"], "error": {"code": "vm_died"}}, "crash", "vm_died"),
        ({"faults": ["error"], "error": ["odd", 1]}, "crash", "odd"),
        ({"faults": ["error"], "error": "You've hit your usage limit."}, "usage_limit", "usage limit"),
        ({"faults": ["expired"]}, "timeout", "expire"),
        ({"statuses": ["CREATING", "FAILED"]}, "crash", ""),
    ],
)
def test_run_that_fails_says_why(cloud: CloudPlace, entry: dict[str, Any], kind: str, said: str) -> None:
    cloud.plays(**entry)
    ended = cloud.run(cloud.job())
    assert ended.kind == kind
    assert said in ended.message
    assert ended.outcome.session is not None


def test_branches_may_be_missing_several_or_nameless(cloud: CloudPlace) -> None:
    found = []
    for name in ("no_branch", "several_branches", "unnamed_branch", "branch_deleted"):
        cloud.plays(faults=[name])
        found.append(len(cloud.run(cloud.job()).outcome.branches))
    assert found == [0, 2, 0, 1]


def test_unknown_status_is_told_once_and_watched_to_the_deadline(cloud: CloudPlace) -> None:
    cloud.plays(faults=["unknown_status"])
    ended = cloud.run(cloud.job(wall=2.0))
    assert ended.kind == "timeout"
    told = [data for data in ended.of(AgentRaw) if data.kind == "unknown_status"]
    assert [data.data["status"] for data in told] == ["HIBERNATING"]
    assert len(cloud.asked(CANCEL)) == 1


@pytest.mark.parametrize("stream", [True, False])
def test_deadline_cancels(cloud: CloudPlace, stream: bool) -> None:
    cloud.plays(faults=["hang" if stream else "stuck"])
    job = cloud.job(wall=2.0)
    ended = cloud.run(job, stream=stream)
    assert ended.kind == "timeout"
    assert ended.facts["status"] == "CANCELLED", "a last look shows what the cancellation did"
    assert cloud.run(job).kind == "timeout", "who resumes is told the same"


def test_silence_is_a_hang(cloud: CloudPlace) -> None:
    cloud.plays(faults=["hang"])
    job = cloud.job(idle=1.0)
    assert cloud.run(job, poll_interval=60).kind == "hang"
    assert cloud.run(job).kind == "hang"
    assert len(cloud.asked(CANCEL)) == 1


def test_cancellation_that_fails_does_not_keep_us(cloud: CloudPlace) -> None:
    cloud.plays(faults=["hang"])
    cloud.breaks("internal", CANCEL, times=0)
    ended = cloud.run(cloud.job(wall=2.0))
    assert ended.kind == "timeout"
    assert ended.facts["status"] == "RUNNING"
    assert len(cloud.asked(CANCEL)) == 3


def test_somebody_elses_cancellation_is_not_ours(cloud: CloudPlace) -> None:
    cloud.plays(hold=True)
    ended = meanwhile(
        cloud, cloud.job(), lambda agent, run: cloud.post(f"/v1/agents/{agent}/runs/{run}/cancel")
    )
    assert ended.kind == "unknown"
    assert "someone else" in ended.message


def test_run_that_disappears_is_named(cloud: CloudPlace) -> None:
    cloud.plays(hold=True)
    ended = meanwhile(cloud, cloud.job(), lambda agent, _run: cloud.http.delete(f"/v1/agents/{agent}"))
    assert ended.kind == "deleted"


def test_closing_cancels_and_the_next_try_knows(cloud: CloudPlace) -> None:
    cloud.plays(hold=True)
    job = cloud.job()

    async def close() -> None:
        async with cloud.agent() as agent, aclosing(agent.run(job)) as events:
            assert isinstance(await anext(events), AgentStarted)

    asyncio.run(close())
    assert len(cloud.asked(CANCEL)) == 1
    assert cloud.run(job).kind == "interrupted"
    assert len(cloud.asked(LAUNCH)) == 2, "the second one was a conflict"


def test_launch_that_is_cancelled_in_the_middle_leaves_nothing_at_work(cloud: CloudPlace) -> None:
    cloud.plays(hold=True)
    job = cloud.job()
    cloud.breaks("reset_after", LAUNCH, times=0)

    async def interrupt() -> None:
        async with cloud.agent(retry_pause=30) as agent, aclosing(agent.run(job)) as events:
            first = asyncio.ensure_future(anext(events))
            await asyncio.to_thread(wait_for, lambda: cloud.launched)
            first.cancel()
            await asyncio.wait([first])

    asyncio.run(interrupt())
    assert (cloud.launched, cloud.active) == (1, 0)


def test_secrets_stay_out_of_what_is_told_also_where_pieces_meet(cloud: CloudPlace) -> None:
    tool = {"name": "run_terminal_cmd", "args": {"command": f"echo {KEY}"}, "result": {"stdout": KEY}}
    cloud.plays(say=f"The key is {KEY}, as you know. " * 3, tools=[tool], faults=["error"], error=KEY)
    items = as_stored(cloud.run(cloud.job()).items, KEY)
    assert KEY not in str(items)
    assert "The key is [redacted], as you know." in "".join(event.text for event in of(items, AgentText))


def meanwhile(cloud: CloudPlace, job: Job, act: Callable[[str, str], Any], **options: Any) -> Ended:
    """Run a job, and do something once it has started."""

    async def collect() -> Ended:
        async with cloud.agent(**options) as agent, aclosing(agent.run(job)) as events:
            async with asyncio.timeout(DEADLINE):
                first = await anext(events)
                assert isinstance(first, AgentStarted)
                ids = first.agent_id or "", first.run_id or ""
                acting = asyncio.create_task(asyncio.to_thread(act, *ids))
                rest = [event async for event in events]
                await acting
        return Ended([first, *rest])

    return asyncio.run(collect())
