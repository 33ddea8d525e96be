"""What `segue status` tells of tasks that are worked on side by side."""

from __future__ import annotations

import json
import re

from tests.cli.place import Place
from tests.reports.dataset import Written


def test_status_names_lanes_waits_and_what_serialised_them(place: Place) -> None:
    run = Written().run(
        "20260101-000000-abcd", "stopped", t1="One", t2="Two", t3="Three", t4="Four", kind="plan"
    )
    run.event(None, "task.waiting", task="4", by=["3"], why="both name a.py")
    run.event(None, "task.started", task="1", title="One", lane=1)
    run.event(None, "task.started", task="2", title="Two", lane=2)
    run.clock += 9_500
    run.event("task/1/merge/1", "step.started", gen=1, token="t", task="1", phase="merge")
    run.clock += 500
    run.event("task/1/merge/1", "task.merged", task="1", commit="a" * 40, before="b" * 40)
    run.event("task/1/merge/1", "step.ended", gen=1, ok=True)
    run.event(None, "task.ended", task="1", done=True)
    run.event(None, "task.started", task="3", title="Three", lane=1, after="1", why="both name b.py")
    run.clock += 10_000
    run.event(None, "task.ended", task="2", done=True)
    run.clock += 1_000
    run.event(None, "run.ended", state="stopped")
    place.database.parent.mkdir(parents=True, exist_ok=True)
    run.all.write(str(place.database))
    text = place.segue("status", "20260101-000000-abcd").stdout
    assert re.search(r"^TASK +LANE +TITLE +STATE", text, re.MULTILINE)
    assert re.search(r"^total .* 21.0s$", text, re.MULTILINE), "the time that passed, not the sum"
    assert "Task 4 waits for 3: both name a.py" in text
    assert "2.0 tasks at a time; merging took 0.5s." in text
    assert "What serialised them: 3 waited for 1: both name b.py." in text
    data = json.loads(place.segue("status", "20260101-000000-abcd", "--json").stdout)["data"]
    assert (data["lanes"]["waiting"], data["lanes"]["parallelism"], data["lanes"]["at_work"]) == (1, 1.95, [])
    assert [(task["lane"], task["waits_for"]) for task in data["tasks"]] == [
        (1, []),
        (2, []),
        (1, []),
        (None, ["3"]),
    ]
    assert data["tasks"][0]["merged"] == "a" * 40
    [listed] = json.loads(place.segue("status", "--json").stdout)["data"]
    assert "lanes" not in listed
