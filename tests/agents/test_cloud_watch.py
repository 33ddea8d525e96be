"""Watching a run against the simulator: broken streams, strange ends, limits, and who cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
from msgspec.structs import replace

from segue.agents.cursor_cloud.api import make_agent_id
from segue.domain.events import AgentOutput, AgentRaw, AgentStarted, AgentText, AgentTool
from segue.domain.job import Job, Mode
from tests.agents.cloud_place import CANCEL, KEY, LAUNCH, LOOK, STREAM, CloudPlace, Ended
from tests.agents.items import as_stored, of, size
from tests.parts.sim.cloud_desk import DEADLINE, wait_for

LONG = " ".join(f"word{number}" for number in range(60))


@pytest.mark.quick("0", "4")
@pytest.mark.parametrize("whole", [0, 1, 2, 3, 4, 7, 12])
def test_a_stream_that_is_cut_is_taken_up_without_a_gap_or_a_repetition(
    cloud: CloudPlace, whole: int
) -> None:
    cloud.desk.plays(say=LONG, thinking="Hm, " * 20)
    cloud.desk.breaks("sse_cut", events=whole, times=3)
    ended = cloud.run(cloud.job())
    assert ended.outcome.failure is None
    assert ended.said == LONG
    assert len(ended.of(AgentTool)) == 2


def test_a_stream_that_always_breaks_is_given_up_for_asking(cloud: CloudPlace) -> None:
    cloud.desk.plays(say=LONG, hold=True)
    cloud.desk.breaks("sse_cut", events=0, times=0)
    ended = released(
        cloud, cloud.job(), lambda: len(cloud.asked(STREAM)) == 7 and len(cloud.asked(LOOK)) > 10
    )
    assert ended.outcome.failure is None
    assert ended.outcome.text == LONG, "the run itself knows what was said"
    assert len(cloud.asked(STREAM)) == 7, "the first try and six more"


@pytest.mark.quick("invalid_last_event_id-more2", "sse_error-more6", "run_not_found-more10")
@pytest.mark.parametrize(
    ("fault", "more"),
    [
        ("stream_expired", {"on": STREAM}),
        ("stream_unavailable", {"on": STREAM}),
        ("invalid_last_event_id", {"on": STREAM}),
        ("sse_silent", {}),
        ("sse_error", {"code": "stream_unavailable"}),
        ("sse_error", {"code": "not_found"}),
        ("sse_error", {"code": "unauthorized"}),
        ("reset", {"on": STREAM}),
        ("bad_gateway", {"on": STREAM}),
        ("rate_limit_exceeded", {"on": STREAM, "retry_after": "0"}),
        ("run_not_found", {"on": STREAM}),
    ],
)
def test_no_fault_of_a_stream_spoils_the_run(cloud: CloudPlace, fault: str, more: dict[str, Any]) -> None:
    cloud.desk.plays(say=LONG)
    cloud.desk.breaks(fault, **more)
    ended = cloud.run(cloud.job())
    assert ended.outcome.failure is None
    assert ended.outcome.text == LONG
    assert len(ended.outcome.branches) == 1


@pytest.mark.parametrize("fault", ["bad_gateway", "reset", "not_json", "internal", "run_not_found"])
def test_looks_that_fail_are_repeated(cloud: CloudPlace, fault: str) -> None:
    cloud.desk.plays(say=LONG)
    cloud.desk.breaks(fault, LOOK, times=1)
    ended = cloud.run(cloud.job(), stream=False)
    assert ended.outcome.failure is None
    assert ended.outcome.text == LONG


def test_without_streams_the_run_is_asked_for(cloud: CloudPlace) -> None:
    cloud.desk.plays(say=LONG, hold=True)
    ended = released(cloud, cloud.job(idle=0.01), lambda: len(cloud.asked(LOOK)) > 3, stream=False)
    assert ended.outcome.failure is None, "nobody can say that a run is idle who does not hear it"
    assert ended.outcome.text == LONG
    assert ended.said == ""
    assert cloud.asked(STREAM) == []


def test_a_run_that_has_outlived_its_stream_is_still_adopted(cloud: CloudPlace) -> None:
    job = cloud.job()
    first = cloud.run(job)
    cloud.desk.breaks("stream_expired", STREAM, times=0)
    assert cloud.run(job).outcome.text == first.outcome.text


@pytest.mark.quick("entry3-crash-vm_died", "entry7-crash-")
@pytest.mark.parametrize(
    ("entry", "kind", "said"),
    [
        ({"faults": ["error"]}, "crash", "The agent failed."),
        ({"faults": ["error_bare"]}, "crash", "but not why"),
        ({"faults": ["error"], "error": "out of cheese"}, "crash", "out of cheese"),
        ({"faults": ["error"], "error": {"code": "vm_died"}}, "crash", "vm_died"),
        ({"faults": ["error"], "error": ["odd", 1]}, "crash", "odd"),
        ({"faults": ["error"], "error": "You've hit your usage limit."}, "usage_limit", "usage limit"),
        ({"faults": ["expired"]}, "timeout", "expire"),
        ({"statuses": ["CREATING", "FAILED"]}, "crash", ""),
    ],
)
def test_a_run_that_fails_says_why(cloud: CloudPlace, entry: dict[str, Any], kind: str, said: str) -> None:
    cloud.desk.plays(**entry)
    ended = cloud.run(cloud.job())
    assert ended.kind == kind
    assert said in ended.message
    assert ended.outcome.session is not None


def test_branches_may_be_missing_several_or_nameless(cloud: CloudPlace) -> None:
    found = []
    for fault in ("no_branch", "several_branches", "unnamed_branch", "branch_deleted"):
        cloud.desk.plays(faults=[fault])
        found.append(len(cloud.run(cloud.job()).outcome.branches))
    assert found == [0, 2, 0, 1]


def test_branches_elsewhere_are_not_ours(cloud: CloudPlace) -> None:
    first = cloud.run(cloud.job(), repository="ssh://git@github.com/Me/App.git").outcome
    assert len(first.branches) == 1
    follow_up = cloud.job(session=first.session)
    assert cloud.run(follow_up, repository="https://github.com/me/other").outcome.branches == ()
    assert cloud.run(follow_up, repository="https://github.com/me/app").outcome.branches == first.branches


def test_an_unknown_status_is_told_once_and_watched_to_the_deadline(cloud: CloudPlace) -> None:
    cloud.desk.plays(faults=["unknown_status"])
    ended = cloud.run(cloud.job(wall=5.0))
    assert ended.kind == "timeout"
    told = [data for data in ended.of(AgentRaw) if data.kind == "unknown_status"]
    assert [data.data["status"] for data in told] == ["HIBERNATING"]
    assert len(cloud.asked(CANCEL)) == 1


@pytest.mark.quick("False-hang")
@pytest.mark.parametrize("fault", ["stuck", "hang"])
@pytest.mark.parametrize("stream", [True, False])
def test_the_deadline_cancels(cloud: CloudPlace, fault: str, stream: bool) -> None:
    cloud.desk.plays(faults=[fault])
    job = cloud.job(wall=5.0)
    ended = cloud.run(job, stream=stream)
    assert ended.kind == "timeout"
    assert ended.facts["status"] == "CANCELLED", "a last look shows what the cancellation did"
    assert cloud.run(job).kind == "timeout", "who resumes is told the same"


def test_silence_is_a_hang(cloud: CloudPlace) -> None:
    cloud.desk.plays(faults=["hang"])
    job = cloud.job(idle=2.0)
    ended = cloud.run(job, poll_interval=60)
    assert ended.kind == "hang"
    assert cloud.run(job).kind == "hang"
    assert len(cloud.asked(CANCEL)) == 1


def test_a_silent_stream_is_a_hang_too(cloud: CloudPlace) -> None:
    cloud.desk.plays(hold=True)
    cloud.desk.breaks("sse_silent", times=0)
    assert cloud.run(cloud.job(idle=2.0), poll_interval=60).kind == "hang"


def test_a_cancellation_that_fails_does_not_keep_us(cloud: CloudPlace) -> None:
    cloud.desk.plays(faults=["hang"])
    cloud.desk.breaks("internal", CANCEL, times=0)
    ended = cloud.run(cloud.job(wall=5.0))
    assert ended.kind == "timeout"
    assert ended.facts["status"] == "RUNNING"
    assert len(cloud.asked(CANCEL)) == 3


def test_a_run_that_ends_while_it_is_cancelled_has_ended(cloud: CloudPlace) -> None:
    """The deadline passes, but there is nothing left to cancel: what it did counts."""
    cloud.desk.plays(say=LONG)
    cloud.desk.breaks("sse_silent", times=0)
    cloud.desk.breaks("bad_gateway", LOOK, after=1, times=1)
    cloud.desk.breaks("slow", LOOK, after=2, times=1, delay=9.0)
    ended = cloud.run(cloud.job(wall=5.0), poll_interval=0.2)
    assert ended.outcome.text == LONG
    assert ended.kind is None


def test_somebody_elses_cancellation_is_not_ours(cloud: CloudPlace) -> None:
    cloud.desk.plays(hold=True)
    job = cloud.job()

    def cancel(agent: str, run: str) -> None:
        cloud.desk.post(f"/v1/agents/{agent}/runs/{run}/cancel")

    ended = meanwhile(cloud, job, cancel)
    assert ended.kind == "unknown"
    assert "someone else" in ended.message


def test_a_run_that_disappears_is_named(cloud: CloudPlace) -> None:
    cloud.desk.plays(hold=True)

    def delete(agent: str, _run: str) -> None:
        assert cloud.desk.http.delete(f"/v1/agents/{agent}").status_code == 200
        cloud.desk.breaks("run_not_found", LOOK, times=0)

    ended = meanwhile(cloud, cloud.job(), delete)
    assert ended.kind == "deleted"


def test_closing_the_iterator_cancels_and_the_next_try_knows(cloud: CloudPlace) -> None:
    cloud.desk.plays(hold=True)
    job = cloud.job()

    async def closed() -> None:
        async with cloud.agent() as agent, aclosing(agent.run(job)) as events:
            assert isinstance(await anext(events), AgentStarted)

    asyncio.run(closed())
    assert len(cloud.asked(CANCEL)) == 1
    assert cloud.run(job).kind == "interrupted"
    assert len(cloud.asked(LAUNCH)) == 2, "the second one was a conflict"


def test_cancelled_in_the_middle_of_a_launch_nothing_is_left_at_work(cloud: CloudPlace) -> None:
    cloud.desk.plays(hold=True)
    job = cloud.job()
    cloud.desk.breaks("reset_after", LAUNCH, times=0)

    async def interrupted() -> None:
        async with cloud.agent(retry_pause=30) as agent, aclosing(agent.run(job)) as events:
            first = asyncio.ensure_future(anext(events))
            await asyncio.to_thread(wait_for, lambda: cloud.desk.get("/_sim/state")["agents"], bool)
            first.cancel()
            await asyncio.wait([first])

    asyncio.run(interrupted())
    assert cloud.desk.get("/_sim/state") == {"agents": 1, "active": 0}


def test_a_launch_that_is_never_answered_is_not_left_at_work(cloud: CloudPlace) -> None:
    cloud.desk.plays(hold=True)
    cloud.desk.breaks("reset_after", LAUNCH, times=0)
    ended = cloud.run(cloud.job(wall=3.0), retry_pause=1.2)
    assert ended.kind == "timeout"
    assert cloud.desk.get("/_sim/state") == {"agents": 1, "active": 0}


def test_secrets_stay_out_of_what_is_told_also_where_pieces_meet(cloud: CloudPlace) -> None:
    tool = {"type": "shell", "args": {"command": f"echo {KEY}"}, "result": {"stdout": KEY}}
    cloud.desk.plays(say=f"The key is {KEY}, as you know. " * 3, tools=[tool], faults=["error"], error=KEY)
    items = as_stored(cloud.run(cloud.job()).items, KEY)
    assert KEY not in str(items)
    assert "The key is [redacted], as you know." in "".join(event.text for event in of(items, AgentText))


def test_what_does_not_fit_is_counted(cloud: CloudPlace) -> None:
    tool = {"type": "read", "args": {"path": "x"}, "result": {"content": "y" * 1000}}
    cloud.desk.plays(tools=[tool] * 50, say=LONG)
    job = cloud.job()
    small = replace(job, limits=type(job.limits)(wall=50, idle=50, kept_bytes=5000))
    ended = cloud.run(small)
    [cut] = ended.of(AgentOutput)
    assert cut.cut_bytes > 10_000
    assert size(ended.items) < 20_000
    assert ended.outcome.text == LONG


def test_a_plan_that_is_no_plan_is_a_failure(cloud: CloudPlace) -> None:
    cloud.desk.plays(say="", faults=["no_branch"])
    assert cloud.run(cloud.job(mode=Mode.PLAN)).kind == "no_result"


def test_streams_are_shared_out_and_the_others_are_asked_for(cloud: CloudPlace) -> None:
    cloud.desk.post("/_sim/script", {"heartbeat": 0.02, "on": [{"hold": True}]})
    jobs = [cloud.job() for _ in range(6)]

    async def all_of_them() -> list[Ended]:
        async with cloud.agent(max_streams=2) as agent, asyncio.timeout(DEADLINE):
            runs = [asyncio.create_task(collected(agent.run(job))) for job in jobs]
            await asyncio.to_thread(
                wait_for,
                lambda: (len(cloud.asked(STREAM)), len(cloud.asked(LOOK))),
                lambda seen: seen[0] == 2 and seen[1] > 20,
            )
            for job in jobs:
                path = f"/_sim/agents/{make_agent_id(job.token)}/release"
                await asyncio.to_thread(cloud.desk.post, path, {})
            return list(await asyncio.gather(*runs))

    assert [ended.outcome.failure for ended in asyncio.run(all_of_them())] == [None] * 6


async def collected(events: Any) -> Ended:
    return Ended([event async for event in events])


def released(cloud: CloudPlace, job: Job, when: Callable[[], bool], **options: Any) -> Ended:
    """Carry a job whose run is held, and let it go when it is time."""

    def release(agent: str, _run: str) -> None:
        wait_for(when, bool)
        cloud.desk.post(f"/_sim/agents/{agent}/release", {})

    return meanwhile(cloud, job, release, **options)


def meanwhile(cloud: CloudPlace, job: Job, act: Callable[[str, str], None], **options: Any) -> Ended:
    """Carry a job and do something once it has started."""

    async def carried() -> Ended:
        async with cloud.agent(**options) as agent, aclosing(agent.run(job)) as events:
            async with asyncio.timeout(DEADLINE):
                first = await anext(events)
                assert isinstance(first, AgentStarted)
                ids = first.agent_id or "", first.run_id or ""
                acting = asyncio.create_task(asyncio.to_thread(act, *ids))
                rest = [event async for event in events]
                await acting
        return Ended([first, *rest])

    return asyncio.run(carried())
