"""`segue try`: an agent is compared with what Segue expects, and the report is fit for strangers."""

from __future__ import annotations

from typing import Any

from tests.cli.place import Place

SECRET = "sk-ant-0123456789abcdefghijklmnop"
GOOD = '[[on]]\nsay = "It is 7411."\nwrite = { "greeting.txt" = "hello from segue\\n" }\n'


def states(data: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["state"] for check in data["checks"]}


def test_an_agent_that_does_what_it_is_asked(place: Place) -> None:
    place.script(GOOD)
    report = place.root / "report.md"
    data = place.json("try", "scripted", "--report", str(report))
    assert data["ok"]
    assert states(data)["works"] == states(data)["gives a result"] == states(data)["reports usage"] == "yes"
    assert data["usage"]["input_tokens"] > 0
    assert report.read_text().startswith("# segue try scripted: as expected")
    assert place.git("status", "--porcelain") == ""


def test_an_agent_that_does_something_else(place: Place) -> None:
    place.script('[[on]]\nsay = "Done."\nwrite = { "other.txt" = "x", "greeting.txt" = "no" }\n')
    data = place.json("try", "scripted", code=3)
    assert (states(data)["works"], states(data)["changes only that"]) == ("no", "no")


def test_a_limit_is_named_with_what_is_known_of_its_end(place: Place) -> None:
    place.script("[[on]]\nlimit = 'You have hit your usage limit. Try again in 3 hours.'\nexit_code = 1\n")
    data = place.json("try", "scripted", code=3)
    notes = {check["name"]: check["note"] for check in data["checks"]}
    assert notes["works"] == "a limit of the account is reached"
    assert notes["limits are understood"] == "its end is known"


def test_a_bad_account_is_not_called_a_fault_of_the_program(place: Place) -> None:
    place.script(f"[[on]]\nstderr = 'Error: 401 Unauthorized for bob@example.com {SECRET}'\nexit_code = 1\n")
    report = place.root / "report.md"
    tried = place.segue("try", "scripted", "--report", str(report), code=3)
    assert "401 Unauthorized for bob" in tried.stderr
    assert SECRET not in tried.stderr
    assert report.read_text().startswith("# segue try scripted: could not be tried")
    assert "its service refused the login or key" in report.read_text()
    assert "bob" not in report.read_text() + tried.stdout


def test_nothing_of_the_user_is_in_the_report(place: Place) -> None:
    """Not even of an agent that prints all it knows."""
    said = f"{SECRET} {place.root}"
    place.script(f'[[on]]\nstderr = "{said}"\nsay = "{said}"\nwrite = {{ "{"a" * 20}" = "x" }}\n')
    shown = place.segue("try", "scripted", code=3).stdout
    for word in (SECRET, str(place.root), "Tester", "tester@localhost", "a" * 20):
        assert word not in shown
