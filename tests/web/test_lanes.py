"""Lanes on the page: a row per lane while a run works, what waits for what, and who worked when."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from segue.domain.events import (
    AgentTool,
    Event,
    PromptSent,
    RunEnded,
    RunParked,
    RunStarted,
    StepEnded,
    StepStarted,
    TaskCollided,
    TaskEnded,
    TaskMerged,
    TaskStarted,
    TaskWaiting,
)
from segue.domain.run import RunKind, RunSpec, RunState
from segue.store import connect
from tests.cli.place import DEADLINE, Place
from tests.web.browser import contrast, looking, needs_chromium, overflow
from tests.web.place import Served

if TYPE_CHECKING:
    from playwright.sync_api import Page

TITLES = {f"T{number:02}": f"Write <b>part</b> {number}" for number in range(1, 31)}
FACTS = ("gone.md", "/nowhere", "scripted", "execute")
SPEC = RunSpec("planfile", *FACTS, titles=TITLES, kind=RunKind.PLAN)


class Working:
    """A run that a process works on: what it emits is up to the test."""

    def __init__(self, database: Path) -> None:
        database.parent.mkdir(parents=True, exist_ok=True)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._do(self._open(database))

    def emit(self, *events: Event, step: str | None = None) -> None:
        """Emit events, and wait until they are stored: a change of the state is written after them."""
        for event in events:
            self._do(self._journal.emit(event, step))
        self._do(self._journal.set_state(RunState.RUNNING))

    def begin(self, key: str, lane: int, after: str = "", why: str = "") -> None:
        """Let an agent work on a task."""
        step = f"task/{key}/execute/1"
        self.emit(TaskStarted(key, TITLES[key], lane=lane, after=after, why=why))
        self.emit(StepStarted(1, "t", key, "execute", 1, "scripted"), PromptSent("d", 1), step=step)
        self.emit(AgentTool("Edit", {"path": f"src/{key}.py"}), step=step)

    def park(self) -> None:
        """Store what a sleep of one task makes of the run."""
        self._do(self._journal.set_state(RunState.PARKED, wake=4e9))

    def end(self, state: RunState) -> None:
        self.emit(RunEnded(str(state)))
        self._do(self._journal.set_state(state))

    def close(self) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _open(self, database: Path) -> None:
        self._store = connect(str(database))
        self.run = self._store.create("key", SPEC).id
        self._journal = await self._store.open(self.run)
        await self._journal.set_state(RunState.RUNNING)
        await self._journal.emit(RunStarted(*FACTS))

    async def _close(self) -> None:
        await self._store.close(self._journal)
        self._store.disconnect()

    def _do(self, what: Coroutine[Any, Any, Any]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(DEADLINE)


@contextmanager
def working(place: Place) -> Iterator[Working]:
    run = Working(place.database)
    try:
        yield run
    finally:
        run.close()


def fill(run: Working) -> None:
    """Two lanes at work, three tasks that wait."""
    run.emit(*(TaskWaiting(f"T{n:02}", ("T01",), "both name src/<auth>.py") for n in (3, 4, 25)))
    run.begin("T01", 1)
    run.begin("T02", 2)


def merge(run: Working, key: str) -> None:
    """End a task with its merge."""
    step = f"task/{key}/merge/1"
    run.emit(StepStarted(1, "t", key, "merge"), step=step)
    run.emit(TaskMerged(key, "a" * 40, "b" * 40), StepEnded(1, True), step=step)
    run.emit(TaskEnded(key, True))


def finish(run: Working) -> None:
    """End what `fill` began; one task collides and is done again."""
    merge(run, "T01")
    run.begin("T03", 1, "T01", "both name src/<auth>.py")
    run.emit(TaskCollided("T02", ("T01",), ("x.py",), "both changed x.py", "again"))
    run.emit(TaskEnded("T03", True), TaskEnded("T02", True))
    run.end(RunState.DONE)


def test_the_page_says_what_each_lane_does_and_what_waits(place: Place, served: Served) -> None:
    with working(place) as run:
        fill(run)
        lanes = served.data(f"/runs/{run.run}")["lanes"]
        body = served.get(f"/runs/{run.run}").text
    rows = [(row["lane"], row["task"], row["phase"], row["agent"], row["doing"]) for row in lanes["rows"]]
    assert rows == [
        (1, "T01", "execute", "scripted", "agent uses Edit src/T01.py"),
        (2, "T02", "execute", "scripted", "agent uses Edit src/T02.py"),
    ]
    assert (lanes["waiting"], lanes["stretches"]) == (3, [])
    assert [wait["by"] for wait in lanes["graph"]["waits"]] == [["T01"]] * 3
    assert lanes["pages"]["T25"] == 1, "it is on the first page of tasks"
    assert "src/&lt;auth&gt;.py" in body
    assert "<auth>" not in body
    assert "&lt;b&gt;part" in body


def test_a_run_with_some_lanes_parked_is_running(place: Place, served: Served) -> None:
    with working(place) as run:
        fill(run)
        run.emit(RunParked("T01", 4e9))
        run.park()
        shown = served.data(f"/runs/{run.run}")
        assert shown["run"]["state"] == "running"
        assert [row["state"] for row in shown["lanes"]["rows"]] == ["parked", "running"]
        assert served.data("/runs")["runs"][0]["state"] == "running"
        assert "Waiting for the usage limit" not in served.get(f"/runs/{run.run}").text
        run.emit(RunParked("T02", 4e9))
        run.park()
        assert served.data(f"/runs/{run.run}")["run"]["state"] == "parked"


def test_after_the_run_the_page_says_what_serialised_it(place: Place, served: Served) -> None:
    with working(place) as run:
        fill(run)
        finish(run)
        lanes = served.data(f"/runs/{run.run}")["lanes"]
    assert lanes["rows"] == []
    assert [(one["task"], one["lane"], one["after"]) for one in lanes["stretches"]] == [
        ("T01", 1, ""),
        ("T02", 2, ""),
        ("T03", 1, "T01"),
        ("T02", 2, "T02"),
    ]
    assert [link["task"] for link in lanes["chain"]] == ["T02", "T02"]
    assert lanes["chain"][-1]["why"] == "a collision with T01: both changed x.py"
    assert lanes["collisions"] == 1
    assert lanes["merge_seconds"] >= 0


def test_a_run_with_one_task_at_a_time_has_no_lanes(place: Place, served: Served) -> None:
    with working(place) as run:
        run.begin("T01", 0)
        assert served.data(f"/runs/{run.run}")["lanes"] is None
        assert "Lanes" not in served.get(f"/runs/{run.run}").text


def test_a_row_says_what_a_task_waits_for(place: Place, served: Served) -> None:
    with working(place) as run:
        fill(run)
        body = served.get(f"/runs/{run.run}/rows").text
    assert body.count("waits for T01: both name src/&lt;auth&gt;.py") == 3


def shown(page: Page, selector: str, text: str) -> None:
    page.locator(selector, has_text=text).first.wait_for(timeout=DEADLINE * 1000)


@pytest.mark.thorough
@needs_chromium
def test_lanes_are_watched_in_a_browser(place: Place, served: Served) -> None:
    with working(place) as run, looking(served) as page:
        page.goto(f"{served.url}/runs/{run.run}")
        page.evaluate("window.same = true")
        fill(run)
        shown(page, "#lanes tbody tr", "T02")
        assert page.locator("#lanes table.lanes tbody tr").count() == 2
        shown(page, "#lanes h2", "3 tasks wait")
        assert page.locator("#lanes svg.waits a").count() == 4
        assert page.locator("#lanes svg.waits path").count() == 3
        page.locator("#waits-table summary").click()
        shown(page, "#waits-table td", "both name src/<auth>.py")
        merge(run, "T01")
        shown(page, "#lanes tbody tr", "free")
        run.begin("T05", 1)
        shown(page, "#lanes tbody tr", "T05")
        assert page.evaluate("window.same") is True, "the page was loaded anew"
        assert page.locator("#waits-table").get_attribute("open") is not None, "what was opened stays open"


@pytest.mark.thorough
@needs_chromium
def test_lanes_over_time_in_a_browser(place: Place, served: Served) -> None:
    with working(place) as run:
        fill(run)
        finish(run)
        address = f"{served.url}/runs/{run.run}"
        for scheme in ("light", "dark"):
            with looking(served, color_scheme=scheme, viewport={"width": 390, "height": 844}) as page:
                page.goto(address)
                assert overflow(page) <= 0, "it fits on a phone"
                bars = page.locator("#lanes svg.timeline a")
                assert bars.count() == 4
                assert bars.locator("rect.bad").count() == 1
                assert bars.locator("rect.phase-7").count() == 1, "the merge is marked"
                label = str(bars.nth(3).get_attribute("aria-label"))
                assert re.match(
                    r"T02 in lane 2 · [\d.]+s · after a collision with T01: both changed x.py", label
                )
                page.locator("#lanes-table summary").click()
                assert page.locator("#lanes-table li").count() == 4
                page.locator("#lanes-chain summary").click()
                assert (
                    "after a collision with T01: both changed x.py"
                    in page.locator(".chain li").last.inner_text()
                )
                assert contrast(page, ".chain li span") >= 4.5
                assert contrast(page, "#lanes-table li") >= 4.5
                bars.first.focus()
                page.keyboard.press("Enter")
                page.wait_for_url("**#task-T01")
