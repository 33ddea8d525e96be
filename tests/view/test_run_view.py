"""The one fold: what it counts, what it leaves out, and that it does not matter who folds."""

from __future__ import annotations

from hypothesis import given, settings

from segue.domain.events import (
    AgentEnded,
    Event,
    PlanRevised,
    PromptSent,
    Recorded,
    RunEnded,
    RunParked,
    RunResumed,
    RunStarted,
    StepEnded,
    StepStarted,
    TaskEnded,
    TaskMarked,
    TaskStarted,
)
from segue.domain.outcome import Usage
from segue.domain.run import RunState
from segue.view.run import FOLDED, RunView
from tests.view.sequences import FACTS, RUN, TITLES, histories


def at(*moments: tuple[int, Event] | tuple[int, Event, str]) -> list[Recorded]:
    """Events at given seconds."""
    return [
        Recorded(RUN, number, moment[0] * 1000, moment[2] if len(moment) > 2 else None, moment[1])
        for number, moment in enumerate(moments, 1)
    ]


@given(histories())
@settings(max_examples=200, deadline=None)
def test_events_of_other_kinds_change_nothing(events: list[Recorded]) -> None:
    kept = [event for event in events if isinstance(event.event, FOLDED)]
    assert RunView.of(TITLES, events) == RunView.of(TITLES, kept)


@given(histories())
@settings(max_examples=200, deadline=None)
def test_the_parts_add_up(events: list[Recorded]) -> None:
    view = RunView.of(TITLES, events)
    tasks = view.tasks.values()
    assert sum(task.attempts for task in tasks) == view.launches == sum(view.phases.values())
    assert sum(task.usage.tokens for task in tasks) == view.usage.tokens
    assert sum(task.work_ms for task in tasks) <= view.work_ms <= events[-1].ts - events[0].ts
    launched = {event.step for event in events if isinstance(event.event, PromptSent)}
    assert view.launches >= len(launched)


@given(histories())
@settings(max_examples=100, deadline=None)
def test_nothing_is_running_when_nobody_works(events: list[Recorded]) -> None:
    view = RunView.of(TITLES, events).close(RunState.STOPPED)
    assert not [task for task in view.tasks.values() if task.state in ("running", "parked")]


def test_work_time_leaves_out_what_lies_between_sessions() -> None:
    view = RunView.of(
        TITLES,
        at(
            (0, RunStarted(*FACTS)),
            (1, TaskStarted("1", "One")),
            (5, RunEnded("stopped")),
            (1000, RunResumed(*FACTS, last_seen=5000)),
            (1001, TaskStarted("1", "One")),
            (1003, TaskEnded("1", True)),
        ),
    )
    assert view.tasks["1"].seconds == 4 + 2
    assert view.seconds(1003) == 5 + 3


def test_work_time_of_a_killed_session_ends_with_its_last_sign_of_life() -> None:
    view = RunView.of(
        TITLES,
        at(
            (0, RunStarted(*FACTS)),
            (1, TaskStarted("1", "One")),
            (1000, RunResumed(*FACTS, last_seen=9000)),
            (1000, TaskStarted("1", "One")),
            (1002, TaskEnded("1", True)),
        ),
    )
    assert view.tasks["1"].seconds == 8 + 2


def test_waiting_for_a_usage_limit_is_not_work() -> None:
    events = at(
        (0, RunStarted(*FACTS)),
        (0, TaskStarted("1", "One")),
        (2, RunParked("1", 600.0)),
        (2, StepStarted(1, "t", "1", "sleep"), "task/1/park/execute/1"),
        (600, StepEnded(1, True), "task/1/park/execute/1"),
        (603, TaskEnded("1", True)),
    )
    assert RunView.of(TITLES, events[:4]).tasks["1"].state == "parked"
    view = RunView.of(TITLES, events)
    assert view.tasks["1"].seconds == 2 + 3
    assert view.tasks["1"].state == "done"


def test_an_adopted_launch_counts_once_with_its_last_report() -> None:
    step = "task/1/execute/1"
    view = RunView.of(
        TITLES,
        at(
            (0, TaskStarted("1", "One")),
            (1, StepStarted(1, "t", "1", "execute", 1, "claude", "opus"), step),
            (1, PromptSent("d", 1), step),
            (2, AgentEnded(False, usage=Usage(5, 5, 1.0)), step),
            (3, PromptSent("d", 1), step),
            (4, AgentEnded(True, usage=Usage(10, 10, 2.0)), step),
        ),
    )
    assert (view.launches, view.usage) == (1, Usage(10, 10, 2.0))
    assert view.tasks["1"].attempts == 1


def test_unknown_cost_stays_unknown() -> None:
    step = "task/1/execute/1"
    ended = AgentEnded(True, usage=Usage(1, 1))
    assert RunView.of(TITLES, at((0, ended, step))).usage.cost_usd is None


def test_a_new_plan_replaces_what_was_never_begun() -> None:
    view = RunView.of(
        {"1": "One", "2": "Two"},
        at((0, TaskStarted("1", "One")), (1, PlanRevised("1", "why", {"1": "One", "3": "Three"}))),
    )
    assert list(view.tasks) == ["1", "3"]


def test_a_person_decides() -> None:
    accepted = RunView.of(TITLES, at((0, TaskMarked("1", True, "person", "fine"), "task/1/end")))
    skipped = RunView.of(TITLES, at((0, TaskMarked("1", True, "person", "no", True), "task/1/end")))
    assert (accepted.tasks["1"].state, skipped.tasks["1"].state) == ("done", "skipped")
