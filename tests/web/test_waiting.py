"""What waits for a person, from the events of a run."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from segue.domain import events as e
from segue.domain.run import Run, RunKind, RunSpec, RunState
from segue.system import identity
from segue.view.load import state_of
from segue.view.run import RunView
from segue.web.inbox import InboxItem, list_waiting, refuse_request

SPEC = RunSpec("planfile", "plan.md", "/nowhere", "scripted", "execute", titles={"1": "One", "2": "Two"})
NOW = round(time.time() * 1000)
BEGAN = (e.TaskStarted("1", "One"),)
STUCK = (*BEGAN, e.TaskEnded("1", False, "its checks fail"))
PROPOSED = e.WorkDelivered("pr", "Pull request 7 is open.", "h" * 40, "segue/x", "main", 7, "https://x/7")
MERGED = e.WorkDelivered("van", "It is in main.", "h" * 40, "segue/x", merged=True)


def waiting(state: RunState, *events: e.Event, **run: Any) -> list[InboxItem]:
    made = replace(Run("r", "k", SPEC, state, None, NOW, NOW), **run)
    recorded = [e.Recorded("r", seq, NOW + seq, None, event) for seq, event in enumerate(events, 1)]
    return list_waiting(made, RunView.of(SPEC.titles, recorded).close(state_of(made)))


def kinds(found: Sequence[InboxItem]) -> list[tuple[str, str | None]]:
    return [(item.kind, item.task) for item in found]


@pytest.mark.parametrize(
    ("state", "events", "expected"),
    [
        (RunState.DONE, (), []),
        (RunState.STOPPED, STUCK, [("task", "1")]),
        (RunState.NEEDS_HUMAN, STUCK, [("task", "1")]),
        (RunState.NEEDS_HUMAN, (), [("run", None)]),
        (RunState.FAILED, BEGAN, [("run", None)]),
        (RunState.NEEDS_HUMAN, (e.GateReached(e.PLAN_GATE, "the plan"),), [("plan", None)]),
        (RunState.NEEDS_HUMAN, (*BEGAN, e.GateReached("1", "it works")), [("gate", "1")]),
        (RunState.NEEDS_HUMAN, (e.GateReached("1", "x"), e.GatePassed("1"), *STUCK), [("task", "1")]),
        (RunState.PARKED, (*BEGAN, e.RunParked("1", time.time() + 60)), [("limit", "1")]),
        (RunState.DONE, (PROPOSED,), [("delivery", None)]),
        (RunState.DONE, (MERGED,), []),
        (RunState.DONE, (replace(MERGED, merged=False),), [("delivery", None)]),
    ],
)
def test_what_waits(
    state: RunState, events: tuple[e.Event, ...], expected: list[tuple[str, str | None]]
) -> None:
    assert kinds(waiting(state, *events)) == expected


def test_a_run_whose_process_is_gone_waits_with_its_tasks() -> None:
    lost = waiting(RunState.RUNNING, *STUCK, owner=f"{identity.identify(os.getpid())}x")
    assert [item.kind for item in lost][-1] == "lost"
    assert ("task", "1") in kinds(lost)


def test_a_limit_is_information_with_its_end() -> None:
    until = round(time.time()) + 3600
    (item,) = waiting(RunState.PARKED, wake=until * 1000, owner=identity.me())
    assert item.kind.is_information
    assert item.until == until * 1000
    assert "in 1 h" in item.why or "in 59 min" in item.why


def test_why_there_can_be_no_pull_request() -> None:
    run = Run("r", "k", SPEC, RunState.DONE, None, NOW, NOW)
    assert "your own work tree" in refuse_request(run)
    apart = replace(run, spec=replace(SPEC, worktree="/nowhere/trees", kind=RunKind.PLAN))
    assert "gone" in refuse_request(apart)
