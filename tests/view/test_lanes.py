"""Lanes, looking back: how many tasks at a time, and the chain of waits that decided how long it took."""

from __future__ import annotations

import time
from itertools import pairwise

from hypothesis import given

from segue.domain.events import (
    Event,
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
from segue.view.lanes import describe_lanes, find_chain, lanes_data, list_stretches, measure_parallelism
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


def test_the_chain_of_ten_thousand_tasks_is_found_at_once() -> None:
    events: list[tuple[int, Event]] = [(0, RunStarted(*FACTS))]
    for number in range(10_000):
        events += [
            (number, TaskStarted(str(number), "Part", lane=1)),
            (number + 1, TaskEnded(str(number), True)),
        ]
    view = RunView.of({str(number): "Part" for number in range(10_000)}, at(*events))
    began = time.process_time()
    assert [link.task for link in find_chain(view, 10_000)] == [str(number) for number in range(10_000)]
    assert time.process_time() - began < 3, "the time does not grow with the square of the tasks"


def test_a_collision_is_part_of_the_chain() -> None:
    chain = find_chain(RunView.of(TITLES, RUN[:-3]), 11)
    assert [link.words for link in chain] == [
        "2 began at once",
        "4 waited for 2: no lane was free",
        "4 continued after a collision with 2: both changed b.py",
    ]


def test_who_has_no_reason_waited_for_a_lane() -> None:
    chain = find_chain(RunView.of(TITLES, RUN[:7]), 9)
    assert [link.words for link in chain] == ["2 began at once", "4 waited for 2: no lane was free"]


def test_work_is_compared_with_the_time_that_passed() -> None:
    view = RunView.of(TITLES, RUN)
    assert view.seconds(700) == 12
    assert measure_parallelism(view, 700) == (4 + 6 + 5 + 4 + 2) / 12
    assert describe_lanes(view, 700) == [
        "1.8 tasks at a time; merging took 1.0s, 1 collision.",
        "What serialised them: 3 waited for 1: both name a.py; 3 continued after a usage limit.",
    ]


def test_programs_read_the_lanes() -> None:
    data = lanes_data(RunView.of(TITLES, RUN[:6]), 6)
    assert data is not None
    assert data["at_work"] == [{"lane": 1, "task": "3", "state": "running"}]
    assert (data["collisions"], data["parallelism"]) == (0, 2.0)
    assert data["chain"][-1]["why"] == "both name a.py"


def test_one_task_at_a_time_has_no_lanes() -> None:
    view = RunView.of(
        TITLES, at((0, RunStarted(*FACTS)), (0, TaskStarted("1", "One")), (2, TaskEnded("1", True)))
    )
    assert (lanes_data(view, 2), describe_lanes(view, 2), find_chain(view, 2)) == (None, [], [])


@given(histories())
def test_the_chain_ends_and_nobody_does_more_than_all_lanes(events: list[Recorded]) -> None:
    view = RunView.of(TITLES, events).close(RunState.STOPPED)
    now = events[-1].ts / 1000
    chain = find_chain(view, now)
    assert len(chain) <= len(list_stretches(view))
    assert all(link.after == before.task for before, link in pairwise(chain))
    assert not chain or not chain[0].after
    assert (measure_parallelism(view, now) or 0) <= 3
