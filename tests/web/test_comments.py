"""The page: a person's word on a plan, and comments on a diff that go back to the agent."""

from __future__ import annotations

from tests.cli.place import Place, until
from tests.cli.test_build import GOAL, plan, prompt_of, step, tasks
from tests.web.place import Served

OTHER = plan(step("c")).replace("phase = 'outline'", "phase = 'outline'\nattempt = 2")
TWO = plan(step("a"), step("b"))
WORK = '[[on]]\nphase = "execute"\nappend = { "f{task}" = "the work of {task}\\n" }\n'


def test_a_plan_is_edited_rejected_and_approved(place: Place, served: Served) -> None:
    place.script(OTHER + TWO)
    place.segue("run", GOAL, "--approve", code=3)
    run = place.last_run()
    page = served.get(f"/runs/{run}").text
    assert "Approve and build" in page
    text = served.data(f"/runs/{run}.json")["decisions"][0]["plan"]
    assert "title: Make a" in text
    changed = text.replace("Make a", "Make it <b>bold</b>").replace("\n", "\r\n")
    assert "was changed" in served.post(f"/runs/{run}/plan/edit", plan=changed).json()["data"]["said"]
    assert "<b>bold" not in served.get(f"/runs/{run}").text
    assert tasks(place) == {"2": "pending", "3": "pending"}
    refused = served.post(f"/runs/{run}/plan/edit", plan="- title: x")
    assert refused.status_code == 400
    assert "description" in refused.json()["error"]["message"]
    assert served.post(f"/runs/{run}/plan/reject", text=" ").status_code == 400
    assert served.post(f"/runs/{run}/plan/reject", text="One step is enough.").status_code == 200
    until(lambda: served.data("/runs.json")["runs"][0]["state"] == "needs_human", "the other plan")
    assert "One step is enough." in prompt_of(place, "run/outline/2")
    assert "Make c" in served.data(f"/runs/{run}.json")["decisions"][0]["plan"]
    assert served.post(f"/runs/{run}/resume").status_code == 200
    until(lambda: served.data("/runs.json")["runs"][0]["state"] == "done", "the run to end")
    assert place.subjects() == ["Task 4: Make c"]
    assert served.data(f"/runs/{run}.json")["decisions"] == []


def test_a_comment_on_a_diff_goes_back_to_the_agent(place: Place, served: Served) -> None:
    place.script(WORK)
    place.segue("run", "plan.md")
    run = place.last_run()
    ((seq,),) = place.rows("select seq from orchestrator_steps where key = 'task/2/execute/1'")
    page = served.get(f"/runs/{run}/steps/{seq}").text
    assert f'action="/runs/{run}/tasks/2/comment"' in page
    assert "<option>f2</option>" in page
    answer = served.post(f"/runs/{run}/tasks/2/comment", file="f2", line="1", text="Twice, please.")
    assert "Resume the run" in answer.json()["data"]["said"], answer.text
    assert served.post(f"/runs/{run}/tasks/2/comment", file="f2", text="  ").status_code == 400
    assert served.post(f"/runs/{run}/resume").status_code == 200
    until(lambda: served.data("/runs.json")["runs"][0]["state"] == "done", "the run to end")
    assert (place.repo / "f2").read_text() == "the work of 2\n" * 2
    prompts = [text for (text,) in place.rows("select text from orchestrator_prompts")]
    assert sum("f2:1: Twice, please." in text for text in prompts) == 1
