"""The page: an agent at work is told something, and one that turns in circles is shown."""

from __future__ import annotations

from tests.cli.place import DEADLINE, Place, until
from tests.cli.test_stuck import stick
from tests.web.place import Served


def test_an_agent_that_is_stuck_is_shown_and_can_be_told(place: Place, served: Served) -> None:
    stick(place, 1)
    process = place.start("run", "plan.md", "--agent", "claude", SEGUE_LIMITS__STUCK="0")
    until(lambda: place.started("task/1/execute/1"), "the agent works")
    run = place.last_run()
    until(lambda: "seems stuck: it repeats Bash make it" in served.get(f"/runs/{run}").text, "it is shown")
    page = served.get(f"/runs/{run}/tasks/1").text
    assert "Tell the agent" in page
    answer = served.post(f"/runs/{run}/tasks/1/comment", text="Write it <b>yourself</b>.")
    assert answer.json()["data"]["said"] == "The agent of task 1 gets it now, in its session."
    assert "Write it &lt;b&gt;yourself&lt;/b&gt;." in served.get(f"/runs/{run}/tasks/1").text
    place.segue("stop")
    assert process.wait(DEADLINE) == 130
