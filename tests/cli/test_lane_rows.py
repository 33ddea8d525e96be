"""The live table where several tasks are worked on at once: those at work, and what the others wait for."""

from __future__ import annotations

import io
import json
import re
import time

import pytest
from rich.console import Console

from segue.cli.terminal.display import event_line
from segue.cli.terminal.live import LiveTable
from segue.cli.terminal.log import log_record
from segue.cli.terminal.progress import Progress
from segue.domain.events import (
    AgentTool,
    Event,
    PromptSent,
    Recorded,
    RunParked,
    RunStarted,
    StepStarted,
    TaskCollided,
    TaskEnded,
    TaskMerged,
    TaskStarted,
    TaskWaiting,
    VerdictGiven,
)
from segue.domain.proof import Level, Proof
from segue.domain.verdict import Action, Result
from segue.view.run import RunView
from tests.cli.place import Place
from tests.reports.dataset import Written

NOW = int(time.time() * 1000)
TITLES = {f"T{number:03}": f"Write part {number}" for number in range(1, 301)}
COLLIDED = TaskCollided("T002", ("T001",), ("src/auth.py",), "both changed src/auth.py", "again")


def recorded(event: Event, step: str | None = None) -> Recorded:
    return Recorded("run", 1, NOW, step, event)


def work(key: str, lane: int, agent: str) -> list[Recorded]:
    step = f"task/{key}/execute/1"
    return [
        recorded(TaskStarted(key, TITLES[key], lane=lane)),
        recorded(StepStarted(1, "t", key, "execute", 1, agent), step),
        recorded(PromptSent("d", 1), step),
        recorded(AgentTool("Edit", {"path": f"src/{key}.py"}), step),
    ]


EVENTS = [
    recorded(RunStarted("plan.md", "/repo", "claude", "execute")),
    *(recorded(TaskWaiting(f"T{n:03}", ("T001",), "both name src/auth.py")) for n in range(4, 300)),
    *work("T001", 1, "claude"),
    *work("T002", 2, "codex"),
    *work("T003", 3, "claude"),
    recorded(RunParked("T003", NOW / 1000 + 3600)),
    recorded(COLLIDED),
]


def draw(events: list[Recorded], width: int, height: int = 40) -> list[str]:
    progress = Progress(RunView.of(TITLES))
    for event in events:
        progress.take(event)
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None, force_terminal=False)
    console.print(LiveTable(progress, "20260101-000000-abcd"))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [40, 80, 140])
def test_those_at_work_are_shown_on_every_terminal(width: int) -> None:
    lines = draw(EVENTS, width)
    assert max(map(len, lines)) <= width
    assert len(lines) <= 36, "hundreds of tasks take no more room"
    assert lines[0].split()[0] == "task"
    assert [line.split()[0] for line in lines[2:6]] == ["T001", "T002", "T003", "T004"]
    assert "… 280 more tasks" in lines
    assert "parked" in lines[4]
    if width > 40:
        assert re.search(r"until \w+ \d+ \w+ \d\d:\d\d", " ".join(lines))


def test_what_each_lane_does_and_what_the_others_wait_for() -> None:
    lines = draw(EVENTS, 140)
    assert re.match(r"T001 +Write part 1 +running +execute 1 +claude +[\dhms]+ +Edit src/T001.py", lines[2])
    text = "\n".join(lines)
    assert "T004 waits for T001: both name src/auth.py" in text
    assert "296 tasks wait for others:" in text
    assert "task T002 collides with T001: both changed src/auth.py: it is run again" in text
    assert "1 collision" in text


def test_a_task_that_has_ended_keeps_its_row() -> None:
    lines = draw([*EVENTS, recorded(TaskEnded("T001", True, proof=Proof(level=Level.CHECKED)))], 140)
    assert re.match(r"T001 +Write part 1 +done +checked ", lines[2])


def test_what_a_task_does_now_is_named_and_why_it_is_sent_back() -> None:
    started = [*EVENTS[:1], *work("T001", 1, "claude")]
    well = recorded(VerdictGiven("T001", Result.PASS, Action.PROCEED, "changed"), "task/T001/execute/1")
    checks = recorded(StepStarted(1, "u", "T001", "check", proves=True), "task/T001/check/1")
    lines = draw([*started, well, checks], 140)
    assert re.match(r"T001 +Write part 1 +checking +check 1 .* checking$", lines[2])
    why = VerdictGiven("T001", Result.FAIL, Action.RETRY, "pytest: 1 of 12 tests fails: test_total")
    again = recorded(StepStarted(1, "v", "T001", "execute", 2, "claude"), "task/T001/execute/2")
    found = recorded(why, "task/T001/check/1")
    assert not any("sent back" in line for line in draw([*started, found], 140)), "it may not be"
    lines = draw([*started, found, again], 140)
    assert any(
        line.endswith("task T001 is sent back: pytest: 1 of 12 tests fails: test_total") for line in lines
    )


def test_tasks_at_work_that_do_not_fit_are_counted() -> None:
    many = [event for n in range(1, 31) for event in work(f"T{n:03}", n, "claude")]
    lines = draw([EVENTS[0], *many], 100, height=20)
    assert len(lines) <= 20
    assert any(re.fullmatch(r"… \d+ more tasks", line) for line in lines)


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


def test_lines_name_their_task() -> None:
    started = TaskStarted("T002", "Two", lane=2, after="T001", why="both name src/auth.py")
    line = event_line(recorded(started))
    assert line.endswith(
        "T002         task T002 started on lane 2: Two (waited for T001: both name src/auth.py)"
    )
    merged = event_line(recorded(TaskMerged("T002", "d" * 40, "c" * 40)))
    assert merged.endswith("T002         task T002 is merged: dddddddddd")
    said = event_line(recorded(AgentTool("Edit", {"path": "a.py"}), "task/T002/execute/1"))
    assert " T002 execute 1 agent uses Edit a.py" in said


def test_the_log_has_lanes_and_collisions() -> None:
    record = log_record(recorded(TaskStarted("T002", "Two", lane=2, after="T001", why="both name a.py")))
    assert (record["lane"], record["after"], record["why"]) == (2, "T001", "both name a.py")
    assert "lane" not in log_record(recorded(TaskStarted("T002", "Two"))), "one task at a time: as before"
    record = log_record(recorded(COLLIDED))
    assert (record["level"], record["tasks"], record["files"], record["then"]) == (
        "warning",
        ("T001",),
        ("src/auth.py",),
        "again",
    )
