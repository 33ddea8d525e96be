"""How long a run was worked on, as the database counts it, where tasks are worked on side by side."""

from __future__ import annotations

import pytest

from segue.features.dataset.reports.runs import read_work
from segue.features.dataset.reports.selection import Dataset, Selection
from segue.store import connect
from tests.reports.dataset import Written, WrittenRun


def begin(run: WrittenRun, lane: int) -> None:
    run.event(None, "task.started", task="1", title="One", lane=lane)
    run.clock += 2_000


def park(run: WrittenRun, task: str, seconds: int) -> None:
    run.event(None, "run.parked", task=task, until=1.0)
    run.event(f"task/{task}/park/execute/1", "step.started", gen=1, token="t", phase="sleep")
    run.clock += seconds * 1000


def wake(run: WrittenRun, task: str) -> None:
    run.event(f"task/{task}/park/execute/1", "step.ended", gen=1, ok=True)
    run.clock += 1_000


@pytest.mark.parametrize(
    ("lane", "other_ends", "seconds"), [(1, False, 103), (1, True, 4 + 1), (0, False, 3)]
)
def test_a_usage_limit_stops_the_clock_if_nobody_else_works(
    database: str, lane: int, other_ends: bool, seconds: int
) -> None:
    data = Written()
    run = data.run("one", t1="One", t10="Ten")
    begin(run, lane)
    if lane:
        run.event(None, "task.started", task="10", title="Ten", lane=2)
    park(run, "1", 2 if other_ends else 100)
    if other_ends:
        run.event(None, "task.ended", task="10", done=True)
        run.clock += 98_000
    wake(run, "1")
    run.event(None, "task.ended", task="1", done=True)
    with connect(data.write(database), read_only=True) as store:
        assert read_work(Dataset(store, Selection())) == {"one": seconds * 1000}
