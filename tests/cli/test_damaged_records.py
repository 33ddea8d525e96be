"""One damaged record is one damaged record: everything else goes on, names it, and it can be repaired."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.store.damage import salvage
from tests.cli.place import Place

CUTS = {
    "event": "UPDATE orchestrator_events SET data = substr(data, 1, 10) WHERE type = 'agent.ended'",
    "step": "UPDATE orchestrator_steps SET output = substr(output, 1, 10) WHERE key LIKE 'task/1/execute%'",
    "options": "UPDATE orchestrator_runs SET spec = substr(spec, 1, 30)",
}


def cut(place: Place, what: str) -> None:
    with closing(sqlite3.connect(place.database)) as database, database:
        assert database.execute(CUTS[what]).rowcount


@pytest.fixture
def half_done(place: Place) -> Place:
    """A run whose first task is done; the second waits for a person."""
    place.segue("run", "plan.md", "--agent", "scripted", "--task", "1", "--yes")
    return place


@pytest.mark.quick("step")
@pytest.mark.parametrize("what", ["event", "step"])
def test_looking_and_going_on_work_and_name_it(half_done: Place, what: str) -> None:
    cut(half_done, what)
    for command in (["status", "last"], ["logs", "last"], ["proof", "last"], ["resume", "last"]):
        done = half_done.segue(*command)
        assert "unexpected" not in done.stderr
        if what == "event":
            assert "agent.ended" in done.stderr, command
            assert "is damaged. What can be had: segue db repair" in done.stderr
    half_done.segue("run", "plan.md", "--agent", "scripted", "--task", "2", "--yes")
    assert half_done.git("log", "--format=%s").count("Task 1") == 1, "nothing is done again"


@pytest.mark.thorough
def test_a_run_whose_options_are_damaged_is_named_and_others_are_not_concerned(half_done: Place) -> None:
    cut(half_done, "options")
    half_done.segue("run", "plan.md", "--agent", "scripted", "--task", "2", "--yes")
    done = half_done.segue("status")
    assert "The record of the options of run" in done.stderr
    assert "done" in done.stdout
    assert half_done.git("log", "--format=%s").count("Task 1") == 1


@pytest.mark.quick("event")
@pytest.mark.parametrize("what", sorted(CUTS))
def test_repair_lists_keeps_a_copy_and_mends(half_done: Place, what: str) -> None:
    cut(half_done, what)
    listed = half_done.segue("db", "repair", code=1)
    assert "is damaged" in listed.stdout
    assert "segue db repair --yes" in listed.stdout
    data = json.loads(half_done.segue("db", "repair", "--yes", "--json").stdout)["data"]
    assert len(data["damaged"]) == len(data["repaired"]) == 1
    assert Path(data["copy"]).is_file()
    assert half_done.segue("db", "repair").stdout == "No record is damaged.\n"
    for command in (["status", "last"], ["logs", "last"], ["report"], ["resume", "last"]):
        assert "damaged" not in half_done.segue(*command).stderr
    assert half_done.git("log", "--format=%s").count("Task 1") == 1


@given(
    st.dictionaries(st.text(max_size=5), st.recursive(st.none() | st.integers() | st.text(), st.lists)),
    st.data(),
)
def test_what_is_whole_before_a_cut_is_kept(value: dict[str, object], data: st.DataObject) -> None:
    text = json.dumps(value)
    kept = salvage(text[: data.draw(st.integers(0, len(text)))])
    assert list(kept.items()) == list(value.items())[: len(kept)], "never a value that was cut"
    assert salvage(text) == value
