"""The page about reports explains its queries, and its examples are real."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from segue.parts.lab.reports.report import format_cell
from segue.parts.lab.reports.selection import QUERIES, read_sql
from segue.parts.lab.reports.statistics import Proportion, single_cases
from tests.reports.dataset import Written

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "reports.md").read_text("utf-8")


def test_every_query_file_is_a_question() -> None:
    folder = Path(__file__).parents[3] / "src" / "segue" / "parts" / "lab" / "reports" / "sql"
    assert {path.stem for path in folder.glob("*.sql")} == set(QUERIES)
    assert all("/* filters */" in read_sql(name) for name in QUERIES)


def test_the_example_answers(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```sql example\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    data = Written()
    data.run("one").execute(1, "RRE")
    with closing(sqlite3.connect(data.write(str(tmp_path / "segue.db")))) as connection:
        assert connection.execute(example).fetchall() == [("task/1/execute/1", 2.0, 1)]


def test_the_examples_of_figures_are_real() -> None:
    for rate in (Proportion(((2, 3), (3, 3), (3, 4))), single_cases(8, 10)):
        assert f"`{format_cell(rate)}`" in PAGE
