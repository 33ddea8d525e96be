"""How well tasks are proven, by agent, on data whose figures are known."""

from __future__ import annotations

from segue.domain.events import NOT_ISOLATED
from segue.features.dataset.reports.build import build_reports
from segue.features.dataset.reports.selection import Selection
from segue.features.dataset.reports.statistics import Proportion, single_cases
from segue.store import connect
from tests.reports.dataset import Written


def test_reports_say_in_which_sandboxes_agents_worked(database: str) -> None:
    data = Written()
    for name, *sessions in (
        ("a", "bwrap standard"),
        ("b", "bwrap standard"),
        ("c", NOT_ISOLATED, "bwrap strict"),
    ):
        run = data.run(name)
        for number, label in enumerate(sessions):
            run.event(None, "run.resumed" if number else "run.started", isolation=label)
    data.run("unknown")
    data.write(database)
    with connect(database, read_only=True) as store:
        [report] = build_reports(store, ("proof",), Selection())
    assert report.notes == ("Sandbox: not isolated in 1 run, bwrap standard in 2 runs.",)


def test_levels_by_agent(database: str) -> None:
    data = Written()
    for number, level in enumerate(("changed", "tested", "independent"), 1):
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
        ("claude opus", "independent"),
        ("codex", "accepted by a person"),
        ("codex", "not recorded"),
        ("codex", "unfinished"),
    ]
