"""The live stream: nothing is lost, nothing is told twice, and many pages cost no more than one."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import httpx2

from segue.domain.events import Event, NoticeGiven
from segue.domain.run import RunState
from segue.web.live import BEHIND, WAITING, Listener, StreamMessage, resume_from
from tests.cli.place import DEADLINE, Place, until
from tests.web.place import Served, add_events, browse, fetch, make_run

Told = tuple[str, str, Any]
"""The kind, the id and the data of a message."""


def notices(count: int, start: int = 0, size: int = 10) -> list[Event]:
    return [NoticeGiven(f"{number} {'x' * size}") for number in range(start, start + count)]


def messages(answer: httpx2.Response) -> Iterator[Told]:
    """The messages of a stream, as a browser reads them."""
    kind = id_ = data = ""
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "id":
            id_ = value
        elif name == "data":
            data = value
        elif not line and kind:
            yield kind, id_, json.loads(data)
            kind = data = ""


class Page:
    """An open page: reads its stream in a thread of its own until it has seen enough."""

    def __init__(self, served: Served, run: str, last: str = "") -> None:
        self._served, self._run = served, run
        self._headers = {"last-event-id": last} if last else {}
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.last = last
        self.ready = threading.Event()
        self._wanted = 0
        self._thread = threading.Thread(target=self._read, daemon=True)

    def open(self, wanted: int) -> Page:
        """Begin to read, until so many events were told."""
        self._wanted = wanted
        self._thread.start()
        assert self.ready.wait(DEADLINE)
        return self

    def end(self) -> Page:
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive(), f"only {len(self.texts)} of {self._wanted} events were told"
        return self

    def _read(self) -> None:
        cookies = self._served.client.cookies
        with browse(cookies=cookies) as client:
            url = f"{self._served.url}/live?run={self._run}"
            with client.stream("GET", url, headers=self._headers) as answer:
                for kind, id_, data in messages(answer):
                    self.kinds.append(kind)
                    self.last = id_ or self.last
                    self.texts += [event["text"] for event in data.get("events", ()) if event["text"]]
                    self.ready.set()
                    if kind == "reset" or len(self.texts) >= self._wanted > 0:
                        return


def told(numbers: Sequence[int], size: int = 10) -> list[str]:
    return [f"{number} {'x' * size}" for number in numbers]


def test_a_page_is_told_what_happens_and_goes_on_where_it_was_cut_off(place: Place, served: Served) -> None:
    run = make_run(place.database, state=RunState.RUNNING).id
    page = Page(served, run).open(5)
    add_events(place.database, run, notices(5))
    assert page.end().texts == told(range(5))
    add_events(place.database, run, notices(300, 5))
    again = Page(served, run, page.last).open(300).end()
    assert again.texts == told(range(5, 305))
    assert "reset" not in again.kinds


def test_a_page_that_missed_too_much_looks_at_everything_anew(place: Place, served: Served) -> None:
    run = make_run(place.database, notices(BEHIND + 10), state=RunState.RUNNING).id
    page = Page(served, run, "1").open(1).end()
    assert page.kinds == ["reset"]
    assert int(page.last) > BEHIND
    from_elsewhere = Page(served, run, "99999999").open(1).end()
    assert from_elsewhere.kinds == ["reset"]


def test_where_a_page_goes_on() -> None:
    assert resume_from(None, 7) == (7, False)
    assert resume_from(7, 7) == (7, False)
    assert resume_from(3, 7) == (3, False)
    assert resume_from(8, 7) == (7, True)
    assert resume_from(0, BEHIND) == (0, False)
    assert resume_from(0, BEHIND + 1) == (BEHIND + 1, True)


def test_pages_that_look_at_the_same_run_have_it_drawn_once(place: Place, served: Served) -> None:
    run = make_run(place.database).id
    watcher = Page(served, run).open(1)
    parts = [served.get(f"/runs/{run}/events", **{"x-segue-part": "content"}) for _ in range(3)]
    assert len({part.text for part in parts}) == 1
    assert "<html" not in parts[0].text
    add_events(place.database, run, notices(1))
    watcher.end()
    assert "0 xxxxxxxxxx" in served.get(f"/runs/{run}/events", **{"x-segue-part": "content"}).text


def test_a_run_whose_process_was_killed_is_shown_as_stopped(place: Place, served: Served) -> None:
    place.script("[[on]]\ndelay = 300\n")
    process = place.start("run", "plan.md")
    until(lambda: place.started("task/1/execute/1"), "task 1")
    run = place.last_run()
    Page(served, run).open(0)
    part = {"x-segue-part": "content"}
    assert "</span> running</span>" in served.get(f"/runs/{run}", **part).text
    process.kill()
    process.wait(DEADLINE)
    until(lambda: "</span> stopped</span>" in served.get(f"/runs/{run}", **part).text, "the truth")
    place.segue("stop", run)


def test_a_page_that_reads_too_slowly_is_told_to_look_anew() -> None:
    async def fill() -> Listener:
        listener = Listener(asyncio.get_running_loop(), "run", 0)
        for number in range(WAITING + 5):
            listener.put(StreamMessage("events", "{}", str(number)))
        return listener

    waiting = asyncio.run(fill()).waiting
    assert len(waiting) <= WAITING
    assert waiting[0].kind == "reset"
    assert waiting[0].id == str(WAITING)


def test_changes_are_told_once_however_many_there_were() -> None:
    async def fill() -> Listener:
        listener = Listener(asyncio.get_running_loop(), "", 0)
        for number in range(10):
            listener.put(StreamMessage("change", json.dumps({"version": number})))
        return listener

    assert [message.data for message in asyncio.run(fill()).waiting] == ['{"version": 9}']


def test_a_stream_wants_a_cookie_and_ends_with_the_server(place: Place, served: Served) -> None:
    assert fetch(f"{served.url}/live").status_code == 401
    page = Page(served, make_run(place.database).id).open(1)
    assert served.stop() == 0
    assert page.end().kinds[-1] in ("end", "hello", "change")
