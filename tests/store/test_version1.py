"""Databases that version 1 wrote: plan, feature, build and conversation still open and read correctly."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path

import pytest

from segue.domain.events import AgentEnded, AgentTool, UnknownEvent
from segue.domain.run import RunKind, RunState
from segue.store import connect
from segue.view.load import load_view

HERE = Path(__file__).parent / "version1"
KINDS = {
    "plan": RunKind.PLAN,
    "feature": RunKind.FEATURE,
    "build": RunKind.BUILD,
    "bridge": RunKind.CONVERSATION,
}


def restore(name: str, folder: Path) -> Path:
    """Write a database as version 1 left it."""
    path = folder / "segue.db"
    with sqlite3.connect(path) as database:
        database.executescript(gzip.decompress((HERE / f"{name}.sql.gz").read_bytes()).decode())
    database.close()
    return path


@pytest.mark.parametrize("name", KINDS)
def test_every_event_and_run_can_be_read(name: str, tmp_path: Path) -> None:
    with connect(restore(name, tmp_path), read_only=True) as store:
        (run,) = [run for run in store.runs() if run.spec.kind is KINDS[name]]
        assert run.state is RunState.DONE
        events = list(store.events(run.id))
        assert events
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert not [event for event in events if isinstance(event.event, UnknownEvent)]
        assert store.runs(kinds=[KINDS[name]]) == [run]


def test_a_build_has_the_numbers_it_had(tmp_path: Path) -> None:
    with connect(restore("build", tmp_path), read_only=True) as store:
        (run,) = store.runs(kinds=[RunKind.BUILD])
        view = load_view(store, run)
        steps = store.steps(run.id)
    assert {key: task.state for key, task in view.tasks.items()} == dict.fromkeys("1235", "done")
    assert [task.usage.tokens for task in view.tasks.values()] == [1555, 5376, 2698, 2117]
    assert view.launches == sum("prompt" in step.input for step in steps)
    assert view.tasks["2"].commit == next(step.output["commit"] for step in steps if step.key == "task/2/end")


def test_what_only_some_agents_report_is_kept_aside(tmp_path: Path) -> None:
    with connect(restore("feature", tmp_path), read_only=True) as store:
        events = [event.event for event in store.events(store.runs()[0].id)]
    ended = [event for event in events if isinstance(event, AgentEnded)]
    assert ended
    assert all("agent_id" in event.facts for event in ended)
    assert [event for event in events if isinstance(event, AgentTool)]


def test_results_of_a_conversation_keep_their_details(tmp_path: Path) -> None:
    with connect(restore("bridge", tmp_path), read_only=True) as store:
        (run,) = store.runs(kinds=[RunKind.CONVERSATION])
        results = [one.data for one in store.events(run.id) if one.type == "bridge.result"]
    assert any(data["details"] for data in results)
