"""The one fold: what it counts, what it leaves out, and that it does not matter who folds."""

from __future__ import annotations

import os
import subprocess
import time

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from segue.domain.events import (
    Event,
    PlanRevised,
    PromptSent,
    Recorded,
    RunEnded,
    RunParked,
    RunResumed,
    RunStarted,
    StepAdopted,
    StepEnded,
    StepStarted,
    TaskEnded,
    TaskMarked,
    TaskMerged,
    TaskStarted,
    TaskWaiting,
    VerdictGiven,
)
from segue.domain.proof import Level, Proof
from segue.domain.run import Run, RunSpec, RunState
from segue.domain.task import TaskKind
from segue.domain.verdict import Action, CriterionVerdict, Result
from segue.system import identity
from segue.view.load import state_of
from segue.view.run import FOLDED, RunView
from tests.view.sequences import FACTS, RUN, TITLES, histories


def at(*moments: tuple[int, Event] | tuple[int, Event, str]) -> list[Recorded]:
    """Events at given seconds."""
    return [
        Recorded(RUN, number, moment[0] * 1000, moment[2] if len(moment) > 2 else None, moment[1])
        for number, moment in enumerate(moments, 1)
    ]


@given(histories())
@settings(deadline=None)
def test_events_of_other_kinds_change_nothing(events: list[Recorded]) -> None:
    kept = [event for event in events if isinstance(event.event, FOLDED)]
    whole, folded = RunView.of(TITLES, events), RunView.of(TITLES, kept)
    folded.seq = whole.seq
    assert whole == folded


@given(histories())
@settings(deadline=None)
def test_the_parts_add_up(events: list[Recorded]) -> None:
    view = RunView.of(TITLES, events)
    tasks = view.tasks.values()
    assert sum(task.attempts for task in tasks) == view.launches == sum(view.phases.values())
    assert sum(task.usage.tokens for task in tasks) == view.usage.tokens
    most = 3 if any(isinstance(event.event, TaskStarted) and event.event.lane for event in events) else 1
    assert max(task.work_ms for task in tasks) <= view.work.ms <= events[-1].ts - events[0].ts
    assert sum(task.work_ms for task in tasks) <= most * view.work.ms
    launched = {event.step for event in events if isinstance(event.event, PromptSent)}
    assert view.launches >= len(launched)


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


def test_time_of_agents_and_of_proving_survives_a_kill() -> None:
    """Each session counts up to its last sign of life, whatever was under way then."""
    execute, check = "task/1/execute/1", "task/1/check/1"
    events = at(
        (0, RunStarted(*FACTS)),
        (0, StepStarted(1, "t", phase="before", proves=True), "before/abc"),
        (1, TaskStarted("1", "One")),
        (2, StepStarted(1, "t", "1", "execute", agent="claude"), execute),
        (3, StepEnded(1, True), "before/abc"),  # beside the first launch
        (1000, RunResumed(*FACTS, last_seen=9000)),
        (1000, TaskStarted("1", "One")),
        (1000, StepAdopted(2, "t"), execute),
        (1004, StepEnded(2, True), execute),
        (1005, StepStarted(2, "t", "1", "check", proves=True), check),
        (2000, RunResumed(*FACTS, last_seen=1_008_000)),
        (2000, TaskStarted("1", "One")),
        (2000, StepAdopted(3, "t"), check),
        (2006, StepEnded(3, True), check),
        (2007, StepStarted(3, "t", "1", "verify", agent="llm"), "task/1/verify/1"),
    )
    agents, proving = (9 - 2) + 4, 3 + (1008 - 1005) + 6
    view = RunView.of(TITLES, events)
    assert view.work.spent_seconds(2007) == {"agents": agents, "proving": proving}
    assert view.work.spent_seconds(2010) == {"agents": agents + 3, "proving": proving}
    assert view.describe_spent(2007) == "agents 11.0s, proving 12.0s"
    assert RunView.of(TITLES, events[:3]).describe_spent(1) == "agents 0.0s, proving 1.0s"
    assert not RunView.of(TITLES, events[:1]).describe_spent(1), "where nothing was proven it says nothing"


def test_tasks_in_lanes_are_worked_on_at_the_same_time() -> None:
    events = at(
        (0, RunStarted(*FACTS)),
        (0, TaskWaiting("3", ("1",), "both name a.py")),
        (0, TaskStarted("1", "One", lane=1)),
        (1, TaskStarted("2", "Two", lane=2)),
        (4, RunParked("2", 600.0)),
        (4, StepStarted(1, "t", phase="sleep"), "task/2/park/execute/1"),
        (5, StepStarted(1, "t", "1", "merge"), "task/1/merge/1"),
        (6, TaskMerged("1", "d" * 40, "c" * 40), "task/1/merge/1"),
        (6, StepEnded(1, True), "task/1/merge/1"),
        (6, TaskEnded("1", True)),
        (6, TaskStarted("3", "Three", lane=1, after="1", why="both name a.py")),
        (8, TaskEnded("3", True)),
        (600, StepEnded(1, True), "task/2/park/execute/1"),
        (603, TaskEnded("2", True)),
    )
    begun = RunView.of(TITLES, events[:6])
    assert {lane: task.key for lane, task in begun.lanes.items()} == {1: "1", 2: "2"}
    assert (begun.lanes[2].state, begun.lane_count) == ("parked", 2)
    assert (begun.tasks["3"].waits, list(begun.waiting)) == ("waits for 1: both name a.py", ["3"])
    assert [begun.task_seconds(task, 9) for task in begun.tasks.values()] == [9, 3, None]
    assert begun.seconds(9) == 9, "task 2 is parked, but task 1 is worked on"
    rests = RunView.of(TITLES, events[:12])
    assert rests.seconds(500) == 8, "all that is under way is parked"
    view = RunView.of(TITLES, events)
    assert [task.seconds for task in view.tasks.values()] == [6, 3 + 3, 2]
    assert (view.work.ms, view.lanes, view.waiting, view.done) == (8_000 + 3_000, {}, {}, 3)
    assert (view.tasks["1"].merged, view.tasks["1"].merge_seconds) == ("d" * 40, 1.0)
    stretches = [(one.task, one.lane, one.start, one.end, one.after) for one in view.work.stretches]
    assert stretches == [
        ("1", 1, 0, 6_000, ""),
        ("2", 2, 1_000, 4_000, ""),
        ("3", 1, 6_000, 8_000, "1"),
        ("2", 2, 600_000, 603_000, "2"),
    ]
    assert view.work.stretches[0].merging == 5_000


