"""Reports, experiments and steps on the page: the right figures, and where they lead."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest

from segue.domain.events import AgentText, ErrorSeen, SearchDone
from segue.parts.lab import page_cells, pages
from segue.parts.lab.reports.build import REPORTS, build_reports
from segue.parts.lab.reports.selection import Selection
from segue.runtime.app import App
from segue.store import connect
from segue.web.render import to_json
from segue.web.routes import PageRequest
from tests.cli.place import Place
from tests.parts.lab.test_experiments import trials
from tests.reports.dataset import busy
from tests.web.place import Served, make_run, serving

HOSTILE = "<script>alert(1)</script>\"><img src=x onerror=alert(2)>\x1b[31mred\x1b[0m\x07'--"


def ask(database: str, data: Any, **query: str) -> Any:
    """What a page shows for a question behind the question mark."""
    app = App.load(None, None, {"database_url": database})
    with connect(database, read_only=True) as store:
        return data(PageRequest(app, store, {}, query))


@pytest.fixture
def written(database: str) -> str:
    """Forty runs in which everything happens, on either database."""
    return busy().write(database)


def test_every_figure_leads_to_what_is_behind_it(written: str) -> None:
    with connect(written, read_only=True) as store:
        known = store.query(
            "SELECT build_phase, phase, state FROM orchestrator_steps"
            " WHERE phase IN ('execute', 'verify', 'resolve')"
        )
    shown = ask(written, pages.make_query("gaps"))
    [table] = [table for table in shown["tables"] if table["name"] == "build_phases"]
    rows = page_cells.format_table(shown, table).rows
    assert len(rows) == 3
    for row in rows:
        query = dict(part.split("=") for part in row[1].link.partition("?")[2].split("&"))
        assert query["kind"] == shown["kind"] != "", "no steps of other kinds"
        phase = None if query["build"] == "none" else query["build"]
        behind = ask(written, pages.query_steps, **query)
        failed = [row for row in known if row["build_phase"] == phase and row["state"] == "failed"]
        assert len(behind["steps"]) == min(len(failed), pages.SIZE) > 0
        assert {step["state"] for step in behind["steps"]} == {"failed"}


@pytest.mark.thorough
def test_the_page_says_what_the_command_says(written: str) -> None:
    for query, chosen in (
        ({}, Selection()),
        ({"agent": "claude", "model": "opus"}, Selection(None, "claude", "opus")),
    ):
        for name in REPORTS:
            with connect(written, read_only=True) as store:
                [report] = build_reports(store, (name,), chosen)
            shown = ask(written, pages.make_query(name), **query)
            told = report.to_json()
            assert json.loads(json.dumps({key: shown[key] for key in told}, default=to_json)) == told
            for table, description in zip(report.tables, shown["tables"], strict=True):
                found = page_cells.format_table(shown, description)
                seen = [row for group in found.groups for row in group.rows] + found.rows + found.folded
                assert len(seen) == min(len(table.rows), 100)


def test_a_filter_that_makes_no_sense_is_said(written: str) -> None:
    shown = ask(written, pages.make_query("gaps"), since="yesterday")
    assert "'yesterday' is not a date or duration" in shown["problem"]
    assert ask(written, pages.make_query("gaps"), source="no such")["runs"] == 0


def links(served: Served, path: str) -> set[str]:
    return {html.unescape(found) for found in re.findall(r'href="(/[^"]*)"', served.get(path).text)}


@pytest.mark.thorough
def test_all_links_lead_somewhere(place: Place) -> None:
    busy().write(str(place.database))
    trials(each=3).write(str(place.database))
    with serving(place) as served:
        assert served.get("/experiments/nothing").status_code == 404
        for page in (
            "/gaps",
            "/recovery",
            "/compare",
            "/experiments/careful",
            "/steps?state=failed",
            "/events",
        ):
            found = {link for link in links(served, page) if not link.startswith("/static/")}
            assert len(found) >= 8, page
            for link in sorted(found)[:25]:
                assert served.get(link).status_code == 200, link


@pytest.mark.thorough
def test_hostile_text_stays_text_here_too(place: Place, served: Served) -> None:
    happened = [
        AgentText(HOSTILE),
        ErrorSeen("EXIT_ERROR", HOSTILE, HOSTILE, "1"),
        SearchDone("1", HOSTILE, "agent"),
    ]
    verdict = {"result": "FAIL", "action": "RETRY", "reason": HOSTILE}
    make_run(place.database, happened, output={"verdict": verdict}, ok=False)
    for path in ("/events", "/gaps", "/steps"):
        shown = served.get(path).text
        assert "alert(1)" in shown, path
        assert not re.search("<script>|<img|[\x00\x07\x1b]", shown), path
    for query in ("<script>", "'--", '"><img', "%"):
        answer = served.client.get(served.url + "/events", params={"q": query, "run": query, "type": query})
        assert answer.status_code == 200
        assert "<script>" not in answer.text
    assert len(served.data("/events.json?q=%3Cscript%3E")["events"]) == 3


@pytest.mark.quick("/recovery-segue demo")
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/gaps", "segue demo"),
        ("/recovery", "segue demo"),
        ("/compare", "segue demo"),
    ],
)
def test_empty_pages_say_what_to_do(served: Served, path: str, words: str) -> None:
    assert words in served.get(path).text


def test_a_person_labels_a_task_on_the_page(place: Place) -> None:
    place.segue("run", "plan.md", "--task", "1", "--agent", "scripted")
    run = place.last_run()
    with serving(place) as served:
        address = f"/runs/{run}/tasks/1/label"
        assert address in served.get("/verification").text, "it is asked about"
        assert served.post(address, good="perhaps").status_code == 400
        said = served.post(address, good="bad", reason="rounds up").json()["data"]["said"]
        assert said == f"Task 1 of run {run} is labelled wrong."
        assert address not in served.get("/verification").text
    assert "Labels: 1 by person." in place.segue("report", "verification").stdout
