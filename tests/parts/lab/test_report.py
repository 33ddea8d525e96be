"""`segue report` as people and programs call it, on data whose figures are known."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from segue.parts.lab.reports.build import REPORTS
from segue.parts.lab.reports.terminal import lane_text
from segue.reports.timeline import Bar, TimelineRow
from tests.cli.place import Place
from tests.reports.dataset import Written


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A place whose database holds two runs: one passes after a search, one gives up."""
    place = Place.make(tmp_path)
    place.database.parent.mkdir(parents=True)
    data = Written()
    title = "Row level security policies for every table, with tests for anonymous and signed-in users"
    one = data.run("20261115-024657-97ec", t1=title).on("1", "schema")
    one.execute(1, "RRBE").verify(1, "FAIL", "WEB_SEARCH", "Policies are missing.")
    one.event(
        "task/1/search/1", "search", task="1", query="supabase rls", results=[{"url": "https://a.org/x"}]
    )
    one.step("search").resolve(1, "E").verify(2, "PASS").end()
    two = data.run("20261115-034657-97ec", "needs_human", agent="codex", model=None, t1=title).on(
        "1", "schema"
    )
    two.execute(1, "B").verify(1, "FAIL", "RETRY", "\x1b[31mPolicies are missing\x1b[0m [bold]here[/bold].")
    two.resolve().verify(2, "FAIL", "RETRY", "Policies are missing.").end(False)
    data.write(str(place.database))
    place.own_all_runs()
    return place


def test_after_two_runs_it_is_five_plain_lines(place: Place) -> None:
    lines = place.segue("report").stdout.splitlines()
    assert len(lines) == 5
    assert lines[0] == "2 runs of kind build: 1 done, 1 needs a human."
    assert lines[1] == "Tasks: 1 of 2 done (1 not recorded)."
    assert lines[2] == "First attempts: 0 of 2 passed; after a failure 1 of 2 next attempts did."
    assert "Statistics begin with 3 runs." in lines[4]
    assert "Knowledge gaps  (from 2 runs of kind build)" in place.segue("report", "gaps").stdout


@pytest.mark.parametrize("columns", ["100", "80", "60", "300"])
def test_it_fits_and_needs_no_colour(place: Place, columns: str) -> None:
    """No word of a heading is broken either: what has no room side by side is listed with its labels."""
    shown = ""
    for args in (*([name] for name in REPORTS), ["run", "last"]):
        text = place.segue("report", *args, COLUMNS=columns, NO_COLOR="1").stdout
        assert "\x1b" not in text
        assert max(map(len, text.splitlines())) <= min(100, int(columns))
        shown += text
    assert "✗" in shown
    words = set(shown.split())
    assert words >= {"phase", "unfinished", "delivered", "accepted"}
    if columns != "60":  # there rows are listed, without what is empty
        assert words >= {"against", "retry", "conclusion"}


def test_colour_when_it_is_asked_for(place: Place) -> None:
    assert "\x1b[" in place.segue("report", "gaps", "--color", "always").stdout


def test_what_agents_wrote_is_shown_as_it_is_but_for_escapes(place: Place) -> None:
    text = " ".join(place.segue("report", "run", "20261115-03").stdout.split())
    assert "[bold]" in text
    assert "\x1b" not in text


def test_programs_get_the_figures(place: Place) -> None:
    gaps = place.json("report", "gaps")
    assert (gaps["report"], gaps["runs"]) == ("gaps", 2)
    rate = {"hits": 2, "n": 2, "runs": 2, "rate": 1.0, "low": None, "high": None, "mean_of_runs": 1.0}
    assert gaps["build_phases"][0]["failed"] == rate
    assert gaps["tasks"][0]["runs"] == ["20261115-034657-97ec", "20261115-024657-97ec"]
    everything = place.json("report")
    assert list(everything) == ["gaps", "recovery", "compare", "proof", "routing"]
    actions = {row["action"]: row["recovered"] for row in everything["recovery"]["actions"]}
    assert (actions["WEB_SEARCH"]["hits"], actions["RETRY"]["hits"], actions["RETRY"]["n"]) == (1, 0, 1)
    assert [row["setting"] for row in everything["compare"]["settings"]] == ["claude opus", "codex"]
    assert everything["gaps"] == gaps


