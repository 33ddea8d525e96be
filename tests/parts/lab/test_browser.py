"""Reports and other pages in a real browser: figures on hover, search, dark mode, phone width."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.place import Place
from tests.parts.lab.test_experiments import trials
from tests.reports.dataset import busy
from tests.web.accessibility import DESK, OTHERS, USUAL, visit
from tests.web.browser import PHONE, contrast, looking, needs_chromium, overflow
from tests.web.place import Served, serving

pytestmark = needs_chromium
PAGES = ("/gaps", "/recovery", "/compare", "/experiments", "/steps", "/events", "/bridge", "/doctor")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The page with forty runs to report on, which nobody changes."""
    place = Place.make(tmp_path_factory.mktemp("filled") / "place")
    busy().write(str(place.database))
    trials(each=4).write(str(place.database))
    with serving(place) as served:
        yield served


def test_a_report_is_read_and_leads_to_a_step(filled: Served) -> None:
    with looking(filled) as page:
        page.goto(filled.url + "/gaps")
        phases = page.locator("section[aria-labelledby=table-build_phases]")
        figure = phases.locator("tr", has_text="schema").first.locator(".tip").first
        tip = "e => getComputedStyle(e, '::after').visibility"
        assert figure.evaluate(tip) == "hidden"
        figure.hover()
        assert figure.evaluate(tip) == "visible"
        assert "of 40 in 40 runs. 95 % interval for a new run:" in str(figure.get_attribute("data-tip"))
        assert figure.locator("svg title").text_content() == figure.locator("a").text_content()
        figure.locator("a").click()
        page.wait_for_url("**/steps?state=failed&build=schema**")
        assert page.locator("tbody tr").count() > 10
        page.locator("tbody tr td.main > a").first.click()
        page.wait_for_url("**/runs/*/steps/*")
        assert page.locator("h1").is_visible()


@pytest.mark.thorough
def test_a_report_is_filtered_by_keyboard_alone(filled: Served) -> None:
    with looking(filled) as page:
        page.goto(filled.url + "/compare")
        rows = page.locator("section[aria-labelledby=table-settings] tbody tr")
        assert rows.count() == 9
        page.locator("select[name=agent]").focus()
        page.evaluate("submits = 0; addEventListener('submit', () => { submits += 1; })")
        page.keyboard.type("c")  # which chooses claude: nothing is applied while somebody types
        assert page.evaluate("[submits, document.activeElement.value]") == [0, "claude"]
        page.keyboard.type("odex")
        page.keyboard.press("Tab")
        page.wait_for_url("**agent=codex**")
        assert rows.count() == 3
        page.get_by_role("link", name="All runs").click()
        page.wait_for_url("**/compare")
        assert rows.count() == 9


@pytest.mark.thorough
def test_a_figure_leads_to_its_rows_its_runs_and_its_sql(filled: Served) -> None:
    with looking(filled) as page:
        page.goto(filled.url + "/compare")
        card = page.locator("section[aria-labelledby=table-by_setting]")
        figure = card.get_by_role("group", name="Cost against pass rate")
        assert figure.is_visible()
        assert "claude opus: " in str(figure.locator("desc").text_content())
        card.get_by_text("SQL for these numbers").click()
        assert "FROM segue_tasks t" in card.locator("pre").inner_text()
        card.get_by_text("The rows (3)").click()
        assert card.locator("tbody tr").count() == 3
        figure.get_by_role("link", name="claude opus").click()
        page.wait_for_url("**/runs?kind=build&agent=claude**")
        page.goto(filled.url + "/gaps")
        page.locator("table.heat td a").first.click()
        page.wait_for_url("**/steps?phase=verify&build=setup**")


@pytest.mark.thorough
def test_an_experiment_is_found_and_read(filled: Served) -> None:
    with looking(filled) as page:
        page.get_by_role("link", name="Lab", exact=True).click()
        page.get_by_role("link", name="Experiments").click()
        page.get_by_role("link", name="careful").click()
        page.wait_for_url("**/experiments/careful")
        assert page.get_by_text("16 of 48 trials are over.").is_visible()
        assert page.get_by_role("group", name="Arms").is_visible()
        assert page.locator("section[aria-labelledby=table-against_first] tbody tr").count() == 4


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_can_be_read(filled: Served, scheme: str) -> None:
    with looking(filled, color_scheme=scheme) as page:
        for path, places in (
            ("/gaps", ("h1", ".dim", "table.cells td a", "th")),
            ("/events", (".kind", ".why", ".took")),
        ):
            page.goto(filled.url + path)
            back = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (back == "rgb(16, 17, 19)") == (scheme == "dark")
            for place in places:
                assert contrast(page, place) >= 4.5, (path, place)
        page.get_by_role("button", name="Switch theme").click()
        assert page.evaluate("document.documentElement.dataset.theme") != scheme
        page.reload()
        assert page.evaluate("document.documentElement.dataset.theme") != scheme, "it is remembered"


@pytest.mark.thorough
def test_reports_can_be_used_by_everybody(filled: Served) -> None:
    with looking(filled, viewport=DESK) as page:
        pages = (*PAGES, "/proof", "/verification", "/experiments/careful")
        problems = visit(page, filled.url, pages, (*USUAL, *OTHERS))
    assert problems == [], "\n".join(problems)


@pytest.mark.thorough
def test_a_phone_is_wide_enough(filled: Served) -> None:
    with looking(filled, viewport=PHONE, has_touch=True) as page:
        for path in PAGES:
            page.goto(filled.url + path)
            assert overflow(page) <= 0, path
            assert page.locator("h1").is_visible()
            if path == "/compare":
                assert page.locator(".slim svg").first.is_visible(), "letters do not shrink with the window"
                assert not page.locator(".broad svg").first.is_visible()
            if path != "/steps":
                for place in page.locator("nav [aria-current]").all():
                    box = place.bounding_box()
                    assert box is not None
                    assert box["x"] >= 0, path
                    assert box["x"] + box["width"] <= PHONE["width"], "where we are is in sight"
