"""The page stands alone and shows hostile text as text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.parts.lab.reports.axes import draw_cell
from segue.parts.lab.reports.build import REPORTS, build_reports, build_run_report
from segue.parts.lab.reports.page_table import render_html
from segue.parts.lab.reports.report import Cell, DatasetReport, ReportTable, RunIds
from segue.parts.lab.reports.selection import Selection
from segue.parts.lab.reports.statistics import Difference, Mean, single_cases
from segue.reports.drawing import draw_timeline
from segue.reports.timeline import Bar, Timeline, TimelineRow
from segue.store import connect
from tests.reports.dataset import Written

HOSTILE = (
    "</title><script>alert(1)</script><img src=x onerror=alert(2)>\" onload='x' {{ 7*191 }} {% raw %}"
    "\x1b[31m\x00\ud800\u202e &lt; ]]> <!-- --> javascript:alert(3)"
)
OURS = (
    "html head meta title style body h1 h2 h3 p nav a section div table thead tbody tr th td span i"
    " svg rect path line text g figure details summary pre code small b desc circle"
)
VOID = {"meta", "br", "img", "link", "input", "hr"}


class RunDetails(HTMLParser):
    """Which elements and attributes a browser would find, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile_data() -> Written:
    data = Written()
    for number in range(3):
        run = data.run(f"r{number}", "needs_human", HOSTILE, f"a{number}{HOSTILE}", HOSTILE, t1=HOSTILE)
        run.on("1", HOSTILE).execute(1, "RBE").verify(1, "FAIL", "WEB_SEARCH", HOSTILE)
        run.event("task/1/verify/1", "error", kind=HOSTILE, message=HOSTILE, build_phase=HOSTILE, task="1")
        results = [{"title": HOSTILE, "url": f"https://{'a<b>.org'}/{HOSTILE}"}]
        run.event(None, "search", task="1", query=HOSTILE, source=HOSTILE, results=results)
        run.resolve().verify(2, "FAIL", "RETRY", HOSTILE).end(False, HOSTILE)
    return data


def test_hostile_text_stays_text(database: str) -> None:
    with connect(hostile_data().write(database), read_only=True) as store:
        run = build_run_report(store, "r0")
        assert run is not None
        made = render_html([*build_reports(store, tuple(REPORTS), Selection()), run], HOSTILE, HOSTILE)
    seen = RunDetails(made)
    assert seen.open == []
    assert seen.elements <= set(OURS.split())
    assert not [name for name in seen.attributes if name.startswith("on") or name in ("src", "style")]
    assert "{{ 7*191 }}" in seen.text
    assert "1337" not in seen.text
    assert "alert(1)" in seen.text
    made.encode("utf-8")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", made)


def test_the_page_fetches_nothing_and_runs_nothing(database: str) -> None:
    with connect(hostile_data().write(database), read_only=True) as store:
        made = render_html(build_reports(store, tuple(REPORTS), Selection()), "t", "now")
    seen = RunDetails(made)
    assert "default-src 'none'" in made
    assert not {"script", "link", "img", "iframe"} & seen.elements
    assert set(re.findall(r'href="([^"]*)"', made)) == {f"#{name}" for name in REPORTS}
    assert "url(" not in made
    assert "prefers-color-scheme: dark" in made
    assert 'name="viewport"' in made


def test_values_are_readable_without_hovering() -> None:
    rows: tuple[tuple[Cell, ...], ...] = (
        (single_cases(8, 10), Mean(3, 12.25, 10, 14), Difference(0.25, -0.1, 0.5), RunIds(("r1", "r2"))),
    )
    table = ReportTable("x", "X", ("failed", "launches", "against_retry", "runs"), rows)
    text = RunDetails(render_html([DatasetReport("gaps", "G", 10, (table,))], "t", "now")).text
    for shown in ("8/10 runs 80% [50–96]", "12.2 [10.0–14.0]", "+25 points [-10 to +50]", "r1 r2"):
        assert shown in text


def test_long_tables_are_cut_and_say_so() -> None:
    table = ReportTable("x", "X", ("n",), tuple((n,) for n in range(250)))
    text = RunDetails(render_html([DatasetReport("gaps", "G", 1, (table,))], "t", "now")).text
    assert "150 more rows" in text


def test_nothing_to_show_is_said(tmp_path: Path) -> None:
    with connect(str(tmp_path / "none.db"), read_only=True) as store:
        text = RunDetails(render_html(build_reports(store, tuple(REPORTS), Selection()), "t", "now")).text
    assert "From 0 runs" in text
    assert "Nothing to show." in text


def drawn(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def test_a_bar_is_as_long_as_its_rate_and_its_whiskers_as_its_interval() -> None:
    root = drawn(draw_cell(single_cases(8, 10), "failed", 0))
    fill = next(item for item in root.iter("rect") if item.get("class") == "fill")
    assert float(fill.get("width", "")) == pytest.approx(0.8 * 140, abs=0.1)
    path = next(root.iter("path")).get("d", "")
    low, high = (float(number) for number in re.findall(r"M([\d.]+) 8.0H([\d.]+)", path)[0])
    assert (low / 140, high / 140) == pytest.approx((0.4971, 0.9557), abs=1e-3)
    assert (root.findtext("title") or "").startswith("8/10 runs 80%")


def test_a_difference_lies_on_its_side_of_zero() -> None:
    for value, begin in ((0.5, 70.0), (-0.5, 35.0)):
        root = drawn(draw_cell(Difference(value, value - 0.1, value + 0.1), "against_retry", 1.0))
        fill = next(item for item in root.iter("rect") if item.get("class") == "fill")
        assert (float(fill.get("x", "")), float(fill.get("width", ""))) == (begin, 35.0)


def test_nothing_is_drawn_of_nothing() -> None:
    empty: tuple[Any, ...] = (None, "text", 3, single_cases(0, 0), Mean(0, None), RunIds(("a",)))
    assert [draw_cell(cell, "x", 1.0) for cell in empty] == [""] * len(empty)


def line_of(*bars: Bar, seconds: float = 100.0) -> Timeline:
    return Timeline("r", "t", "done", seconds, (TimelineRow("1", "Tables", "schema", bars, "done"),))


def step(begin: float, end: float, phase: str = "execute", state: str = "done", result: str = "") -> Bar:
    return Bar(phase, 1, begin, end, state, result, "", "", "claude")


def test_bars_of_the_timeline_are_where_the_steps_were() -> None:
    root = drawn(draw_timeline(line_of(step(10, 60), step(60, 61, "verify", "failed", "FAIL"))))
    rects = [
        (item.get("class"), float(item.get("x", "")), float(item.get("width", "")))
        for item in root.iter("rect")
    ]
    assert rects == [("step phase-3", 100.0, 500.0), ("step phase-7 bad", 600.0, 10.0)]
    texts = [item.text for item in root.iter("text")]
    assert "✓ 1  Tables · schema" in texts
    assert "Execute 1 · 50.0s" in texts


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6), st.text(), st.text()), max_size=5),
    st.floats(0, 1e6),
)
def test_any_timeline_is_well_formed_and_inside_its_frame(
    steps: list[tuple[float, float, str, str]], seconds: float
) -> None:
    bars = [Bar(phase, 1, a, a + b, "done", "PASS", "", reason, "") for a, b, phase, reason in steps]
    root = drawn(draw_timeline(line_of(*bars, seconds=seconds)))
    for rect in root.iter("rect"):
        assert float(rect.get("x", "")) >= 0
        assert float(rect.get("width", "")) >= 3