def test_a_new_plan_replaces_what_was_never_begun() -> None:
    view = RunView.of(
        {"1": "One", "2": "Two"},
        at((0, TaskStarted("1", "One")), (1, PlanRevised("1", "why", {"1": "One", "3": "Three"}))),
    )
    assert list(view.tasks) == ["1", "3"]


def test_what_a_person_accepts_keeps_its_measured_level() -> None:
    ended = TaskEnded("1", False, "`tested` is required", proof=Proof(level=Level.CHECKED, tree="a"))
    begun = at((0, TaskStarted("1", "One")), (1, ended))
    task = RunView.of(TITLES, begun).tasks["1"]
    assert (task.state, task.proof) == ("needs_human", None)
    task = RunView.of(TITLES, [*begun, *at((2, TaskMarked("1", True, "Ada", "fine"), "task/1/end"))]).tasks[
        "1"
    ]
    assert task.proof == Proof(level=Level.CHECKED, by="Ada", tree="a")
    assert (task.conclusion, task.verdict) == ("accepted by Ada (checked)", None)


@pytest.mark.parametrize(
    ("level", "words", "verdict"),
    [
        (None, "", None),
        (Level.CHANGED, "changed, not verified", None),
        (Level.CHECKED, "PASS (checked)", "PASS"),
    ],
)
def test_the_word_follows_the_proof(level: Level | None, words: str, verdict: str | None) -> None:
    step = "task/1/verify/1"
    judged = VerdictGiven("1", Result.PASS, Action.PROCEED, "fine", (CriterionVerdict("task", True, "x"),))
    ended = TaskEnded("1", True, proof=Proof(level=level) if level else None)
    begun = at((0, TaskStarted("1", "One", TaskKind.DOCS)), (1, judged, step))
    task = RunView.of(TITLES, begun).tasks["1"]
    assert (task.kind, task.verdict, task.conclusion) == (TaskKind.DOCS, None, "")
    task = RunView.of(TITLES, [*begun, *at((2, ended))]).tasks["1"]
    assert (task.conclusion, task.verdict) == (words, verdict)
    task = RunView.of(TITLES, [*begun, *at((2, ended), (3, TaskStarted("1", "One")))]).tasks["1"]
    assert (task.state, task.proof) == ("running", None), "it is pending again: the old proof is gone"


def test_the_clock_of_the_active_task_runs_between_events() -> None:
    events = at(
        (0, RunStarted(*FACTS)),
        (0, TaskStarted("1", "One")),
        (2, TaskEnded("1", True)),
        (2, TaskStarted("2", "Two")),
        (3, StepStarted(1, "t", "2", "execute"), "task/2/execute/1"),
    )
    view = RunView.of(TITLES, events)
    assert [view.task_seconds(task, 10) for task in view.tasks.values()] == [2, 8, None]
    assert (view.seconds(10), view.seconds(1)) == (10, 3)
    assert view.task_seconds(view.tasks["2"], 1) == 1
    view.close(RunState.STOPPED)
    assert (view.seconds(10), view.task_seconds(view.tasks["2"], 10)) == (3, 1)
    assert view.tasks["2"].state == "stopped"


def test_a_task_that_was_cut_off_waits_for_the_next_session() -> None:
    started = ((0, RunStarted(*FACTS)), (1, TaskStarted("1", "One")))
    resumed = (9, RunResumed(*FACTS, last_seen=2000))
    assert RunView.of(TITLES, at(*started, (2, RunEnded("stopped")))).tasks["1"].state == "stopped"
    assert RunView.of(TITLES, at(*started, resumed)).tasks["1"].state == "pending"
    ended = (2, TaskEnded("1", True))
    assert RunView.of(TITLES, at(*started, ended, (3, RunEnded("done")), resumed)).tasks["1"].state == "done"


def test_a_run_whose_process_is_gone_does_not_run() -> None:
    now = int(time.time() * 1000)
    run = Run(RUN, "key", RunSpec(*FACTS, "x"), RunState.RUNNING, None, now, now)
    assert state_of(run) is RunState.RUNNING, "a process is being started"
    assert state_of(replace(run, updated=now - 120_000)) is RunState.STOPPED
    assert state_of(replace(run, owner=identity.identify(os.getpid()) + "#1", updated=0)) is RunState.RUNNING
    with subprocess.Popen(["true"]) as gone:
        owner = identity.identify(gone.pid)
    assert state_of(replace(run, owner=owner)) is RunState.STOPPED
    assert state_of(replace(run, owner=owner, state=RunState.PARKED)) is RunState.STOPPED
    assert state_of(replace(run, owner=owner, state=RunState.DONE)) is RunState.DONE
