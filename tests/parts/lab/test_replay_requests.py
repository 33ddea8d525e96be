"""How a request is compared with a recorded one: what varies is no difference, everything else is."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from segue.parts.lab.replay.player import LaunchPlaces, RecordedModel, find_difference, normalise, slug
from segue.system.http.server import start_server
from segue.system.recording.exchanges import ModelExchange, RecordedLaunch, Recording
from segue.system.redact import Redactor
from tests import loopback
from tests.agents.stand_in import VALUES

OLD, NEW = "/home/me/project", "/state/scratch/replay-1/repo"
PLACES = LaunchPlaces.of(repo=OLD, run="/state/runs/7"), LaunchPlaces.of(repo=NEW, run="/state/scratch/r/run")


def request(repo: str, session: str, day: str, took: str, **more: Any) -> dict[str, Any]:
    """A request as Claude Code makes it, with what differs between two launches."""
    said = f"Working directory: {repo}\nToday's date is {day}.\nScratch: /tmp/claude-0/{slug(repo)}/{session}"
    result = f"1 passed in {took}\n-rw-r--r-- 1 root root 3 {day} 12:00:01.5 +0000 one.txt"
    blocks = [{"type": "text", "text": said, "cache_control": {"type": "ephemeral"}}]
    return {
        "model": "m",
        "system": [{"text": f"x-anthropic-billing-header: cc_version=2.1.{took}; cch=1;"}],
        "messages": [
            {"role": "user", "content": blocks},
            {"role": "user", "content": [{"type": "tool_result", "content": result}]},
        ],
        "tools": [{"name": "Bash", "description": "Run a command"}],
        "metadata": {"user_id": session},
        **more,
    }


FIRST = request(OLD, "6e97d3f2-38b4-4fdd-bd64-1592f00c183c", "2026-11-16", "0.05s")
AGAIN = request(NEW, "024999fe-96cf-46fe-a917-331d7274f169", "2027-01-02", "1.25s")


def compare(old: Any, new: Any) -> Any:
    return find_difference(normalise(old, PLACES[0]).value, normalise(new, PLACES[1]).value)


def test_what_varies_is_no_difference() -> None:
    assert compare(FIRST, AGAIN) is None
    for text, other in (
        ("Mon Nov 16 12:56:47 UTC 2026", "Tue Jan  5 03:04:05 UTC 2027"),
        ("Wall time: 0.0521 seconds", "Wall time: 2.1 seconds"),
        ("-rw 1 root 3 Nov 16 12:56 a", "-rw 1 root 3 Jan  5 03:04 a"),
        ("2026-11-16T12:56:47.123Z", "2027-01-05T03:04:05.9Z"),
    ):
        assert compare({"input": [text]}, {"input": [other]}) is None, text


def test_the_first_difference_is_named() -> None:
    changed = copy.deepcopy(AGAIN)
    changed["messages"][1]["content"][0]["content"] += "\nunexpected"
    found = compare(FIRST, changed)
    assert found.place == "messages[1]"
    assert "+  unexpected" in found.diff
    changed["tools"].append({"name": "Write"})
    changed["messages"] = AGAIN["messages"]
    assert compare(FIRST, changed).place == "tools[1] (Write)"
    assert compare(FIRST, {**AGAIN, "model": "other"}).diff[-2:] == ("-m", "+other")
    # A folder beside the repository is another one.
    assert compare({"input": f"{OLD}-2/a"}, {"input": f"{NEW}/a"}) is not None


@given(VALUES, st.text("abcdefg", min_size=1))
def test_any_request_equals_itself_and_not_a_longer_one(value: Any, word: str) -> None:
    value = json.loads(json.dumps(value).replace("NaN", "null").replace("Infinity", "1"))
    normal = normalise(value, PLACES[0])
    assert normalise(normal.value, PLACES[0]).value == normal.value
    assert compare({"messages": [value]}, {"messages": [value]}) is None
    found = compare({"messages": [value]}, {"messages": [value, word]})
    assert found.place == "messages[1]"


def model(*exchanges: ModelExchange) -> RecordedModel:
    launch = RecordedLaunch("claude", "1", "token", "", OLD, "/state/runs/7")
    return RecordedModel(Recording(launch, exchanges), *PLACES, {OLD: NEW}, Redactor())


def test_answers_are_found_by_what_is_asked_and_lead_to_the_clone() -> None:
    """Two that were asked at once may come in another order; ids of now take the place of recorded ones."""
    one = ModelExchange("POST", "/v1/messages", FIRST, 200, {}, json.dumps({"path": f"{OLD}/a"}))
    two = ModelExchange("POST", "/v1/messages", {**FIRST, "model": "small"}, 200, {}, "{}")
    played = model(one, two)
    small = json.dumps({**AGAIN, "model": "small"}).encode()
    assert played.play("POST", "/v1/messages", small) is two
    assert played.play("POST", "/v1/messages", json.dumps(AGAIN).encode()) is one
    assert played.finish() is None
    assert played.play("POST", "/v1/messages", small) is None, "it was asked once"
    assert played.difference is not None
    assert played.difference.extra


def test_what_was_recorded_and_is_not_asked_is_a_difference() -> None:
    left = model(ModelExchange("HEAD", "/"), ModelExchange("POST", "/v1/messages", FIRST, 200)).finish()
    assert left is not None
    assert (left.number, left.of, left.found) == (1, 1, None)


def test_a_refusal_is_repeated_without_its_wait_and_paths_lead_to_the_clone() -> None:
    refused = ModelExchange("POST", "/a", {"x": 1}, 429, {"retry-after": "60"}, "{}")
    answered = ModelExchange("POST", "/a", {"x": 1}, 200, {}, json.dumps({"path": f"{OLD}/file"}))
    played = model(refused, answered)
    url, stop = start_server(played.app("secret"))
    try:
        first, second = (loopback.post(f"{url}/secret/a", json={"x": 1}) for _ in range(2))
    finally:
        stop()
    assert (first.status_code, first.headers["retry-after"]) == (429, "0")
    assert second.json() == {"path": f"{NEW}/file"}
