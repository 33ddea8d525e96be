"""The pages of events and of the doctor: what is found, and what fixes it."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import pytest

from segue.domain.events import AgentRaw, AgentText
from segue.runtime.app import App
from segue.store import connect
from segue.web import events
from segue.web.routes import PageRequest
from tests.cli.place import Place
from tests.reports.dataset import busy
from tests.web.place import Served, make_run


def ask(database: str, data: Any, **query: str) -> Any:
    """What a page shows for a question behind the question mark."""
    app = App.load(None, None, {"database_url": database})
    with connect(database, read_only=True) as store:
        return data(PageRequest(app, store, {}, query))


def all_events(database: str, **query: str) -> list[tuple[str, int]]:
    """The events of all pages, one page after the other, and back again."""
    found: list[tuple[str, int]] = []
    before = ""
    while True:
        page = ask(database, events.query_events, **query, **({"before": before} if before else {}))
        found += [(line["run"], line["seq"]) for line in page["events"]]
        if not page["older"]:
            break
        before = page["older"]
    if page["newer"]:
        back = ask(database, events.query_events, **query, after=page["newer"])
        ours = [(line["run"], line["seq"]) for line in back["events"]]
        first = len(found) - len(page["events"])
        assert ours == found[first - len(ours) : first], "the page before the last one"
    return found


@pytest.mark.thorough
def test_events_are_found_paged_and_filtered(database: str) -> None:
    written = busy().write(database)
    with connect(written, read_only=True) as store:
        known = store.query("SELECT run_id, seq, step, type, data FROM orchestrator_events")
    everything = sorted(((row["run_id"], row["seq"]) for row in known), reverse=True)
    assert len(everything) > 4 * events.SIZE
    assert all_events(written) == everything
    for query in (
        {"type": "search"},
        {"q": "AUTH"},
        {"q": "100%"},
        {"q": '"x'},
        {"run": "run-7", "task": "2"},
    ):
        wanted = [(row["run_id"], row["seq"]) for row in known if fits(row, query)]
        assert all_events(written, **query) == sorted(wanted, reverse=True), query


def fits(row: Mapping[str, Any], query: Mapping[str, str]) -> bool:
    own = query.get("task")
    return (
        row["type"] == query.get("type", row["type"])
        and row["run_id"] == query.get("run", row["run_id"])
        and query.get("q", "").lower() in str(list(leaves(row["data"]))).lower()
        and (own is None or row["data"].get("task") == own or (row["step"] or "").startswith(f"task/{own}/"))
    )


def leaves(value: Any) -> Any:
    """All texts of a JSON value, its names too."""
    if isinstance(value, dict):
        for name, inside in value.items():
            yield name
            yield from leaves(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from leaves(inside)
    else:
        yield value


@pytest.mark.thorough
def test_a_line_of_a_megabyte_is_one_row(place: Place, served: Served) -> None:
    long = "needle" + "<b>x" * 250_000
    happened = [AgentText(long), AgentRaw(line=long)]
    make_run(place.database, happened)
    shown = served.get("/events?q=needle%3Cb%3Ex").text
    assert shown.count("<summary>") == 2
    assert len(shown) < 20_000
    assert "<b>" not in shown


def test_the_doctor_says_what_mends_it_and_looks_again(place: Place, served: Served) -> None:
    first = served.data("/doctor.json")
    assert {one["what"] for one in first["machine"]} >= {"Python", "git", "repository", "database"}
    page = served.get("/doctor").text
    for one in [*first["machine"], *first["agents"], *first["others"]]:
        if one["fix"] and not one["ok"]:
            assert html.escape(one["fix"], quote=False).split("'")[0][:40] in html.unescape(page).replace(
                "&", "&amp;"
            )
    assert served.data("/doctor.json")["at"] == first["at"], "it is not made anew for every look"
    (place.repo / "plan.md").write_text("changed")
    assert served.post("/doctor/again").json()["data"]["said"] == "Checked again."
    [repository] = [one for one in served.data("/doctor.json")["machine"] if one["what"] == "repository"]
    assert not repository["ok"]
    assert "uncommitted changes" in repository["detail"]


def test_an_empty_page_says_what_to_do(served: Served) -> None:
    assert "segue run" in served.get("/events").text
