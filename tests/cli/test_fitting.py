"""Tables and captions fit every terminal, whatever tasks are called; and how long the rest of a run takes."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from segue.cli.terminal.live import LiveTable
from segue.cli.terminal.progress import Progress, estimate
from segue.cli.terminal.table import width
from segue.cli.terminal.task_table import task_lines
from segue.domain.outcome import Usage
from segue.domain.proof import Level, Proof
from segue.view.run import RunView
from segue.view.task import TaskView

ODD = st.sampled_from(
    [*"aé漢字ｱ한🎉", "e\u0301", "👩\u200d👧", "❤\ufe0f", "\u0e33", " ", "word ", "長い題名"]
)
TEXTS = st.lists(ODD, max_size=60).map("".join)
STATES = st.sampled_from(["pending", "running", "parked", "blocked", "done", "needs_human", "stopped"])
KEYS = st.from_regex(r"[A-Z]{1,4}-?[0-9]{1,6}", fullmatch=True)
WIDTHS = st.integers(40, 200)


@st.composite
def views(draw: st.DrawFn) -> RunView:
    """Runs with tasks of any name in any state, one after the other or in lanes."""
    view = RunView()
    lanes = draw(st.booleans())
    for number, key in enumerate(draw(st.lists(KEYS, min_size=1, max_size=45, unique=True)), 1):
        task = TaskView(key, draw(TEXTS), draw(STATES), "execute", "claude:opus", draw(st.integers(0, 12)))
        task.started, task.work_ms = 1, draw(st.integers(0, 10**7))
        task.usage = Usage(draw(st.integers(0, 10**6)), 1, draw(st.none() | st.floats(0, 99)))
        task.reason, task.lane = draw(TEXTS), number if lanes else 0
        task.proof = draw(st.sampled_from([None, Proof(level=Level.CHANGED), Proof(level=Level.TESTED)]))
        task.wake = 2e9 if task.state == "parked" else None
        view.tasks[key] = task
        if task.state in ("running", "parked"):
            view.work.under_way[key] = task
            view.lane_count = task.lane
    return view


@given(views(), TEXTS, WIDTHS, st.integers(12, 60))
def test_the_live_table_fits_and_never_cuts_a_key(view: RunView, said: str, room: int, height: int) -> None:
    progress = Progress(view, last=dict.fromkeys(view.tasks, said))
    console = Console(file=io.StringIO(), width=room, height=height, color_system=None)
    console.print(LiveTable(progress, "20260101-000000-abcd"))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(width, lines)) <= room
    assert max(map(cell_len, lines)) <= room
    assert "Ctrl-C stops and saves" in lines[-1]
    assert "20260101-000000-abcd" in lines[-1] or room < 50
    rows = [line.split() for line in lines[2 : lines.index("")] if not line.startswith("…")]
    assert {row[0] for row in rows} <= set(view.tasks), "whole"


@given(views(), WIDTHS, st.booleans())
def test_the_summary_fits_and_names_every_failure_first(view: RunView, room: int, brief: bool) -> None:
    lines = task_lines(view, room, False, brief)
    assert max(map(width, lines)) <= room
    keys = [line.split()[0] for line in lines[1:] if line.split()[0] in view.tasks]
    if not brief:
        assert keys == list(view.tasks), "whole, and in order"
        return
    states = [view.tasks[key].state for key in keys]
    bad = [state in ("needs_human", "stopped", "parked", "running") for state in states]
    assert bad == sorted(bad, reverse=True), "failures first"
    left_out = [int(line.split()[2]) for line in lines if line.startswith("… and")]
    assert len(keys) + sum(left_out) == len(view.tasks)
    assert states.count("pending") + states.count("blocked") <= 3


def run_of(**seconds: float | None) -> RunView:
    view = RunView({key: TaskView(key, key) for key in seconds})
    for key, took in seconds.items():
        if took is not None:
            view.tasks[key].state, view.tasks[key].work_ms = "done", int(took * 1000)
    return view


@pytest.mark.parametrize(
    ("earlier", "jobs", "left"),
    [({}, 1, 20.0), ({"c": 40.0}, 1, 65.0), ({"x": 30.0}, 2, 20.0), ({}, 2, 10.0)],
)
def test_the_rest_takes_as_long_as_such_tasks_took(earlier: dict[str, float], jobs: int, left: float) -> None:
    found = estimate(run_of(a=10, b=None, c=None), earlier, jobs, 0.0)
    assert found is not None
    assert found.seconds == left
