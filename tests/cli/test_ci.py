"""What a CI job gets from a run: a summary, JUnit XML, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from tests.cli.place import Place

WORK = '[[on]]\nphase = "execute"\nwrite = { "f{task}" = "the work of {task}" }\n'
STUCK = '[[on]]\ntask = "2"\nsay = "I | cannot @octocat <script>."\n' + WORK


def cases(place: Place) -> dict[str, Xml.Element]:
    suites = Xml.fromstring(place.segue("proof", "last", "--junit").stdout)
    (suite,) = suites
    assert suite.attrib["tests"] == str(len(suite))
    return {case.attrib["name"].split(":")[0]: case for case in suite}


def outcome(case: Xml.Element) -> str:
    return next((child.tag for child in case if child.tag in ("failure", "skipped")), "passed")


def test_junit_passes_only_what_is_proven(place: Place) -> None:
    place.script(STUCK)
    place.segue("run", "plan.md", "--fail-fast", code=3)
    found = cases(place)
    assert {key: outcome(case) for key, case in found.items()} == {
        "1": "skipped",  # changed, but nobody looked
        "2": "failure",
        "3": "skipped",  # not begun
    }
    assert "changed, not verified" in found["1"].find("skipped").attrib["message"]  # type: ignore[union-attr]
    assert "not begun" in found["3"].find("skipped").attrib["message"]  # type: ignore[union-attr]
    assert "Write two." in str(found["2"].find("failure").text)  # type: ignore[union-attr]


@pytest.mark.thorough
def test_junit_has_the_level_and_the_card_of_a_proven_task(place: Place) -> None:
    place.script('[[on]]\nwrite = { "test_{task}.sh" = "grep -q good f", "f" = "good" }\n')
    place.more_config('checks = ["sh test_1.sh"]\n')
    place.segue("run", "plan.md", "--task", "1")
    case = cases(place)["1"]
    level = place.json("status", "last")["tasks"][0]["proof"]
    properties = {one.attrib["name"]: one.attrib["value"] for one in case.iter("property")}
    assert properties["level"] == level.split(",")[0]
    assert properties["commit"] == place.git("rev-parse", "HEAD").strip()
    assert "sh test_1.sh" in str(case.findtext("system-out"))


def test_a_name_that_xml_cannot_hold_is_no_problem(tmp_path: Path) -> None:
    place = Place.make(tmp_path, '# Plan\n\n## Task 1\nWrite \x0c <one> & "two" ￿.\n')
    place.script(WORK)
    place.segue("run", "plan.md")
    (case,) = cases(place).values()
    assert '<one> & "two"' in case.attrib["name"]


def test_the_summary_is_added_to_that_of_the_job(place: Place) -> None:
    place.script(STUCK)
    page = place.root / "summary.md"
    page.write_text("Before\n")
    summary = ("--summary", "github", "--fail-fast")
    place.segue("run", "plan.md", *summary, code=3, GITHUB_STEP_SUMMARY=str(page))
    text = page.read_text()
    assert text.startswith("Before\n## Segue: needs human\n")
    assert "1 of 3 tasks done, 0 proven." in text
    assert "| ✅ | 1: Write one\\." in text or "| ✅ | 1: Write one." in text
    assert "> Next: " in text
    assert text.count("<details>") == text.count("</details>") == 3
    assert "<script>" not in text
    assert "@octocat" not in text, "nobody is notified by what an agent says"
    run = place.last_run()
    place.segue("task", "skip", "2", "--reason", "not needed")
    place.segue("resume", run, GITHUB_STEP_SUMMARY=str(page))
    assert page.read_text().startswith(text), "the run goes on with the same options"
    assert "## Segue: done" in page.read_text()


@pytest.mark.thorough
def test_the_summary_is_written_to_a_file(place: Place) -> None:
    place.script(WORK)
    place.segue("run", "plan.md", "--task", "1", "--summary", "../summary.md")
    first = (place.root / "summary.md").read_text()
    assert first.startswith("## Segue: done\n")
    place.segue("run", "plan.md", "--summary", "../summary.md")
    assert (place.root / "summary.md").read_text().count("## Segue: ") == 1


def test_a_summary_that_cannot_be_written_is_refused_before_anything_starts(place: Place) -> None:
    place.script(WORK)
    done = place.segue("run", "plan.md", "--summary", str(place.root / "nowhere" / "summary.md"), code=2)
    assert "does not exist" in done.stderr
    assert json.loads(place.segue("status", "--json").stdout)["data"] == []


def test_a_job_summary_without_a_job_is_refused_before_anything_starts(place: Place) -> None:
    place.script(WORK)
    place.env.pop("GITHUB_STEP_SUMMARY", None)
    done = place.segue("run", "plan.md", "--summary", "github", code=2)
    assert "only set in jobs of GitHub Actions" in done.stderr
    assert json.loads(place.segue("status", "--json").stdout)["data"] == []
