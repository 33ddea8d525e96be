"""The one fold: what it counts, what it leaves out, and that it does not matter who folds."""

from __future__ import annotations

import os
import subprocess
import time

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from segue.domain.amounts import format_duration, format_quantity
from segue.domain.events import (
    AgentEnded,
    Committed,
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
    Tampered,
    TaskCollided,
    TaskEnded,
    TaskMarked,
    TaskMerged,
    TaskStarted,
    TaskWaiting,
    VerdictGiven,
)
from segue.domain.outcome import Usage
from segue.domain.proof import Level, Proof, Tampering
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


@given(histories())
@settings(deadline=None)
def test_the_stretches_of_a_task_are_its_work_time(events: list[Recorded]) -> None:
    view = RunView.of(TITLES, events).close(RunState.STOPPED)
    worked = dict.fromkeys(view.tasks, 0)
    for stretch in view.work.stretches:
        assert stretch.end is not None
        worked[stretch.task] += stretch.end - stretch.start
    assert worked == {task.key: task.work_ms for task in view.tasks.values()}


@given(histories())
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


def test_a_task_that_collides_is_worked_on_again() -> None:
    collided = TaskCollided("2", ("1",), ("a.py",), "both changed a.py", "again")
    view = RunView.of(
        TITLES,
        at(
            (0, RunStarted(*FACTS)),
            (0, TaskStarted("1", "One", lane=1)),
            (0, TaskStarted("2", "Two", lane=2)),
            (5, Committed("2", "c" * 40), "task/2/commit/task"),
            (6, StepStarted(1, "t", "2", "merge"), "task/2/merge/1"),
            (7, StepEnded(1, False), "task/2/merge/1"),
            (8, collided),
            (9, TaskEnded("2", True)),
        ),
    )
    assert (view.collisions, view.tasks["2"].collisions, view.tasks["2"].phase) == (1, 1, "merge")
    assert (view.tasks["1"].seconds, view.tasks["2"].seconds) == (9, 7 + 1), "waiting for a seat is no work"
    mine = [one for one in view.work.stretches if one.task == "2"]
    assert [(one.start, one.end, one.collided) for one in mine] == [(0, 7000, 7000), (8000, 9000, None)]
    assert (mine[1].after, mine[1].why) == ("2", "a collision with 1: both changed a.py")


def test_waiting_for_the_turn_to_be_merged_is_no_work() -> None:
    view = RunView.of(
        TITLES,
        at(
            (0, RunStarted(*FACTS)),
            (0, TaskStarted("1", "One", lane=1)),
            (0, TaskStarted("2", "Two", lane=2)),
            (2, Committed("2", "c" * 40), "task/2/commit/task"),
            (8, StepStarted(1, "t", "1", "merge"), "task/1/merge/1"),
            (9, StepEnded(1, True), "task/1/merge/1"),
            (9, TaskEnded("1", True)),
            (9, StepStarted(1, "t", "2", "merge"), "task/2/merge/1"),
            (10, StepEnded(1, True), "task/2/merge/1"),
            (10, TaskEnded("2", True)),
        ),
    )
    assert [view.tasks[key].seconds for key in "12"] == [9, 2 + 1]
    assert [(one.start, one.end, one.after) for one in view.work.stretches if one.task == "2"] == [
        (0, 2000, ""),
        (9000, 10000, "1"),
    ]
    assert view.work.ms == 10_000


def test_all_lanes_of_a_killed_session_wait_for_the_next_one() -> None:
    events = at(
        (0, RunStarted(*FACTS)),
        (0, TaskStarted("1", "One", lane=1)),
        (1, TaskStarted("2", "Two", lane=2)),
        (1, TaskWaiting("3", ("2",), "both name a.py")),
        (100, RunResumed(*FACTS, last_seen=4000)),
    )
    view = RunView.of(TITLES, events)
    assert [(task.state, task.seconds) for task in view.tasks.values()] == [
        ("pending", 4),
        ("pending", 3),
        ("pending", None),
    ]
    assert (view.lanes, view.waiting, view.tasks["3"].waits) == ({}, {}, "")
    assert [one.end for one in view.work.stretches] == [4000, 4000]
    ended = RunView.of(TITLES, [*events[:4], *at((9, RunEnded("stopped")))])
    assert [task.state for task in ended.tasks.values()] == ["stopped", "stopped", "pending"]


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
    accepted = RunView.of(TITLES, at((0, TaskMarked("1", True, "Ada", "fine"), "task/1/end"))).tasks["1"]
    skipped = RunView.of(TITLES, at((0, TaskMarked("1", True, "Ada", "no", True), "task/1/end"))).tasks["1"]
    assert (accepted.state, skipped.state) == ("done", "skipped")
    assert (accepted.proof, skipped.proof) == (Proof(level=Level.CHANGED, by="Ada"), None)
    assert (accepted.conclusion, accepted.verdict) == ("accepted by Ada", None)


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
        (Level("judged"), "judged", None),
        (Level.CHECKED, "PASS (checked)", "PASS"),
        (Level("held"), "PASS (held)", "PASS"),
        (Level("accepted"), "accepted", None),
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


