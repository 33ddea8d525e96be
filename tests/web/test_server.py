"""The page over HTTP: who is let in, what is said, and that hostile text stays text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.domain.events import AgentText, AgentTool, NoticeGiven, PromptSent
from segue.domain.run import RunState
from segue.web.routes import list_pages
from segue.web.step import cut_piece
from tests.cli.place import DEADLINE, Place, until
from tests.reports.proofs import write_proofs
from tests.web.place import SPEC, Served, fetch, make_run, serving

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>\x1b[31mred\x1b[0m\x00\x07\u202etxt'
WRITES = '[[on]]\nwrite = { "f{task}" = "x" }\n'
FAILS_ONCE = """
[[on]]
task = "2"
attempt = 1
say = "I claim to be done."
[[on]]
write = { "f{task}" = "x" }
"""


def verdict(**more: Any) -> dict[str, Any]:
    told = {"result": "FAIL", "action": "RETRY", "reason": HOSTILE, "request": "", "caveats": []}
    return {**told, "criteria": [{"key": "AC1", "met": False, "evidence": HOSTILE}], **more}


def test_a_link_lets_one_browser_in_once(place: Place) -> None:
    with serving(place, entered=False) as served:
        assert served.get("/runs").status_code == 401
        assert served.get("/runs.json").status_code == 401
        assert "set-cookie" not in served.get("/enter?key=wrong").headers
        entered = served.enter()
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert served.get("/runs").status_code == 200
        second = fetch(served.link)
        assert second.status_code == 403
        assert "set-cookie" not in second.headers
        assert served.stop() == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"cookie": "segue_1=x"}, 401),
        ({"host": "segue-00000000000000000000.localhost"}, 403),
        ({"authorization": "Bearer x"}, 401),
    ],
)
def test_strangers_are_turned_away(served: Served, headers: dict[str, str], status: int) -> None:
    assert served.get("/runs", **headers).status_code == status


def test_a_change_must_come_from_the_page_itself(place: Place, served: Served) -> None:
    run = make_run(place.database, state=RunState.NEEDS_HUMAN)
    path = f"{served.url}/runs/{run.id}/tasks/1/accept"
    assert served.client.post(path).status_code == 403
    assert served.client.post(path, headers={"origin": "http://localhost:1"}).status_code == 403
    assert served.client.post(path, headers={"origin": served.url + "1"}).status_code == 403
    assert served.get(f"/runs/{run.id}/tasks/1/accept").status_code == 405
    own = served.post(f"/runs/{run.id}/tasks/1/accept")
    assert own.status_code == 400
    assert "nowhere" in own.json()["error"]["message"]


def test_every_page_has_a_twin_and_is_safe(place: Place, served: Served) -> None:
    run = make_run(place.database, [NoticeGiven("x")])
    parts = {"{run}": run.id, "{seq}": "1", "{name}": "answer", "{task}": "1"}
    for page in list_pages():
        path = re.sub(r"\{\w+\}", lambda found: parts[found[0]], page.path)
        shown, twin = served.get(path), served.get(f"{path}.json")
        assert shown.status_code == twin.status_code, path
        assert twin.json()["schema"] == 1
        for answer in (shown, twin):
            assert answer.headers["cache-control"] == "no-store"
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert "unsafe" not in answer.headers["content-security-policy"]
        assert not re.search(
            r"<script(?![^>]* src=)|<style| style=| on\w+=|(src|href|action)=.https?:", shown.text
        ), path


def test_hostile_text_stays_text(place: Place, served: Served) -> None:
    spec = replace(SPEC, source=f"/x/{HOSTILE}", agent=HOSTILE, titles={"1": HOSTILE})
    events = [
        PromptSent("d1", 1, HOSTILE),
        AgentText(HOSTILE),
        AgentTool(HOSTILE, {"command": HOSTILE}, "1"),
    ]
    checks = [{"command": HOSTILE, "exit_code": 1, "output": HOSTILE}]
    output = {"verdict": verdict(), "text": HOSTILE, "checks": checks}
    run = make_run(place.database, events, spec, RunState.FAILED, output, ok=False)
    step = served.data(f"/runs/{run.id}")["tasks"][0]["steps"][0]["seq"]
    named = served.data(f"/runs/{run.id}/steps/{step}")["events"]
    paths = [f"/runs/{run.id}/steps/{step}{name}" for name in ("", "/prompt", "/answer", "/check-1")]
    paths += ["/runs", f"/runs/{run.id}", f"/runs/{run.id}/tasks/1"]
    paths += [f"/runs/{run.id}/events/{event['seq']}" for event in named]
    for path in paths:
        shown = served.get(path).text
        assert "&lt;script&gt;" in shown or "/events/" in path, path
        assert "<script>" not in shown
        assert "<img" not in shown
        assert not re.search("[\x00\x07\x1b\u202e]", shown), path
    for path in (f"/runs/{run.id}/steps/{step}/answer", "/runs", f"/runs/{run.id}/tasks/1"):
        assert "[31m" not in served.get(path).text, path


@given(st.text(), st.integers(0, 50), st.integers(1, 20))
def test_pieces_make_the_whole(text: str, begin: int, size: int) -> None:
    found, place = text[:begin], min(begin, len(text))
    while place < len(text):
        part = cut_piece(text, place, size)
        assert part["end"] > place
        found, place = found + part["text"], part["end"]
    assert found == text


@pytest.mark.parametrize("name", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "....//x", "/etc/passwd", ""])
def test_only_our_own_files_can_be_fetched(served: Served, name: str) -> None:
    answer = served.get(f"/static/{name}")
    assert answer.status_code in (404, 401)
    assert "import" not in answer.text


def test_many_tasks_are_paged_and_none_is_lost(place: Place, served: Served) -> None:
    titles = {str(number): f"Task number {number}" for number in range(1, 252)}
    run = make_run(place.database, spec=replace(SPEC, titles=titles))
    seen = []
    for number in (1, 2, 3):
        page = served.data(f"/runs/{run.id}.json?page={number}")
        seen += [task["key"] for task in page["tasks"]]
    assert page["pages"] == 3
    assert seen == list(titles)


def test_many_events_of_a_step_are_paged_and_none_is_lost(place: Place, served: Served) -> None:
    events = [AgentText(f"line {number}") for number in range(250)]
    run = make_run(place.database, events)
    step = served.data(f"/runs/{run.id}")["tasks"][0]["steps"][0]["seq"]
    seen: list[str] = []
    after: int | None = step
    while after is not None:
        page = served.data(f"/runs/{run.id}/steps/{step}.json?after={after}")
        seen += [event["text"] for event in page["events"] if event["type"] == "agent.text"]
        after = page["more"]
    assert seen == [f"agent: line {number}" for number in range(250)]


def test_what_is_not_there_is_said(served: Served) -> None:
    for path in ("/nothing", "/runs/none", "/runs/none/steps/1", "/runs/none/steps/x", "/runs/none/events/1"):
        answer = served.get(path)
        assert answer.status_code == 404, path
        assert "Something went wrong" in answer.text
    twin = served.get("/runs/none.json")
    assert twin.status_code == 404
    assert "There is no run" in twin.json()["error"]["message"]


def test_empty_pages_say_what_to_do(served: Served) -> None:
    assert "segue demo" in served.get("/runs").text


def test_a_task_is_retried_from_the_page(place: Place, served: Served) -> None:
    place.script(FAILS_ONCE)
    place.segue("run", "plan.md", code=3)
    run = place.last_run()
    assert [task["key"] for task in served.data(f"/runs/{run}?show=needs_human")["tasks"]] == ["2"]
    place.script(FAILS_ONCE.replace("attempt = 1\nsay", "attempt = 9\nsay"))
    told = served.post(f"/runs/{run}/tasks/2/retry")
    assert told.status_code == 200, told.text
    assert "Retrying task 2" in told.json()["data"]["said"]
    until(lambda: served.data(f"/runs/{run}.json")["run"]["state"] == "done", "the run to end")
    assert served.data(f"/runs/{run}")["counts"]["done"] == 3
    again = served.post(f"/runs/{run}/resume")
    assert again.status_code == 400
    assert "is done" in again.json()["error"]["message"]


def test_a_task_is_skipped_or_accepted_from_the_page(place: Place, served: Served) -> None:
    place.script(FAILS_ONCE)
    place.segue("run", "plan.md", "--fail-fast", code=3)
    run = place.last_run()
    assert "reason is required" in served.post(f"/runs/{run}/tasks/2/skip").json()["error"]["message"]
    assert served.post(f"/runs/{run}/tasks/2/skip", reason="by hand").status_code == 200
    states = {task["key"]: task["status"] for task in place.json("task", "list", "plan.md")["tasks"]}
    assert states["2"] == "done" or states["2"] == "skipped"
    accepted = served.post(f"/runs/{run}/tasks/3/accept")
    assert "accepted as done" in accepted.json()["data"]["said"]
    refused = served.post(f"/runs/{run}/tasks/3/accept")
    assert refused.status_code == 400
    assert "already done" in refused.json()["error"]["message"]
    assert served.post(f"/runs/{run}/tasks/9/accept").status_code == 400


def test_a_run_is_stopped_and_resumed_from_the_page(place: Place, served: Served) -> None:
    place.script(f'[[on]]\ntask = "2"\ndelay = 300\n{WRITES}')
    process = place.start("run", "plan.md")
    until(lambda: place.started("task/2/execute/1"), "task 2")
    run = served.data("/runs.json")["runs"][0]
    assert run["state"] == "running"
    busy = served.post(f"/runs/{run['id']}/tasks/2/accept")
    assert busy.status_code == 409
    assert "Task 2 is being worked on" in busy.json()["error"]["message"]
    taken = served.post(f"/runs/{run['id']}/tasks/3/skip", reason="by hand")
    assert "it will skip task 3" in taken.json()["data"]["said"]
    stopped = served.post(f"/runs/{run['id']}/stop")
    assert "is stopped" in stopped.json()["data"]["said"], stopped.text
    assert process.wait(DEADLINE) == 130
    assert served.post(f"/runs/{run['id']}/stop").status_code == 400
    place.script(WRITES)
    assert served.post(f"/runs/{run['id']}/resume").status_code == 200
    until(lambda: served.data("/runs.json")["runs"][0]["state"] == "done", "the run to end")


def test_a_failed_task_is_decided_while_the_run_works_on_others(place: Place, served: Served) -> None:
    place.script('[[on]]\ntask = "1"\nsay = "No."\n' + WRITES.replace("write", 'wait_for = "GATE"\nwrite'))
    process = place.start("run", "plan.md")
    until(lambda: place.started("task/2/execute/1"), "task 2")
    path = f"/runs/{served.data('/runs.json')['runs'][0]['id']}"
    page = served.get(path).text
    assert f'action="{path}/tasks/1/accept"' in page
    assert f'action="{path}/tasks/1/retry"' in page
    assert "it will be tried again" in served.post(f"{path}/tasks/1/retry").json()["data"]["said"]
    assert "it will accept task 1" in served.post(f"{path}/tasks/1/accept").json()["data"]["said"]
    assert "it cannot be tried again now" in served.post(f"{path}/tasks/2/retry").json()["error"]["message"]
    place.gate.touch()
    assert process.wait(DEADLINE) == 0
    assert "accepted by a person" in place.segue("logs", "last").stdout


def test_without_a_script_an_act_answers_with_a_page(place: Place, served: Served) -> None:
    place.script(FAILS_ONCE)
    place.segue("run", "plan.md", code=3)
    path = f"{served.url}/runs/{place.last_run()}/tasks/2/accept"
    answer = served.client.post(path, headers={"origin": served.url})
    assert "text/html" in answer.headers["content-type"]
    assert "accepted as done" in answer.text


def test_no_settings_and_no_secrets_are_shown(place: Place) -> None:
    spec = replace(SPEC, settings={"agents": {"scripted": {"env": {"API_TOKEN": "s3cret-value-9"}}}})
    run = make_run(place.database, spec=spec)
    place.env["SOME_API_KEY"] = "sk-live-4242424242"
    place.config('source = "x-sk-live-4242424242.md"\n')
    with serving(place) as served:
        for path in (
            "/runs",
            f"/runs/{run.id}",
            "/runs.json",
            f"/runs/{run.id}.json",
        ):
            shown = served.get(path).text
            assert "s3cret-value-9" not in shown
            assert "sk-live" not in shown


def test_the_page_shows_how_well_a_task_is_proven(place: Place) -> None:
    place.database.parent.mkdir(parents=True, exist_ok=True)
    run = write_proofs(str(place.database))
    with serving(place) as served:
        page = served.get(f"/runs/{run}").text
        path = f"/runs/{run}/tasks/T001/proof"
        assert f'data-src="{path}"' in served.get(f"/runs/{run}/tasks/T001").text
        for words in ("PARTIAL (tested)", "tampering: 1", "accepted by person"):
            assert words in page
        tasks = served.data(f"/runs/{run}")["tasks"]
        assert [task["proof"] for task in tasks] == ["tested", None, "changed", None]
        card = served.get(path).text
        for words in ("the tick was taken back", "7 of 8", "A person decided", "PARTIAL (tested)"):
            assert (words in card) == (words != "A person decided")
        assert served.data(path)["card"]["level"] == "tested"
        assert served.get(f"/runs/{run}/tasks/nothing/proof").status_code == 404
