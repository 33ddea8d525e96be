"""Every page, in light and dark, on a desk and on a phone, for people who see, hear or move differently."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from segue.domain import events as e
from segue.domain.run import RunKind, RunSpec, RunState
from segue.web.routes import list_pages
from tests.cli.place import Place, until
from tests.web.accessibility import find_problems, find_shown_problems
from tests.web.browser import looking, needs_chromium, overflow
from tests.web.place import SPEC, Served, make_run
from tests.web.test_browser import MS, shown
from tests.web.test_run_page import UNUSED

if TYPE_CHECKING:
    from playwright.sync_api import ViewportSize

pytestmark = needs_chromium

_DESK: ViewportSize = {"width": 1200, "height": 820}
BAD = """() => {
  document.body.innerHTML = `<main><h1>One</h1><h1>Two</h1><h3>Three</h3><button></button><input>
    <svg width="9" height="9"></svg><svg><a aria-label="Check"><text>Fix</text></a></svg>
    <dl><span>x</span></dl><div role="region" aria-label="Twice">1</div>
    <div role="region" aria-label="Twice">2</div><p>pale</p><button>x</button><a href="/x">y</a></main>`;
  document.querySelector("p").style.color = "#999";
  Object.assign(document.querySelectorAll("button")[1].style, { minHeight: 0, width: "9px", padding: 0 });
  document.querySelector("a[href]").style.outline = "none";
}"""
_LOADED = "!document.querySelector('details[data-src][open]:not([data-loaded])')"
_OPEN_DETAILS = f"""() => {{
  document.querySelectorAll("details").forEach((one) => {{ one.open = true; }});
  return !({_LOADED});
}}"""
TALK = (
    e.PromptSent("d", 6, text="Do it."),
    e.AgentThought("Hm."),
    e.AgentText("I edit."),
    e.AgentTool("Edit", {"file_path": "a.py", "old_string": "a", "new_string": "b"}, "1", "completed"),
    e.AgentTool("Bash", {"command": "false"}, "2", "completed", "failure", {"exit_code": 1, "stdout": "no"}),
    e.AgentUsage(1, 2, 0.5),
    e.NoticeGiven("A notice."),
    e.ErrorSeen("crash", "It broke.", "sig"),
)


@pytest.mark.thorough
def test_the_rules_find_what_they_are_for(served: Served) -> None:
    with looking(served) as page:
        page.evaluate(BAD)
        found = "\n".join(find_problems(page))
    for rule in (
        "no name",
        "no text",
        "2 h1",
        "level 3 follows",
        "contrast 2.",
        "a target of",
        "no focus ring",
        "something else in it",
        "regions are called Twice",
        "begin as it looks",
    ):
        assert rule in found, f"{rule} was not found in:\n{found}"


def test_every_page_can_be_used_by_everybody(place: Place, served: Served) -> None:
    place.script(f'[[on]]\nphase = "address"\nsay = "Fine."\n[[on]]\ntask = "2"\nexit_code = 1\n{UNUSED}')
    path = f"{Path(sys.executable).parent}{os.pathsep}{place.env['PATH']}"
    place.segue("run", "plan.md", "--review", "ruff", "--allow-no-change", code=3, PATH=path)
    run = place.last_run()
    other = make_run(place.database, TALK, replace(SPEC, repo=str(place.repo), source="talk.md"))
    make_run(place.database, spec=replace(SPEC, repo="/gone", titles={}), state=RunState.FAILED)
    talk = make_run(place.database, spec=_conversation(place), state=RunState.DONE).id
    step = served.data(f"/runs/{run}/tasks/1")["steps"][0]["seq"]
    addresses = _list_addresses({"run": run, "task": "1", "seq": str(step), "name": "prompt"})
    addresses += [f"/runs/{other.id}/tasks/1/conversation", f"/bridge/{talk}", "/nowhere", "/runs?q=nothing"]
    problems: list[str] = []
    with looking(served, expected="404", color_scheme="light", viewport=_DESK) as page:
        for address in addresses:
            page.goto(served.url + address)
            if page.evaluate(_OPEN_DETAILS):
                until(lambda: page.evaluate(_LOADED), "what was opened")
            problems += [f"{address}: {one}" for one in dict.fromkeys(find_problems(page))]
            page.emulate_media(color_scheme="dark")
            page.set_viewport_size({"width": 360, "height": 740})
            problems += [f"{address} in dark: {one}" for one in dict.fromkeys(find_shown_problems(page))]
            problems += [f"{address} scrolls sideways by {wide}"] if (wide := overflow(page)) > 0 else []
            page.emulate_media(color_scheme="light")
            page.set_viewport_size(_DESK)
    assert problems == [], "\n".join(problems)


def _conversation(place: Place) -> RunSpec:
    return replace(SPEC, repo=str(place.repo), kind=RunKind.CONVERSATION, source="hello", titles={})


def _list_addresses(values: dict[str, str]) -> list[str]:
    """Return an address of every page that needs no fleet."""
    pages = (page for page in list_pages() if page.exists is None and page.path != "/bridge/{run}")
    return [page.path.format(**values) for page in pages]


def test_the_palette_leads_anywhere_by_keyboard(place: Place, served: Served) -> None:
    made = make_run(place.database, spec=replace(SPEC, titles={"1": "Paint the shed", "2": "Second"}))
    with looking(served) as page:
        page.keyboard.press("/")
        shown(page, "#palette-list li", "Doctor")
        assert [one for one in find_problems(page) if "palette" in one] == []
        page.keyboard.press("Escape")
        page.locator("#palette").wait_for(state="hidden", timeout=MS)
        page.keyboard.press("Control+k")
        page.keyboard.type("the SHED")
        shown(page, "#palette-list li[aria-selected=true]", "1 Paint the shed")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/runs/{made.id}/tasks/1")
        page.keyboard.press("Control+k")
        page.keyboard.type("docto")
        shown(page, "#palette-list li[aria-selected=true]", "Doctor")
        page.keyboard.press("Enter")
        page.wait_for_url("**/doctor")
        page.locator("body").press("Control+k")
        page.keyboard.type("theme")
        shown(page, "#palette-list li[aria-selected=true]", "Switch theme")
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.keyboard.press("Enter")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