def test_open_findings_make_a_proven_task_partial() -> None:
    ended = TaskEnded("1", True, remaining=1, proof=Proof(level=Level.TESTED))
    task = RunView.of(TITLES, at((0, ended))).tasks["1"]
    assert (task.verdict, task.conclusion) == ("PARTIAL", "PARTIAL (tested)")


def test_tampering_is_counted_by_task() -> None:
    two = Tampered("1", (Tampering("ticks", "Taken back."), Tampering("settings", "Ignored.")))
    view = RunView.of(TITLES, at((0, TaskStarted("1", "One")), (1, two), (2, two)))
    assert [task.tampering for task in view.tasks.values()] == [4, 0, 0]


def test_what_is_done_is_counted() -> None:
    view = RunView.of(
        TITLES,
        at((0, TaskEnded("1", True)), (1, TaskEnded("2", True, skipped=True)), (2, TaskEnded("3", False))),
    )
    assert [task.state for task in view.tasks.values()] == ["done", "skipped", "needs_human"]
    assert view.done == 2


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


@pytest.mark.parametrize(("ok", "state"), [(True, "done"), (False, "needs_human")])
def test_planning_is_shown_like_a_task(ok: bool, state: str) -> None:
    step, again = "run/outline/1", "run/outline/2"
    events = at(
        (0, RunStarted(*FACTS)),
        (1, StepStarted(1, "t", None, "outline", 1, "claude"), step),
        (1, PromptSent("d", 1), step),
        (3, AgentEnded(True, usage=Usage(1, 2)), step),
        (4, StepEnded(1, ok), step),
        (5, PromptSent("d", 1), again),
    )
    begun = RunView.of({}, events[:2]).planning
    assert begun is not None
    assert (begun.state, begun.phase, begun.started) == ("running", "outline", 1000)
    view = RunView.of({}, events)
    assert view.planning is not None
    assert (view.planning.state, view.planning.ended, view.planning.attempts) == (state, 4000, 1)
    assert (view.planning.usage.tokens, view.usage.tokens) == (3, 3)
    assert view.tasks == {}


def test_steps_of_nobody_belong_to_no_task() -> None:
    view = RunView.of(
        TITLES,
        at(
            (0, StepStarted(1, "t", None, "final"), "final/1"),
            (1, PromptSent("d", 1), "final/1"),
            (2, AgentEnded(True, usage=Usage(1, 2)), "final/1"),
            (3, VerdictGiven("1", Result.PASS, Action.PROCEED), "final/1"),
            (4, StepEnded(1, True), "final/1"),
        ),
    )
    assert (view.planning, view.launches, view.usage.tokens) == (None, 1, 3)
    assert view.tasks == RunView.of(TITLES).tasks


def test_a_task_that_was_cut_off_waits_for_the_next_session() -> None:
    started = ((0, RunStarted(*FACTS)), (1, TaskStarted("1", "One")))
    resumed = (9, RunResumed(*FACTS, last_seen=2000))
    assert RunView.of(TITLES, at(*started, (2, RunEnded("stopped")))).tasks["1"].state == "stopped"
    assert RunView.of(TITLES, at(*started, resumed)).tasks["1"].state == "pending"
    ended = (2, TaskEnded("1", True))
    assert RunView.of(TITLES, at(*started, ended, (3, RunEnded("done")), resumed)).tasks["1"].state == "done"


def test_amounts_are_formatted_by_their_measure() -> None:
    assert [format_quantity(cost, "cost_usd") for cost in (0, 0.1, 0.0123, 1234.5)] == [
        "$0.00",
        "$0.10",
        "$0.0123",
        "$1,234.50",
    ]
    assert [format_quantity(n, "tokens") for n in (3, 99.5, 100, 9999, 10_000)] == [
        "3.0",
        "99.5",
        "100",
        "9,999",
        "10k",
    ]
    assert format_quantity(60, "seconds") == "1m00s"
    assert [format_duration(s) for s in (4.2, 59.9, 185, 7800, -185)] == [
        "4.2s",
        "59.9s",
        "3m05s",
        "2h10m",
        "-3m05s",
    ]


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
