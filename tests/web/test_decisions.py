"""Deciding on the page of a run: the answer to a question, and what is known about the time left."""

from __future__ import annotations

from segue.view.run import RunView
from segue.web.run import estimate_left
from tests.cli.place import Place, until
from tests.fakes.acp import read_log, write_programs
from tests.web.place import Served, serving
from tests.web.test_server import WRITES

ASKS = """
[[on]]
task = "2"
say = "Shall I use Postgres or SQLite?"
"""


def test_a_question_is_answered_on_the_page_of_the_run(place: Place, served: Served) -> None:
    place.script(ASKS + WRITES)
    place.segue("run", "plan.md", code=3)
    run = place.last_run()
    (item,) = served.data(f"/runs/{run}")["decisions"]
    assert item["asks"]
    assert "Postgres or SQLite?" in item["why"]
    assert "Answer and continue" in served.get(f"/runs/{run}").text
    path = f"/runs/{run}/tasks/2/comment"
    place.script(WRITES)
    said = served.post(path, text="Take Postgres.", answer="1", then="retry").json()["data"]["said"]
    assert "tried again" in said
    until(lambda: served.data(f"/runs/{run}")["run"]["state"] == "done", "the run to end")
    prompts = [text for (text,) in place.rows("select text from orchestrator_prompts")]
    assert sum("Take Postgres." in text for text in prompts) == 1


TALKS = """
[[on]]
launch = 1
write = {}
say = '{"question": "Postgres or SQLite?"}'
"""


def test_an_answer_on_the_page_continues_the_conversation(place: Place) -> None:
    script = write_programs(place.root / "bin")
    script.write_text(TALKS)
    place.env |= {"PATH": f"{place.root / 'bin'}:{place.env['PATH']}", "OPENAI_API_KEY": "made-up"}
    place.config('agent = "qwen"\nflow = "execute"\n')
    place.segue("run", "plan.md", "--task", "1", code=3)
    run = place.last_run()
    with serving(place) as served:
        served.post(f"/runs/{run}/tasks/1/comment", text="Take Postgres.", answer="1", then="retry")
        until(lambda: served.data(f"/runs/{run}")["run"]["state"] == "done", "the run to end")
    first, second = (line["session"] for line in read_log(script, "prompt"))
    assert first == second


def test_the_time_left_is_known_after_three_tasks_with_an_interval() -> None:
    view = RunView.of({str(number): "" for number in range(1, 9)})
    for number, seconds in (("1", 10), ("2", 20), ("3", 30)):
        assert estimate_left(view, 0.0) is None
        view.tasks[number].state, view.tasks[number].work_ms = "done", seconds * 1000
    left = estimate_left(view, 0.0)
    assert left is not None
    assert left["low"] < left["seconds"] < left["high"]
    assert left["tasks"] == 3


def test_a_task_that_takes_longer_than_any_other_widens_what_is_left() -> None:
    view = RunView.of({str(number): "" for number in range(1, 5)})
    for number in "123":
        view.tasks[number].state, view.tasks[number].work_ms = "done", 3000
    usual = estimate_left(view, 0.0)
    view.tasks["4"].started, view.tasks["4"].work_ms = 1, 360_000
    left = estimate_left(view, 0.0)
    assert usual is not None
    assert left is not None
    assert usual["high"] < 10
    assert left["high"] >= 360
