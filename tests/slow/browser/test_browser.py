"""The main paths in a real browser: watch a run, open a failed verification, retry, dark, phone, keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from segue.domain.events import PatchMade, TaskEnded, TaskStarted
from segue.domain.run import RunState
from segue.web.timeline import colour_phase
from tests.cli.place import DEADLINE, Place
from tests.web.browser import looking, needs_chromium, overflow
from tests.web.place import SPEC, Served, make_run
from tests.web.test_diffs import DIFF
from tests.web.test_server import FAILS_ONCE, WRITES

if TYPE_CHECKING:
    from playwright.sync_api import Dialog, Page

pytestmark = needs_chromium

MS = DEADLINE * 1000
GATED = """
[[on]]
task = "2"
wait_for = "GATE"
say = "<b>bold words</b>"
write = { "f{task}" = "x" }
[[on]]
write = { "f{task}" = "x" }
"""
UNPROVEN = """
[[on]]
phase = "verify"
task = "1"
verdict = { unmet = "all", evidence = "<i>nothing</i> shows it" }
[[on]]
phase = "verify"
verdict = { evidence = "x" }
[[on]]
write = { "f{task}" = "x" }
"""


WATCH_JUMPS = """(() => {
  window.jumps = [];
  const name = (node) => (node?.nodeType === 1 ? node : node?.parentElement)?.outerHTML.slice(0, 200);
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) if (!one.hadRecentInput && one.value > 0.001)
      window.jumps.push([one.value, one.sources.map((source) => name(source.node))]);
  }).observe({ type: "layout-shift" });
})()"""
JUMPS = "window.jumps"
"""What moved though nobody touched it, by how much of the window: what the browser calls a layout shift."""


HIDE = """() => {
  Object.defineProperty(document, "hidden", { get: () => HIDDEN, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def shown(page: Page, selector: str, text: str) -> None:
    """Wait until something with this text can be seen."""
    page.locator(selector, has_text=text).first.wait_for(timeout=MS)


def test_a_run_is_watched_from_its_start_to_its_end(place: Place, served: Served) -> None:
    place.script(GATED)
    with looking(served) as page:
        shown(page, ".empty", "No runs yet.")
        page.evaluate("window.same = true")
        process = place.start("run", "plan.md")
        page.locator("td.main a").first.wait_for(timeout=MS)
        assert page.evaluate("window.same") is True, "the list was loaded anew"
        page.evaluate(WATCH_JUMPS)
        shown(page, "tbody td", "1 of 3")
        assert page.evaluate(JUMPS) == []
        page.locator("td.main a").first.click()
        page.wait_for_url("**/runs/*")
        page.evaluate(f"window.same = true; {WATCH_JUMPS}")
        shown(page, "#head .badge", "running")
        shown(page, "#lanes .doing", "execute")
        place.gate.touch()
        shown(page, "#head .badge", "done")
        shown(page, "#head dd", "3 of 3")
        assert page.locator("#timeline svg a").count() >= 3
        assert page.locator(".row.done .state.good").count() == 3
        assert page.evaluate("window.same") is True, "the page was loaded anew"
        assert page.evaluate(JUMPS) == []
        assert process.wait(DEADLINE) == 0


def test_a_failed_verification_is_opened(place: Place, served: Served) -> None:
    place.script(UNPROVEN)
    place.segue("run", "plan.md", "--flow", "spec", "--judge", "agent", code=3)
    with looking(served) as page:
        page.locator("td.main a").first.click()
        page.locator(f"#timeline svg a:has(rect.{colour_phase('verify')}.bad)").first.click()
        opened = page.locator(".step-row[open]")
        opened.locator(".verdict").wait_for(timeout=MS)
        assert "not met" in opened.locator(".criteria").inner_text()
        assert "<i>nothing</i> shows it" in opened.locator(".criteria").inner_text()
        opened.locator("summary", has_text="Prompt").click()
        assert "You judge" in opened.locator("pre.long:visible").first.inner_text()
        execute = page.locator(".step-row", has_text="execute").first
        execute.locator("summary").first.click()
        execute.locator("summary", has_text="Diff").click()
        execute.locator("tr.add", has_text="+x").wait_for(timeout=MS)
        opened.first.locator("a.not-alone").click()
        page.wait_for_url("**/steps/*")
        shown(page, "h1", "of task 1")


def test_a_task_is_retried(place: Place, served: Served) -> None:
    place.script(FAILS_ONCE)
    place.segue("run", "plan.md", code=3)
    place.script(WRITES)
    with looking(served) as page:
        page.locator("td.main a").first.click()
        shown(page, ".needs .item", "2")
        page.locator(".needs").get_by_role("button", name="Retry", exact=True).click()
        shown(page, "#said", "Retrying task")
        page.locator(".row.done").nth(2).wait_for(timeout=MS)
        page.locator(".needs").wait_for(state="detached", timeout=MS)


def test_everything_fits_on_a_phone(place: Place, served: Served) -> None:
    place.script(FAILS_ONCE.replace('"x"', f'"{"wide " * 80}"'))
    place.segue("run", "plan.md", code=3)
    with looking(served, viewport={"width": 360, "height": 740}) as page:
        assert overflow(page) <= 0
        page.locator("td.main a").first.click()
        page.locator(".row summary").first.click()
        page.locator(".row .facts").first.wait_for(timeout=MS)
        while (folded := page.locator(".row details.more:not([open]) > summary:visible")).count():
            folded.first.click()
        page.get_by_text("Open as a page").first.wait_for(state="detached", timeout=MS)
        assert overflow(page) <= 0
        page.goto(f"{served.url}/inbox")
        assert overflow(page) <= 0


def test_the_keyboard_is_enough(place: Place, served: Served) -> None:
    place.script(WRITES)
    place.segue("run", "plan.md")
    with looking(served) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.locator("td.main a").first.focus()
        page.keyboard.press("Enter")
        page.locator(".row").first.wait_for(timeout=MS)
        page.keyboard.press("j")
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Tab")
        assert page.evaluate(outline) != "none"
        page.keyboard.press("Enter")
        page.locator(".row .facts").first.wait_for(timeout=MS)


def test_a_page_left_alone_shows_the_truth_when_it_is_looked_at_again(place: Place, served: Served) -> None:
    place.script(WRITES)
    place.segue("run", "plan.md", "--task", "1")
    with looking(served) as page:
        page.locator("td.main a").first.click()
        shown(page, "#live", "live")
        page.evaluate(HIDE.replace("HIDDEN", "true"))
        place.segue("run", "plan.md", "--task", "2")
        page.goto(f"{served.url}/runs")
        assert page.locator("tbody tr").count() == 2
        page.evaluate(HIDE.replace("HIDDEN", "true"))
        place.segue("run", "plan.md")
        assert page.locator("tbody tr").count() == 2, "a page that nobody sees asks for nothing"
        page.evaluate(HIDE.replace("HIDDEN", "false"))
        page.locator("tbody tr").nth(2).wait_for(timeout=MS)


def refuse(dialog: Dialog, asked: list[str]) -> None:
    asked.append(dialog.message)
    dialog.dismiss()


def test_a_line_of_a_diff_is_commented_on_and_rows_are_opened_by_keyboard(
    place: Place, served: Served
) -> None:
    titles = {str(number): f"Part {number}" for number in range(1, 121)}
    events = [
        TaskStarted("1", "Part 1"),
        PatchMade("1", "a" * 40, "b" * 40, "b" * 40, DIFF),
        TaskEnded("1", False, "its checks fail"),
    ]
    run = make_run(place.database, events, replace(SPEC, titles=titles), RunState.NEEDS_HUMAN)
    with looking(served, expected="400") as page:
        page.goto(f"{served.url}/runs/{run.id}#diff-1")
        shown(page, "#diff-1 .chip.test", "new test")
        page.locator("#diff-1 tr.add", has_text="more = 2").click()
        form = page.locator("tr.write form")
        assert form.locator("textarea").get_attribute("aria-label") == "Comment on shop.py:12"
        page.keyboard.press("Escape")
        assert form.count() == 0
        page.locator("#task-1 > summary").focus()
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.parentElement.id") == "task-2"
        page.keyboard.press("k")
        page.keyboard.press("r")
        assert page.evaluate("document.activeElement.tagName") == "TEXTAREA"
        page.keyboard.press("Escape")
        page.locator("#task-1 > summary").focus()
        page.keyboard.press("?")
        page.locator("#shortcuts").wait_for(timeout=MS)
        page.keyboard.press("Escape")
        asked: list[str] = []
        page.once("dialog", lambda dialog: refuse(dialog, asked))
        page.keyboard.press("a")
        assert asked[0].startswith("Accept task 1")
        page.get_by_role("link", name="next ›").click()
        page.locator("#task-120").wait_for(timeout=MS)
