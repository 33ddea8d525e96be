"""The cloud simulator's streams: order, twins, resuming, heartbeats, retention, cuts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.parts.sim.cloud.feed import Feed
from segue.parts.sim.cloud.requests import CloudRefusal
from tests.parts.sim.cloud_desk import Desk, Event, events, open_desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with open_desk(tmp_path) as made:
        yield made


def path(agent: str, run: str) -> str:
    return f"/v1/agents/{agent}/runs/{run}/stream"


def read(desk: Desk, agent: str, run: str, last: str | None = None) -> list[Event]:
    """The stream to its end."""
    answer = desk.http.get(path(agent, run), headers={"Last-Event-ID": last} if last else {})
    assert answer.status_code == 200, answer.text
    return events(answer.content)


def test_a_stream_tells_the_whole_story(desk: Desk) -> None:
    desk.plays(
        thinking="Hm, what rhymes with that?",
        tools=[{"type": "shell", "args": {"command": "make"}, "result": {"exitCode": 0}}],
        write={"a.txt": "a\n"},
        say="This is a poem of some length.",
    )
    agent, run = desk.launch()
    answer = desk.http.get(path(agent, run), headers={"Accept": "text/event-stream"})
    assert answer.headers["content-type"] == "text/event-stream"
    assert int(answer.headers["X-Cursor-Stream-Retention-Seconds"]) > 0
    found = events(answer.content)
    simple = [event for event in found if event.name not in ("interaction_update", "status")]
    assert (
        "".join(e.data["text"] for e in simple if e.name == "assistant") == "This is a poem of some length."
    )
    assert "".join(e.data["text"] for e in simple if e.name == "thinking") == "Hm, what rhymes with that?"
    tools = [(e.data["name"], e.data["status"]) for e in simple if e.name == "tool_call"]
    assert tools == [
        ("run_terminal_cmd", "running"), ("run_terminal_cmd", "completed"),
        ("edit_file", "running"), ("edit_file", "completed"),
    ]  # fmt: skip
    assert [e.name for e in found[-2:]] == ["result", "done"]
    result = found[-2].data
    assert (result["runId"], result["status"], result["text"]) == (
        run,
        "FINISHED",
        "This is a poem of some length.",
    )
    assert result["git"] == desk.run(agent, run)["git"]


def test_status_comes_first_and_has_no_id(desk: Desk) -> None:
    desk.plays(create_delay=0.1)
    agent, run = desk.launch()
    found = read(desk, agent, run)
    assert found[0] == Event(None, "status", {"runId": run, "status": "CREATING"})
    statuses = [event for event in found if event.name == "status"]
    assert [event.data["status"] for event in statuses] == ["CREATING", "RUNNING", "FINISHED"]
    assert {event.id for event in statuses} == {None}
    assert read(desk, agent, run)[0].data["status"] == "FINISHED", "said again to whoever comes later"


def test_twins_share_an_id(desk: Desk) -> None:
    agent, run = desk.launch()
    found = [event for event in read(desk, agent, run) if event.id]
    names: dict[str, list[str]] = {}
    for event in found:
        names.setdefault(event.id or "", []).append(event.name)
    assert ["assistant", "interaction_update"] in names.values()
    assert ["tool_call", "interaction_update"] in names.values()
    assert list(names.values())[-1] == ["result", "done"]
    assert all(len(twins) <= 2 for twins in names.values())


def test_resuming_gives_exactly_the_rest(desk: Desk) -> None:
    agent, run = desk.launch()
    whole = [event for event in read(desk, agent, run) if event.id]
    for event in whole:
        seen = max(index for index, other in enumerate(whole) if other.id == event.id)
        rest = [other for other in read(desk, agent, run, event.id) if other.id]
        assert rest == whole[seen + 1 :]


@given(st.lists(st.integers(min_value=1, max_value=2), min_size=1), st.data())
def test_after_any_id_nothing_is_lost_and_nothing_said_twice(groups: list[int], data: st.DataObject) -> None:
    feed = Feed("run-1")
    for size in groups:
        feed.add(*[("assistant", {"text": "x"})] * size)
    index = data.draw(st.integers(0, len(feed.events) - 1))
    id_ = feed.events[index].id
    place = feed.find_position(id_)
    assert feed.events[place - 1].id == id_
    assert all(event.id != id_ for event in feed.events[place:])
    with pytest.raises(CloudRefusal):
        feed.find_position("1-x")


def test_a_foreign_id_is_refused(desk: Desk) -> None:
    agent, run = desk.launch()
    other, second = desk.launch()
    foreign = next(event.id for event in read(desk, other, second) if event.id)
    read(desk, agent, run)
    for wrong in ("nonsense", f"{foreign}0"):
        answer = desk.http.get(path(agent, run), headers={"Last-Event-ID": wrong})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_last_event_id")


def test_a_stream_is_kept_for_a_while_only(desk: Desk) -> None:
    agent, run = desk.done()
    desk.post("/_sim/script", {"retention": 0})
    answer = desk.http.get(path(agent, run["id"]))
    assert (answer.status_code, answer.json()["error"]["code"]) == (410, "stream_expired")
    assert desk.run(agent, run["id"])["status"] == "FINISHED"


def test_heartbeats_while_nothing_happens(desk: Desk) -> None:
    desk.post("/_sim/script", {"heartbeat": 0.02, "on": [{"hold": True}]})
    agent, run = desk.launch()
    got = bytearray()
    with desk.http.stream("GET", path(agent, run)) as answer:
        for data in answer.iter_raw():
            got += data
            if got.count(b"event: heartbeat\ndata: {}\n\n") == 2:
                desk.post(f"/_sim/agents/{agent}/release", {})
    assert [event.name for event in events(bytes(got))][-1] == "done"


def test_a_reader_sees_a_cancelled_run_end(desk: Desk) -> None:
    desk.plays(hold=True)
    agent, run = desk.launch()
    with desk.http.stream("GET", path(agent, run)) as answer:
        pieces = answer.iter_raw()
        got = next(pieces)
        desk.post(f"/v1/agents/{agent}/runs/{run}/cancel")
        got += b"".join(pieces)
    result = events(got)[-2]
    assert (result.name, result.data["status"]) == ("result", "CANCELLED")
    assert "text" not in result.data


def test_a_stream_cut_in_the_middle_of_an_event_can_be_resumed(desk: Desk) -> None:
    agent, run = desk.done()
    whole = [event for event in read(desk, agent, run["id"]) if event.id]
    desk.breaks("sse_cut", events=4)
    got = bytearray()
    with desk.http.stream("GET", path(agent, run["id"])) as answer:
        pieces = answer.iter_raw()
        with pytest.raises(httpx2.RemoteProtocolError):
            deque(map(got.extend, pieces))
    first = events(bytes(got))
    assert len(first) == 4
    assert not got.endswith(b"\n\n"), "half an event hangs over"
    rest = [event for event in read(desk, agent, run["id"], first[-1].id) if event.id]
    assert {event.id for event in [*first[1:], *rest]} == {event.id for event in whole}


def test_a_silent_stream(desk: Desk) -> None:
    desk.post("/_sim/script", {"heartbeat": 0.01, "faults": [{"fault": "sse_silent"}]})
    agent, run = desk.done()
    got = bytearray()
    with desk.http.stream("GET", path(agent, run["id"]), timeout=0.3) as answer:
        pieces = answer.iter_raw()
        with pytest.raises(httpx2.ReadTimeout):
            deque(map(got.extend, pieces))
    assert [event.name for event in events(bytes(got))] == ["status"]
    assert read(desk, agent, run["id"])[-1].name == "done", "only one request was hit"


@pytest.mark.parametrize("code", ["stream_unavailable", "unauthorized"])
def test_an_error_in_the_stream(desk: Desk, code: str) -> None:
    agent, run = desk.launch()
    desk.breaks("sse_error", code=code)
    found = read(desk, agent, run)
    assert [event.name for event in found] == ["status", "error"]
    assert found[1].data["code"] == code


def test_a_run_that_never_moves_says_nothing_more(desk: Desk) -> None:
    desk.post("/_sim/script", {"heartbeat": 0.01, "on": [{"faults": ["stuck"]}]})
    agent, run = desk.launch()
    with desk.http.stream("GET", path(agent, run)) as answer:
        pieces = answer.iter_raw()
        got = b"".join(next(pieces) for _ in range(4))
    assert {event.name for event in events(got)} == {"status", "heartbeat"}
    assert desk.run(agent, run)["status"] == "CREATING"
