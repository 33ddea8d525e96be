"""Every page in light and dark, on a desk and on a phone, by the rules of axe."""

from __future__ import annotations

from msgspec.structs import replace

from segue.domain import events as e
from segue.domain.run import RunState
from segue.web.routes import list_pages
from tests.cli.place import Place
from tests.slow.browser.test_browser import MS
from tests.web.accessibility import DESK, look_around, visit
from tests.web.browser import looking, needs_chromium
from tests.web.place import SPEC, Served, make_run

pytestmark = needs_chromium
SCRIPT = """[[on]]
task = "2"
exit_code = 1
[[on]]
task = "3"
say = '{"question": "Shall it be Postgres or SQLite?"}'
[[on]]
write = { "f{task}" = "x" }
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


def test_every_page_can_be_used_by_everybody(place: Place, served: Served) -> None:
    assert served.get("/inbox").status_code == 200
    place.script(SCRIPT)
    place.segue("run", "plan.md", code=3)
    run = place.last_run()
    other = make_run(place.database, TALK, replace(SPEC, repo=str(place.repo), source="talk.md"))
    make_run(place.database, spec=replace(SPEC, repo="/gone", titles={}), state=RunState.FAILED)
    step = served.data(f"/runs/{run}/tasks/1")["steps"][0]["seq"]
    values = {"run": run, "task": "1", "seq": str(step), "name": "prompt"}
    addresses = [page.path.format(**values) for page in list_pages()]
    addresses += [f"/runs/{other.id}/tasks/1/conversation", "/nowhere", "/runs?q=nothing"]
    with looking(served, expected="404", color_scheme="light", viewport=DESK) as page:
        problems = visit(page, served.url, addresses)
        page.goto(f"{served.url}/runs/{run}#diff-1")
        page.locator("#diff-1 tr.add").first.click()
        page.locator("#diff-1 tr.write textarea").wait_for(timeout=MS)
        problems += look_around(page, "a comment on a line")
        page.locator("#keys").click()
        problems += look_around(page, "the list of keys")
    assert problems == [], "\n".join(problems)
