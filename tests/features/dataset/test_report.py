"""`segue report` as people and programs call it, on data whose figures are known."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

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


def test_what_agents_wrote_is_shown_as_it_is_but_for_escapes(place: Place) -> None:
    text = " ".join(place.segue("report", "gaps").stdout.split())
    assert "[bold]" in text
    assert "\x1b" not in text


def test_programs_get_the_figures(place: Place) -> None:
    gaps = place.json("report", "gaps")
    assert (gaps["report"], gaps["runs"]) == ("gaps", 2)
    rate = {"hits": 2, "n": 2, "runs": 2, "rate": 1.0, "low": None, "high": None, "mean_of_runs": 1.0}
    assert gaps["build_phases"][0]["failed"] == rate
    assert gaps["tasks"][0]["runs"] == ["20261115-034657-97ec", "20261115-024657-97ec"]
    everything = place.json("report")
    assert list(everything) == ["gaps", "recovery", "compare", "proof"]
    actions = {row["action"]: row["recovered"] for row in everything["recovery"]["actions"]}
    assert (actions["WEB_SEARCH"]["hits"], actions["RETRY"]["hits"], actions["RETRY"]["n"]) == (1, 0, 1)
    assert [row["setting"] for row in everything["compare"]["settings"]] == ["claude opus", "codex"]
    assert everything["gaps"] == gaps


def test_a_sheet(place: Place) -> None:
    done = place.segue("report", "--csv", "out.csv")
    assert done.stdout == ""
    assert "Written: out.csv" in done.stderr
    rows = list(csv.DictReader(io.StringIO((place.repo / "out.csv").read_text(), newline="")))
    assert {row["report"] for row in rows} == {"gaps", "recovery", "compare", "proof"}


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


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["gaps", "--since", "yesterday"], "'yesterday' is not a date or duration"),
        (["everything"], "'everything' is not one of"),
        (["gaps", "--csv", "/nowhere/at/all.csv"], "/nowhere/at/all.csv"),
    ],
)
def test_what_cannot_be_is_explained(place: Place, args: list[str], said: str) -> None:
    done = place.segue("report", *args, code=None)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


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
