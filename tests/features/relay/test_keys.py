"""Idempotency-Key: the same key never runs an action twice, whatever happens in between."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli.place import processes_with, until
from tests.features.relay.place import PYTHON, Relay, RelayPlace

COUNTING = """
import pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
with (folder / "runs").open("a") as file:
    file.write("x")
while not (folder / "go").exists():
    time.sleep(0.01)
print("result", len((folder / "runs").read_text()))
"""


@pytest.fixture
def place(tmp_path: Path) -> RelayPlace:
    (tmp_path / "count.py").write_text(COUNTING)
    argv = f'[{PYTHON}, "{tmp_path}/count.py", "{tmp_path}", "{{word}}"]'
    config = f'[relay.actions.count]\nargv = {argv}\nparameters = {{ word = "[a-z]*" }}\n'
    return RelayPlace.make(tmp_path / "place", config)


def runs(place: RelayPlace) -> int:
    path = place.root.parent / "runs"
    return len(path.read_text()) if path.exists() else 0


def go(place: RelayPlace) -> None:
    (place.root.parent / "go").touch()


def call(relay: Relay, key: str | None, word: str = "") -> tuple[int, dict[str, object]]:
    answer = relay.run("count", key=key, word=word)
    return answer.status_code, answer.json()


def test_the_same_key_gives_the_first_result_also_after_a_restart(place: RelayPlace) -> None:
    go(place)
    with place.serving() as relay:
        first = call(relay, "key")
        again = relay.run("count", key="key", word="")
        assert (again.status_code, again.json()) == first
        assert again.headers["idempotent-replayed"] == "true"
        assert call(relay, "other key")[1]["id"] != first[1]["id"]
        assert call(relay, None)[1]["id"] != first[1]["id"]
    with place.serving() as relay:
        assert call(relay, "key") == first
        status, body = call(relay, "key", "other")
        assert (status, body["code"]) == (422, "key_reused")
    assert runs(place) == 3
    assert "replayed" in place.events()
    assert not any(b"other key" in path.read_bytes() for path in (place.folder / "calls").iterdir())


def test_two_at_once_with_one_key_are_one_run(place: RelayPlace) -> None:
    with place.serving() as relay, ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(call, relay, "key") for _ in range(4)]
        until(lambda: runs(place) == 1, "the first to run")
        assert call(relay, "key", "other")[0] == 422
        assert call(relay, "another key")[1]["code"] == "busy", "an action runs once at a time"
        go(place)
        results = [each.result() for each in calls]
    assert all(result == results[0] for result in results)
    assert (results[0][0], runs(place)) == (200, 1)


def test_a_killed_relay_adopts_what_it_left_at_work(place: RelayPlace) -> None:
    relay = place.start()
    with ThreadPoolExecutor(1) as pool:
        cut_off = pool.submit(call, relay, "key")
        until(lambda: runs(place) == 1, "the action")
        relay.kill()
        assert cut_off.exception() is not None
    with place.serving() as relay, ThreadPoolExecutor(1) as pool:
        asked_again = pool.submit(call, relay, "key")
        go(place)
        status, body = asked_again.result()
        assert (status, body["ok"], body["stdout"]) == (200, True, "result 1\n")
    assert runs(place) == 1
    assert [event for event in place.events() if event != "replayed"] == ["started", "ended"]


def test_what_nobody_saw_is_said_to_be_unknown(place: RelayPlace) -> None:
    relay = place.start()
    with ThreadPoolExecutor(1) as pool:
        cut_off = pool.submit(call, relay, "key")
        until(lambda: runs(place) == 1, "the action")
        relay.kill()
        assert cut_off.exception() is not None
    for pid in processes_with(str(place.root)):
        if pid != os.getpid():
            os.kill(pid, signal.SIGKILL)
    go(place)
    with place.serving() as relay:
        for _ in range(2):
            status, body = call(relay, "key")
            assert (status, body["code"]) == (409, "unknown_outcome")
    with place.serving() as relay:
        assert call(relay, "key")[1]["code"] == "unknown_outcome"
    assert runs(place) == 1


def test_a_damaged_record_is_not_run_again(place: RelayPlace) -> None:
    go(place)
    with place.serving() as relay:
        call(relay, "key")
        (record,) = (place.folder / "calls").iterdir()
        record.write_text("{")
        assert call(relay, "key")[1]["code"] == "unknown_outcome"
    assert runs(place) == 1


def test_only_one_relay_per_state_folder(place: RelayPlace) -> None:
    with place.serving():
        assert "Another relay uses" in place.segue("serve", "--port", "0", code=6).stderr
