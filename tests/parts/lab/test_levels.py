"""How well tasks are proven, by agent, on data whose figures are known."""

from __future__ import annotations

from segue.parts.lab.reports.build import build_reports, build_run_report
from segue.parts.lab.reports.selection import Selection
from segue.parts.lab.reports.statistics import Proportion, single_cases
from segue.store import connect
from tests.reports.dataset import Written


def test_reports_say_in_which_sandboxes_agents_worked(database: str) -> None:
    data = Written()
    for name, *sessions in (("a", "bwrap standard"), ("b", "bwrap standard"), ("c", "none", "bwrap strict")):
        run = data.run(name)
        for number, label in enumerate(sessions):
            run.event(None, "run.resumed" if number else "run.started", isolation=label)
    data.run("unknown")
    data.write(database)
    with connect(database, read_only=True) as store:
        [report] = build_reports(store, ("proof",), Selection())
    assert report.notes == ("Sandbox: not isolated in 1 run, bwrap standard in 2 runs.",)


def test_the_report_of_a_run_names_its_flaky_tests(database: str) -> None:
    data = Written()
    check = {"command": "pytest", "exit_code": 0, "output": "", "flaky": ["tests/test_shop.py::test_load"]}
    run = data.run("a")
    run.execute().end(proof={"level": "checked", "checks": [check]})
    data.write(database)
    with connect(database, read_only=True) as store:
        report = build_run_report(store, store.runs()[0].id)
    assert report is not None
    assert "Flaky, so they proved and refuted nothing: tests/test_shop.py::test_load." in report.notes


def test_levels_by_agent(database: str) -> None:
    data = Written()
    for number, level in enumerate(("changed", "tested", "held"), 1):
        data.run(f"claude-{number}").execute().end(proof={"level": level})
    codex = data.run("codex-1", agent="codex", model=None)
    codex.execute().end()
    codex.on("2").execute().end(False, "no")
    codex.on("3").execute().end(True, "accepted by a person")
    codex.on("4").execute().end(True, "skipped: why")
    codex.on("5").execute().end(False, "planned again", replanned=True)
    data.write(database)
    with connect(database, read_only=True) as store:
        [report] = build_reports(store, ("proof",), Selection())
    proven, levels = report.tables
    assert report.runs == 4
    assert proven.rows == (
        ("claude opus", single_cases(2, 3), single_cases(0, 3), single_cases(0, 3)),
        ("codex", Proportion(((0, 3),)), Proportion(((1, 3),)), Proportion(((1, 3),))),
    )
    assert [row[:2] for row in levels.rows] == [
        ("claude opus", "changed"),
        ("claude opus", "tested"),
        ("claude opus", "held"),
        ("codex", "accepted by a person"),
        ("codex", "not recorded"),
        ("codex", "unfinished"),
    ]
