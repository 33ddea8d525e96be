"""Figures are where their numbers are, show hostile names as text, and their SQL gives the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.run import RunKind
from segue.parts.lab.reports.build import REPORTS, build_reports
from segue.parts.lab.reports.figures import draw_scatter, draw_trend
from segue.parts.lab.reports.page_table import draw_figure, present_table
from segue.parts.lab.reports.report import DatasetReport, ReportTable, read_tables
from segue.parts.lab.reports.runs import FEWEST_IN_TREND
from segue.parts.lab.reports.selection import Dataset, Selection, choose_kind
from segue.parts.lab.reports.statistics import Mean, Proportion, single_cases
from segue.reports.timeline import Rows
from segue.store import connect
from tests.reports.dataset import Written, WrittenRun, busy

SELECTIONS = (
    Selection(),
    Selection(agent="claude", model="opus"),
    Selection(since=1, sources=("Build 1", "it's ? odd")),
)


def find(report: DatasetReport, name: str) -> ReportTable:
    return next(table for table in report.tables if table.name == name)


def rows_of(table: ReportTable) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in table.rows]


def numbers(rate: Any, cost: Any) -> tuple[Any, ...]:
    average = None if cost.value is None else pytest.approx(cost.value)
    return rate.n, rate.hits, cost.n, average


def test_the_sql_of_every_figure_gives_its_numbers(database: str) -> None:
    with connect(busy().write(database), read_only=True) as store:
        for chosen in SELECTIONS:
            gaps, recovery, compare = build_reports(store, ("gaps", "recovery", "compare"), chosen)

            def ask(table: ReportTable) -> list[tuple[Any, ...]]:
                return [tuple(row.values()) for row in store.query(table.sql)]

            settings, trend = find(compare, "by_setting"), find(compare, "trend")
            assert ask(settings) == [(name, *numbers(rate, cost)) for name, rate, cost in rows_of(settings)]
            periods = [row[1:] for row in ask(trend)]
            assert len(trend.rows) > 1 or chosen.sources
            assert not trend.rows or periods == [numbers(rate, cost) for *_, rate, cost in rows_of(trend)]
            matrix = find(gaps, "first_verdicts")
            wanted = [
                (phase, name, rate.n, rate.hits, len(rate.runs)) for phase, name, rate in rows_of(matrix)
            ]
            assert sorted(ask(matrix)) == sorted(wanted)
            rates = {row[0]: row[1] for row in rows_of(find(recovery, "actions"))}
            missed = {row[0]: row[4] for row in rows_of(find(recovery, "actions"))}
            for action, cases, recovered, runs, left_out in ask(find(recovery, "actions")):
                assert (rates[action].n, rates[action].hits, len(rates[action].runs)) == (
                    cases,
                    recovered,
                    runs,
                )
                assert missed[action] == left_out


class Shown(Dataset):
    """The rows that the SQL below a table gives, and nothing else."""

    sql = ""

    def ask(self, query: str) -> Rows:
        text = self.show_queries((query,))
        return self._store.query(text) if text in self.sql else []


@pytest.mark.parametrize("name", sorted(REPORTS))
def test_every_table_follows_from_the_sql_that_it_shows(name: str, tmp_path: Path) -> None:
    data = busy()
    for number, (name_, *_) in enumerate(data.runs):
        WrittenRun(data, name_, 0, seq=100_000).event(
            None, "label", task="1", good=bool(number % 3), origin="person"
        )
    trial = {"experiment": "x", "arms": 2, "prompts": 1, "trials": 2, "looks": 1}
    for number in range(4):
        arm = {"arm": "ab"[number % 2], "prompt": "p", "place": number % 2}
        run = data.run(f"t{number}", "done" if number else "failed", kind="trial", trial=trial | arm)
        run.passes()
    with connect(data.write(str(tmp_path / "segue.db")), read_only=True) as store:
        for chosen in (Selection(), Selection(kind=RunKind.TRIAL)):
            [report] = build_reports(store, (name,), chosen)
            for table in report.tables:
                assert table.sql
                if "queries" not in read_tables()[table.name]:
                    continue  # it has SQL of its own: see above
                shown = Shown(store, choose_kind(store, chosen)[0])
                shown.sql = table.sql
                assert find(REPORTS[name](shown), table.name).rows == table.rows


def test_runs_of_many_weeks_are_shown_by_week(tmp_path: Path) -> None:
    data = Written()
    for number in range(12):
        data.run(f"r{number}", "done" if number % 3 else "failed").passes()
        *rest, created, updated = data.runs[-1]
        data.runs[-1] = (*rest, created + number * 3 * 86_400_000, updated)
    with connect(data.write(str(tmp_path / "segue.db")), read_only=True) as store:
        [report] = build_reports(store, ("compare",), Selection())
        trend = find(report, "trend")
        counts = [row["runs"] for row in store.query(trend.sql)]
    assert [
        len(rate.runs) for rate in (row[2] for row in trend.rows) if isinstance(rate, Proportion)
    ] == counts
    assert [row[0] for row in trend.rows][:2] == ["2026-09-21", "2026-09-28"], "Mondays"


def test_few_runs_have_no_trend(tmp_path: Path) -> None:
    data = Written()
    for number in range(FEWEST_IN_TREND - 1):
        data.run(f"r{number}").passes()
    with connect(data.write(str(tmp_path / "segue.db")), read_only=True) as store:
        [report] = build_reports(store, ("compare",), Selection())
    assert find(report, "trend").rows == ()
    assert find(report, "trend").note == "Too few runs for a trend: 9; 10 are needed."


def draw(*rows: tuple[Any, ...], width: float = 760.0) -> ElementTree.Element:
    table = ReportTable("by_setting", "X", ("setting", "passed", "cost_usd"), rows)
    return ElementTree.fromstring(draw_scatter(table, width, lambda _: "#rows"))


def test_points_are_at_their_cost_and_rate_and_the_frontier_joins_the_best() -> None:
    root = draw(
        ("cheap", single_cases(2, 10), Mean(10, 1.0, 0.5, 1.5)),
        ("beaten", single_cases(1, 10), Mean(10, 2.0, 1.5, 2.5)),
        ("best", single_cases(10, 10), Mean(10, 4.0, 3.0, 5.0)),
    )
    points = [
        (one.get("class"), float(one.get("cx", "")), float(one.get("cy", ""))) for one in root.iter("circle")
    ]
    assert [kind for kind, *_ in points] == ["point", "point open", "point"]
    (_, cheap, low), (_, beaten, _), (_, best, high) = points
    assert (beaten - cheap) * 2 == pytest.approx(best - beaten, abs=0.3), "the axis is linear"
    assert high < low, "a higher rate is farther up"
    [frontier] = [one.get("d", "") for one in root.iter("path") if one.get("class") == "frontier"]
    assert frontier == f"M{cheap:.1f} {low:.1f}H{best:.1f}V{high:.1f}"
    assert root.findtext("title") == "Cost against pass rate"
    assert "beaten: 1/10 runs 10%" in (root.findtext("desc") or "")


def test_who_reports_no_cost_has_no_point_but_a_row() -> None:
    rows = (("free", single_cases(2, 3), Mean(0, None)), ("paid", single_cases(2, 3), Mean(3, 1.0, 0.5, 2.0)))
    assert len(list(draw(*rows).iter("circle"))) == 1
    table = ReportTable("by_setting", "X", ("setting", "passed", "cost_usd"), rows[:1])
    shown = present_table(table, lambda _: "")
    assert (shown.drawing, shown.total) == ("", 1)


@given(
    st.lists(
        st.tuples(st.text(), st.integers(0, 9), st.floats(1e-6, 1e9), st.floats(0, 1e6)),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from((360.0, 760.0)),
)
def test_any_figure_is_well_formed_and_inside_its_frame(
    found: list[tuple[str, int, float, float]], width: float
) -> None:
    rows = [
        (name, single_cases(hits, 9), Mean(9, cost, max(0.0, cost - spread), cost + spread))
        for name, hits, cost, spread in found
    ]
    root = draw(*rows, width=width)
    columns = ("period", "since", "passed", "cost_usd")
    table = ReportTable("trend", "T", columns, tuple((row[0], "", *row[1:]) for row in rows))
    for drawing in (root, ElementTree.fromstring(draw_trend(table, width, lambda _: "#rows"))):
        _, _, wide, high = map(float, drawing.get("viewBox", "").split())
        for point in drawing.iter("circle"):
            assert 0 <= float(point.get("cx", "")) <= wide
            assert 0 <= float(point.get("cy", "")) <= high


def test_names_do_not_cover_each_other() -> None:
    rows = [(f"agent number {n}", single_cases(8, 10), Mean(9, 2.0 + n / 50, 1.9, 2.1)) for n in range(5)]
    texts = [one for one in draw(*rows).iter("text") if one.get("class") == "label"]
    places = [(float(one.get("x", "")), float(one.get("y", ""))) for one in texts]
    assert len(places) == 5
    for number, (x, y) in enumerate(places):
        for other_x, other_y in places[:number]:
            assert abs(y - other_y) >= 10 or abs(x - other_x) >= 90


def test_a_figure_is_drawn_for_wide_and_for_narrow_windows() -> None:
    rows = (("RETRY", single_cases(2, 9), None, "", 0), ("WEB_SEARCH", single_cases(0, 0), None, "", 0))
    table = ReportTable(
        "actions", "A", ("action", "recovered", "against_retry", "says", "not_delivered"), rows
    )
    drawn = draw_figure(table, lambda name: f"/steps?{name}")
    assert drawn.count("<svg") == 2
    assert drawn.count('href="/steps?RETRY"') == 2
    assert "WEB_SEARCH" not in drawn, "there is nothing to draw of it"


def test_settings_are_grouped_and_single_ones_folded() -> None:
    cells = (single_cases(1, 2), single_cases(1, 2), *(Mean(2, 1.0),) * 6, single_cases(0, 0))
    names = ("/home/ada/projects/shop/plan.md", "Build a chat for two people")
    rows = ((names[0], "a", *cells), (names[0], "b", *cells), (names[1], "a", *cells))
    columns = ("source", "setting", "passed", "passed_first", *"123456", "recovered")
    shown = present_table(ReportTable("settings", "S", columns, rows), lambda _: "")
    [group] = shown.groups
    assert (group.name, group.whole, len(group.rows)) == ("…/shop/plan.md", names[0], 2)
    assert [cell.text for cell in group.rows[0][:2]] == ["a", "50%"]
    assert group.rows[0][1].small == "1/2 runs"
    assert len(shown.folded) == 1
    assert shown.about_folded == "1 source with one setting only: nothing to compare"
