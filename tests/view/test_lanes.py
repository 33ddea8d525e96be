"""Lanes, looking back: how many tasks at a time, and the chain of waits that decided how long it took."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given

from segue.domain.events import (
    Recorded,
    RunEnded,
    RunParked,
    RunStarted,
    StepEnded,
    StepStarted,
    TaskCollided,
    TaskEnded,
    TaskStarted,
)
from segue.domain.run import RunState
from segue.view.lanes import find_chain, list_stretches, measure_parallelism
from segue.view.run import RunView
from tests.view.sequences import FACTS, TITLES, histories
from tests.view.test_run_view import at

RUN = at(
    (0, RunStarted(*FACTS)),
    (0, TaskStarted("1", "One", lane=1)),
    (0, TaskStarted("2", "Two", lane=2)),
    (4, TaskEnded("1", True)),
    (4, TaskStarted("3", "Three", lane=1, after="1", why="both name a.py")),
    (6, TaskEnded("2", True)),
    (6, TaskStarted("4", "Four", lane=2)),
    (8, TaskCollided("4", ("2",), ("b.py",), "both changed b.py", "again")),
    (9, RunParked("3", 600.0)),
    (9, StepStarted(1, "t", "4", "merge"), "task/4/merge/1"),
    (10, StepEnded(1, True), "task/4/merge/1"),
    (10, TaskEnded("4", True)),
    (600, StepEnded(1, True), "task/3/park/execute/1"),
    (602, TaskEnded("3", True)),
    (602, RunEnded("done")),
)


def test_the_chain_leads_back_to_a_task_that_began_at_once() -> None:
    chain = find_chain(RunView.of(TITLES, RUN), 700)
    assert [link.words for link in chain] == [
        "1 began at once",
        "3 waited for 1: both name a.py",
        "3 continued after a usage limit",
    ]
    assert [link.seconds for link in chain] == [4, 5, 2]


@given(histories())
def test_the_chain_ends_and_nobody_does_more_than_all_lanes(events: list[Recorded]) -> None:
    view = RunView.of(TITLES, events).close(RunState.STOPPED)
    now = events[-1].ts / 1000
    chain = find_chain(view, now)
    assert len(chain) <= len(list_stretches(view))
    assert all(link.after == before.task for before, link in pairwise(chain))
    assert not chain or not chain[0].after
    assert (measure_parallelism(view, now) or 0) <= 3
