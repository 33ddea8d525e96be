"""The page of a fleet: workers, what waits, schedules and limits; and runs that wait, on every other page."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.place import DEADLINE, Place, until
from tests.parts.fleet.machines import Fleet
from tests.parts.fleet.shared import GATED, sharing
from tests.web.accessibility import OTHERS, USUAL, visit
from tests.web.browser import looking, needs_chromium
from tests.web.place import Served, serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

MS = DEADLINE * 1000


def test_one_machine_sees_and_pays_nothing(place: Place, served: Served) -> None:
    assert "/fleet" not in served.get("/runs").text
    answer = served.get("/fleet.json")
    assert answer.status_code == 404
    assert "There is no fleet on this database." in answer.json()["error"]["message"]
    code = (
        "import sys; from segue.web.routes import list_pages, list_actions; list_pages(), list_actions();"
        "costly = ('segue.parts.fleet.', 'procrastinate', 'psycopg');"
        "found = [name for name in sys.modules if name.startswith(costly)];"
        "assert set(found) <= {'segue.parts.fleet.page'}, found"
    )
    done = subprocess.run([sys.executable, "-c", code], env=place.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_postgres_without_a_fleet_has_no_such_page(place: Place, postgres: str) -> None:
    place.env["SEGUE_DATABASE_URL"] = postgres
    with serving(place) as served:
        assert "/fleet" not in served.get("/runs").text
        assert served.get("/fleet").status_code == 404


class Watched:
    """A fleet with its page: one worker with one seat, at work; a run that waits, and one that cannot run."""

    def __init__(self, fleet: Fleet, served: Served) -> None:
        self.fleet, self.served = fleet, served
        self.gate = fleet.root / "gate"
        fleet.commit(segue__toml=GATED.format(gate=self.gate))
        fleet.user.segue("fleet", "limit", "command", "5")
        (self.working,) = fleet.submit("plan.md", "--task", "1")
        self.lost = self.served.data("/fleet.json")
        fleet.machine().start("--jobs", "1")
        fleet.until(self.working, "running")
        (self.next,) = fleet.submit("plan.md", "--task", "2")
        (self.helpless,) = fleet.submit("plan.md", "--task", "3", "--needs", "gpu", "--needs", "big")
        fleet.user.segue("schedule", "add", "nightly", "0 3 * * *", "plan.md", "--agent", "scripted")

    def data(self) -> Any:
        return self.served.data("/fleet.json")


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, postgres_server: str) -> Iterator[Watched]:
    with (
        sharing(tmp_path_factory.mktemp("fleet") / "it", postgres_server) as fleet,
        serving(fleet.user) as served,
    ):
        yield Watched(fleet, served)


@pytest.mark.thorough
def test_a_run_without_a_worker_is_shown_as_waiting(watched: Watched) -> None:
    (queue,) = watched.lost["queues"]
    assert (queue["runs"], queue["served"], watched.lost["workers"]) == ([watched.working], False, [])


@pytest.mark.thorough
def test_the_page_says_what_the_command_says(watched: Watched) -> None:
    until(lambda: watched.data()["workers"][0]["runs"] == [watched.working], "the worker is shown at work")
    shown, said = watched.data(), watched.fleet.user.json("fleet", "status")
    names = shown.pop("names")
    assert names == dict.fromkeys((watched.working, watched.next, watched.helpless), "plan.md")
    for one in (shown, said):
        del one["now"]
        for worker in one["workers"]:
            del worker["seen"]
        for queue in one["queues"]:
            assert queue.pop("oldest") >= 0
    assert shown == said
    assert [(queue["needs"], queue["served"], queue["runs"]) for queue in shown["queues"]] == [
        (["big", "gpu"], False, [watched.helpless]),
        ([], True, [watched.next]),
    ]
    assert shown["states"] == {"queued": 2, "running": 1}
    assert shown["slots"] == {"command": [1, 5]}
    (nightly,) = shown["schedules"]
    assert (nightly["name"], nightly["source"], nightly["last"]) == ("nightly", "plan.md", None)
    assert nightly["next"] % 86_400_000 == 3 * 3_600_000, "03:00 UTC"
    text = watched.fleet.user.segue("fleet", "status").stdout
    assert "no worker can take this" in text
    assert "nightly" in text


def test_queued_runs_are_listed_filtered_and_opened(watched: Watched) -> None:
    served = watched.served
    rows = served.data("/runs?state=queued")["runs"]
    assert {row["id"] for row in rows} == {watched.next, watched.helpless}
    assert not any(row["working"] for row in rows)
    (item,) = served.data("/inbox")["items"]
    assert (item["kind"], item["run"]["id"]) == ("lost", watched.helpless)
    assert "No worker has what it needs: big, gpu" in item["why"]
    assert watched.working in str(served.data("/palette?q=plan.MD")["found"])
    assert served.data("/palette?q=write+one")["found"][-1]["kind"] == "task"
    talk = served.data(f"/runs/{watched.working}/tasks/1/conversation?q=x&show=errors")
    assert talk["turns"] == []
    step = served.data(f"/runs/{watched.working}/tasks/1")["steps"][0]["seq"]
    assert served.data(f"/runs/{watched.working}/steps/{step}")["commands"] == []
    page = served.get(f"/runs/{watched.helpless}").text
    assert "Waiting for a worker" in page
    assert ">gpu<" in page
    assert "Take this run out of the queue?" in page
    assert 'aria-label="Latest events"' in served.get(f"/runs/{watched.helpless}/events").text
    assert served.data(f"/runs/{watched.helpless}")["used"]["seconds"] == 0
    assert served.data(f"/runs/{watched.helpless}")["run"]["state"] == "queued"
    for report in ("gaps", "proof"):
        assert served.data(f"/{report}")["runs"] == 1, "what waits is not counted"
    notes = served.data("/compare")["notes"]
    assert notes == [
        "3 runs that have not ended or were stopped are not counted.",
        "Sandbox: not isolated in 1 run.",
    ]


@pytest.mark.thorough
def test_a_run_whose_worker_is_silent_is_stalled(watched: Watched) -> None:
    """Its worker has frozen: what the database says then."""
    fleet, set_lease = watched.fleet, "UPDATE orchestrator_runs SET lease = %s WHERE id = %s RETURNING 1"
    machine = fleet.machines[0]
    machine.freeze()
    try:
        fleet.ask(set_lease, 1, watched.working)
        fleet.ask("UPDATE segue_fleet.workers SET seen = seen - 60000 RETURNING 1")
        data = watched.data()
        assert data["stalled"] == [watched.working]
        assert [worker["state"] for worker in data["workers"]] == ["silent"]
        page = watched.served.get("/fleet").text
        assert "The worker of these runs is silent" in page
        assert "no worker is here" in page
        fleet.ask("UPDATE segue_fleet.workers SET seen = seen + 60000 RETURNING 1")
        fleet.ask(
            "UPDATE orchestrator_runs SET lease = lease + %s WHERE id = %s RETURNING 1",
            2**41,
            watched.working,
        )
    finally:
        machine.thaw()


def shown(page: Page, selector: str, text: str) -> None:
    page.locator(selector, has_text=text).first.wait_for(timeout=MS)


@pytest.mark.thorough
@needs_chromium
def test_the_fleet_is_watched_in_a_browser(watched: Watched) -> None:
    with looking(watched.served) as page:
        page.get_by_role("link", name="Fleet").click()
        page.wait_for_url("**/fleet")
        shown(page, "#workers td", watched.working)
        shown(page, "#queues tr", "no worker can take this")
        shown(page, ".notice.bad", "No worker has what 1 run needs: big, gpu")
        shown(page, "#schedules td", "nightly")
        shown(page, "#limits td", "1 of 5")
        page.evaluate("window.same = true")
        watched.gate.touch()
        watched.fleet.until(watched.next, "done")
        page.locator("#workers .badge", has_text="idle").wait_for(timeout=MS)
        page.locator("#queues a", has_text="plan.md").first.wait_for(timeout=MS)
        assert page.locator("#queues", has_text=watched.next).count() == 0
        assert page.evaluate("window.same") is True, "the page was loaded anew"
        assert visit(page, watched.served.url, ["/fleet"], (*USUAL, *OTHERS)) == []
        page.goto(f"{watched.served.url}/runs/{watched.helpless}")
        shown(page, "#head .badge", "queued")
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Stop").click()
        shown(page, "#head .badge", "stopped")
        assert watched.fleet.state(watched.helpless) == "stopped"
        page.get_by_role("button", name="Resume").click()
        shown(page, "#head .badge", "queued")
