"""Every page, in light and dark, on a desk and on a phone, for people who see, hear or move differently."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from segue.domain import events as e
from segue.domain.run import RunKind, RunSpec, RunState
from segue.web.routes import list_pages
from tests.cli.place import Place
from tests.e2e.install import AXE
from tests.web.accessibility import DESK, Look, find_problems, in_every_look, look_around, visit
from tests.web.browser import looking, needs_chromium
from tests.web.place import SPEC, Served, make_run, serving
from tests.web.test_browser import MS, shown
from tests.web.test_run_page import UNUSED

pytestmark = needs_chromium

BAD = """() => {
  document.body.innerHTML = `<main><h1>One</h1><h1>Two</h1><h3>Three</h3><button></button><input>
    <svg width="9" height="9"></svg><svg><a aria-label="Check"><text>Fix</text></a></svg>
    <dl><span>x</span></dl><div role="region" aria-label="Twice">1</div>
    <div role="region" aria-label="Twice">2</div><p>pale</p><button>x</button><a href="/x">y</a></main>`;
  document.querySelector("p").style.color = "#999";
  Object.assign(document.querySelectorAll("button")[1].style, { minHeight: 0, width: "9px", padding: 0 });
  document.querySelector("a[href]").style.outline = "none";
}"""
ASKS = """[[on]]
task = "3"
say = '{"question": "Shall it be Postgres or SQLite?"}'
"""
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
        *(["axe, button-name"] if AXE.is_file() else []),
    ):
        assert rule in found, f"{rule} was not found in:\n{found}"


@in_every_look
def test_every_page_can_be_used_by_everybody(place: Place, served: Served, looks: tuple[Look, ...]) -> None:
    place.script(
        f'[[on]]\nphase = "address"\nsay = "Fine."\n[[on]]\ntask = "2"\nexit_code = 1\n{ASKS}{UNUSED}'
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{place.env['PATH']}"
    place.segue("run", "plan.md", "--review", "ruff", "--allow-no-change", code=3, PATH=path)
    run = place.last_run()
    other = make_run(place.database, TALK, replace(SPEC, repo=str(place.repo), source="talk.md"))
    make_run(place.database, spec=replace(SPEC, repo="/gone", titles={}), state=RunState.FAILED)
    talk = make_run(place.database, spec=_conversation(place), state=RunState.DONE).id
    step = served.data(f"/runs/{run}/tasks/1")["steps"][0]["seq"]
    addresses = _list_addresses({"run": run, "task": "1", "seq": str(step), "name": "prompt"})
    addresses += [f"/runs/{other.id}/tasks/1/conversation", f"/bridge/{talk}", "/nowhere", "/runs?q=nothing"]
    with looking(served, expected="404", color_scheme="light", viewport=DESK) as page:
        problems = visit(page, served.url, addresses, looks)
        page.goto(f"{served.url}/runs/{run}#diff-1")
        page.locator("#diff-1 tr.add").first.click()
        page.locator("#diff-1 tr.write textarea").wait_for(timeout=MS)
        problems += look_around(page, "a comment on a line", looks)
        page.locator("#keys").click()
        problems += look_around(page, "the keyboard's list", looks)
    assert problems == [], "\n".join(problems)


@in_every_look
def test_what_is_empty_or_away_can_be_used_by_everybody(place: Place, looks: tuple[Look, ...]) -> None:
    with serving(place) as served, looking(served, expected="net::ERR", viewport=DESK) as page:
        empty = ("/inbox", "/runs", "/proofs", "/events", "/experiments", "/gaps")
        problems = visit(page, served.url, empty, looks)
        page.goto(served.url + "/runs")
        served.stop()
        shown(page, "#live.away", "reconnecting")
        shown(page, "#said.bad", "No connection since")
        problems += look_around(page, "without a server", looks)
    assert problems == [], "\n".join(problems)


def _conversation(place: Place) -> RunSpec:
    return replace(SPEC, repo=str(place.repo), kind=RunKind.CONVERSATION, source="hello", titles={})


def _list_addresses(values: dict[str, str]) -> list[str]:
    """Return an address of every page that needs no fleet."""
    pages = (page for page in list_pages() if page.exists is None and page.path != "/bridge/{run}")
    return [page.path.format(**values) for page in pages]


def test_the_palette_leads_anywhere_by_keyboard(place: Place, served: Served) -> None:
    made = make_run(
        place.database, spec=replace(SPEC, title="Garden", titles={"1": "Paint the shed", "2": "Second"})
    )
    with looking(served) as page:
        page.keyboard.press("/")
        shown(page, "#palette-list li", "Doctor")
        shown(page, "#palette-list li", "Garden")
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
