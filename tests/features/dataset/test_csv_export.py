"""Reports as CSV: one header for all tables, figures as columns, nothing a spreadsheet would run."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from segue.features.dataset.reports.command import to_csv
from segue.features.dataset.reports.report import DatasetReport, ReportTable, RunIds
from segue.features.dataset.reports.statistics import Difference, single_cases


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_tables_below_each_other() -> None:
    one = ReportTable(
        "tasks", "T", ("task", "failed", "runs"), (("a", single_cases(1, 4), RunIds(("r1", "r2"))),)
    )
    two = ReportTable(
        "actions", "A", ("action", "against"), (("RETRY", None), ("X", Difference(0.5, 0.25, 0.75)))
    )
    rows = read(to_csv([DatasetReport("gaps", "G", 1, (one,)), DatasetReport("recovery", "R", 1, (two,))]))
    assert [(row["report"], row["table"]) for row in rows] == [
        ("gaps", "tasks"),
        ("recovery", "actions"),
        ("recovery", "actions"),
    ]
    assert (rows[0]["task"], rows[0]["failed_hits"], rows[0]["failed_rate"]) == ("a", "1", "0.25")
    assert (rows[0]["runs"], rows[0]["action"]) == ("r1 r2", "")
    assert (rows[2]["against_value"], rows[2]["against_shown"]) == ("0.5", "True")


def test_no_reports_leave_a_header() -> None:
    assert to_csv([]) == "report,table\r\n"


@given(st.text(min_size=1))
def test_no_cell_is_a_formula(text: str) -> None:
    table = ReportTable("t", "T", ("a", "n"), ((text, -1.5),))
    (row,) = list(csv.reader(io.StringIO(to_csv([DatasetReport("r", "R", 1, (table,))]), newline="")))[1:]
    assert not row[2].startswith(("=", "+", "-", "@", "\t", "\r"))
    assert row[2].removeprefix("'") == text.removeprefix("'")
    assert row[3] == "-1.5"