def test_a_page_and_a_sheet_in_one_go(place: Place) -> None:
    done = place.segue("report", "--html", "out.html", "--csv", "out.csv")
    assert done.stdout == ""
    assert "Written: out.html" in done.stderr
    page = (place.repo / "out.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "Row level security" in page
    rows = list(csv.DictReader(io.StringIO((place.repo / "out.csv").read_text(), newline="")))
    assert {row["report"] for row in rows} == {"gaps", "recovery", "compare", "proof", "routing"}


def test_to_stdout(place: Place) -> None:
    rows = list(
        csv.DictReader(io.StringIO(place.segue("report", "recovery", "--csv", "-").stdout, newline=""))
    )
    assert rows[0]["action"] == "RETRY"
    assert place.segue("report", "gaps", "--html", "-").stdout.startswith("<!doctype html>")


def test_filters(place: Place) -> None:
    def runs(*args: str) -> int:
        count: int = place.json("report", "gaps", *args)["runs"]
        return count

    assert runs("--agent", "codex") == 1
    assert runs("--model", "opus") == 1
    assert runs("--source", "TODO") == 2
    assert runs("--source", "weather") == 0
    assert runs("--since", "2020-01-01") == 2
    assert runs("--since", "2060-01-01T12:00") == 0


def test_the_timeline_of_a_run(place: Place) -> None:
    text = place.segue("report", "run", "last").stdout
    assert "Run 20261115-034657-97ec: needs_human" in text
    lane = next(line for line in text.splitlines() if line.startswith("1 Row level"))
    assert lane.index("E") < lane.index("x") < lane.index("L", 10)
    assert "✗" in lane
    data = place.json("report", "run", "20261115-02")
    assert [(row["phase"], row["begin"], row["result"]) for row in data["steps"]] == [
        ("execute", 0.0, ""),
        ("verify", 10.0, "FAIL"),
        ("search", 20.0, ""),
        ("resolve", 30.0, ""),
        ("verify", 40.0, "PASS"),
    ]
    assert "<svg" in place.segue("report", "run", "last", "--html", "-").stdout


def line(width: int, *steps: tuple[str, str, float, float]) -> str:
    bars = [Bar(phase, 1, begin, end, state, "", "", "", "") for phase, state, begin, end in steps]
    return lane_text(TimelineRow("1", "t", "", tuple(bars), "done"), 100.0, width)


def test_every_step_of_a_lane_is_seen() -> None:
    long = line(20, ("execute", "done", 0, 50), ("verify", "failed", 50, 60), ("resolve", "done", 60, 100))
    assert long == "EEEEEEEEEExxLLLLLLLL"
    short = [("execute", "done", 10, 10.1), ("verify", "failed", 10.1, 10.2), ("search", "done", 10.2, 10.3)]
    assert line(20, *short) == "··ExS···············"
    late = [(phase, state, 99.9, 100.0) for phase, state, _, _ in short]
    assert line(20, *late) == "·················ExS"
    assert len(line(2, *late)) == 2


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["run"], "Which run?"),
        (["run", "nobody"], "There is no run 'nobody'"),
        (["gaps", "last"], "segue report run last"),
        (["gaps", "--since", "yesterday"], "'yesterday' is not a date or duration"),
        (["everything"], "verification, run, not 'everything'"),
        (["gaps", "--html", "/nowhere/at/all.html"], "/nowhere/at/all.html"),
    ],
)
def test_what_cannot_be_is_explained(place: Place, args: list[str], said: str) -> None:
    done = place.segue("report", *args, code=None)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_without_any_runs(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    assert "No runs here yet" in place.segue("report").stdout
    assert place.json("report", "gaps")["errors"] == []
    assert "There is no run in" in place.segue("report", "run", "last", code=2).stderr


def test_a_filter_that_finds_nothing_says_so(place: Place) -> None:
    assert "No matching runs" in place.segue("report", "--agent", "nobody").stdout


def test_after_a_real_run(tmp_path: Path) -> None:
    """What the flow writes is what the reports read."""
    place = Place.make(tmp_path)
    place.script('[[on]]\ntask = "2"\nsay = "I claim to be done."\n[[on]]\nwrite = { "f{task}" = "x" }\n')
    place.segue("run", "plan.md", "--fail-fast", code=3)
    gaps = place.json("report", "gaps")
    assert [(row["failed"]["hits"], row["failed"]["n"]) for row in gaps["build_phases"]] == [(1, 2)]
    assert len(gaps["errors"]) == 1
    assert gaps["errors"][0]["runs"] == [place.last_run()]
    settings = place.json("report", "compare")["settings"]
    assert [(row["setting"], row["passed"]["hits"], row["passed"]["n"]) for row in settings] == [
        ("scripted", 0, 1)
    ]
    assert json.loads(place.segue("report", "run", "last", "--json").stdout)["data"]["steps"]
