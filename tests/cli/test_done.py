"""What "done" means to a user: checks in every flow, levels that are required, settings that hold."""

from __future__ import annotations

from tests.cli.place import Place

WORK = '[[on]]\nwrite = { "work-{task}.txt" = "x" }\n'


def ready(place: Place, settings: str = "", script: str = WORK) -> Place:
    place.script(script)
    place.more_config(settings)
    return place


def test_a_level_that_is_not_reached_needs_a_human(place: Place) -> None:
    ready(place, 'require = "tested"\nchecks = ["test -d ."]\n')
    done = place.segue("run", "plan.md", code=3)
    assert "`tested` is required" in done.stderr
    assert [task["proof"] for task in place.json("status", "last")["tasks"]] == [None, None, None]


def test_a_failing_check_goes_back_to_the_agent_in_a_flow_with_a_plan(place: Place) -> None:
    fixes = '[[on]]\nphase = "resolve"\nwrite = { "notes.txt" = "x" }\ndelete = ["work-1.txt"]\n'
    check = '["sh", "-c", "! ls work-1*"]'
    ready(place, f'flow = "plan"\nchecks = [{check}]\n', fixes + WORK)
    place.segue("run", "plan.md", "--task", "1", "--task", "2")
    tasks = place.json("status", "last")["tasks"]
    assert [task["attempts"] for task in tasks][:2] == [3, 2]
    assert len(place.events("prompt")) == 5
