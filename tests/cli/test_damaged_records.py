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

EVENT, STEP, RUN = (f"UPDATE orchestrator_{table} SET " for table in ("events", "steps", "runs"))
LAUNCH, END = " WHERE key = 'task/1/execute/1'", " WHERE key = 'task/1/end'"
NO_TEXT = "substr({0}, 1, 14) || CAST(x'ff' AS TEXT) || substr({0}, 15)"
"""What a flipped bit leaves: no UTF-8."""
DEEP = """'{"deep": ' || replace(hex(zeroblob(9000)), '00', '[')"""
EVENTS = {
    "no text in an event": f"{EVENT}data = {NO_TEXT.format('data')} WHERE type = 'agent.ended'",
    "deep event": f"{EVENT}data = {DEEP} WHERE type = 'agent.ended'",
    "event": EVENT + "data = substr(data, 1, 10) WHERE type = 'agent.ended'",
    "oldest event": EVENT + "data = substr(data, 1, 10) WHERE seq = 1",
    "newest event": EVENT + "data = substr(data, 1, 10) WHERE type = 'run.ended'",
    "empty event": EVENT + "data = '' WHERE type = 'task.marked'",
    "bytes for an event": EVENT + "data = x'ff00fe' WHERE type = 'agent.ended'",
    "list for an event": EVENT + "data = '[1]' WHERE type = 'agent.ended'",
    "wrong types in an event": EVENT + """data = '{"task": 5, "done": "x"}' WHERE type = 'task.ended'""",
}
STEPS = {
    "no text in a step": f"{STEP}output = {NO_TEXT.format('output')}{LAUNCH}",
    "deep step": f"{STEP}output = {DEEP}{LAUNCH}",
    "step": STEP + "output = substr(output, 1, 10)" + LAUNCH,
    "end": STEP + "output = substr(output, 1, 10)" + END,
    "list for a step": STEP + "output = '[]'" + LAUNCH,
    "number for a step": STEP + "input = '5'" + LAUNCH,
    "wrong types in a step": STEP + """output = '{"verdict": 5, "changed": "x"}'""" + LAUNCH,
    "wrong types in an end": STEP + """output = '{"done": "x"}'""" + END,
    "unknown state of a step": STEP + "state = 'weird'" + LAUNCH,
}
RUNS = {
    "no text in options": f"{RUN}spec = {NO_TEXT.format('spec')}",
    "options": RUN + "spec = substr(spec, 1, 30)",
    "list for options": RUN + "spec = '[]'",
    "wrong type of an option": RUN + "spec = json_set(spec, '$.repo', 5)",
    "unknown state of a run": RUN + "state = 'weird'",
}
CUTS = EVENTS | STEPS | RUNS


def cut(place: Place, what: str) -> None:
    with closing(sqlite3.connect(place.database)) as database, database:
        assert database.execute(CUTS[what]).rowcount


@pytest.fixture
def half_done(place: Place) -> Place:
    """A run whose first task is done; the second waits for a person."""
    place.segue("run", "plan.md", "--agent", "scripted", "--task", "1", "--yes")
    return place


@pytest.mark.quick("no text in an event")
@pytest.mark.parametrize("what", [*EVENTS, *STEPS])
def test_looking_and_going_on_work_and_name_it(half_done: Place, what: str) -> None:
    cut(half_done, what)
    for command in (["status", "last"], ["logs", "last"], ["proof", "last"], ["resume", "last"]):
        done = half_done.segue(*command)
        assert "unexpected" not in done.stderr
        if what in EVENTS or command[0] == "resume":
            assert "is damaged. What can be had: segue db repair" in done.stderr, command
    half_done.segue("run", "plan.md", "--agent", "scripted", "--yes")
    assert len(half_done.subjects()) == 3
    assert half_done.git("log", "--format=%s").count("Task 1") == 1, "nothing is done again"


@pytest.mark.thorough
def test_an_event_of_an_unknown_kind_is_passed_over(half_done: Place) -> None:
    with closing(sqlite3.connect(half_done.database)) as database, database:
        assert database.execute(EVENT + "type = 'of.tomorrow' WHERE type = 'agent.ended'").rowcount
    assert "of.tomorrow" in half_done.segue("logs", "last").stdout
    half_done.segue("run", "plan.md", "--agent", "scripted", "--yes")
    assert len(half_done.subjects()) == 3
    assert half_done.segue("db", "repair").stdout == "No record is damaged.\n"


@pytest.mark.thorough
@pytest.mark.parametrize("what", RUNS)
def test_a_run_whose_options_are_damaged_is_named_and_others_are_not_concerned(
    half_done: Place, what: str
) -> None:
    cut(half_done, what)
    half_done.segue("run", "plan.md", "--agent", "scripted", "--task", "2", "--yes")
    done = half_done.segue("status")
    assert "The record of the options of run" in done.stderr
    assert "done" in done.stdout
    assert half_done.git("log", "--format=%s").count("Task 1") == 1


@pytest.mark.quick("options")
@pytest.mark.parametrize("what", sorted(CUTS))
def test_reports_go_on_with_what_can_be_had(half_done: Place, what: str) -> None:
    half_done.segue("run", "plan.md", "--agent", "scripted", "--task", "2", "--yes")
    cut(half_done, what)
    before = half_done.database.read_bytes()
    done = half_done.segue("report", "--json")
    assert "is damaged" in done.stderr or what not in ("options", "step", "end", "event", "empty event")
    assert json.loads(done.stdout)["data"]
    sql = "SELECT count(*) AS runs FROM orchestrator_runs WHERE spec->>'agent' <> ''"
    assert json.loads(half_done.segue("db", "query", sql, "--format", "json").stdout)
    assert half_done.database.read_bytes() == before, "who reads repairs nothing"


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
