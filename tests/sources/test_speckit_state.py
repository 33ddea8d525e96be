"""The state.json of a feature: what it holds, what is noticed, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.domain.task import Completion, TaskStatus
from segue.domain.verdict import Action, CriterionVerdict, Result, Verdict
from segue.sources.speckit.state import CANNOT_PROCEED, SpecState, load, save, unusable
from segue.sources.state_file import CorruptState

PASSED = Verdict(Result.PASS, Action.PROCEED, "all is well", (CriterionVerdict("US1/AC2", True, "seen"),))


def done(seq: int = 1, run: str = "run-1", **facts: Any) -> Completion:
    return Completion(TaskStatus.DONE, run, seq, **facts)


def saved(path: Path, state: SpecState) -> SpecState:
    save(path, state, path.parent)
    again = load(path)
    assert again is not None
    return again


def test_everything_about_a_task_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    completion = done(7, commit="abc", branch="b1", session="bc-1", verdict=PASSED, attempts=2)
    save(path, SpecState().after("T001", "f00", completion), path.parent)
    document = json.loads(path.read_bytes())
    assert document["schema"] == 1
    assert (document["run"], document["seq"], document["head_branch"]) == ("run-1", 7, "b1")
    entry = document["tasks"]["T001"]
    assert entry.pop("updated")
    assert entry == {
        "status": "done",
        "text": "f00",
        "agent_id": "bc-1",
        "branch": "b1",
        "url": None,
        "commit": "abc",
        "error": None,
        "attempts": 2,
        "verdict": {
            "result": "PASS",
            "action": "PROCEED",
            "reason": "all is well",
            "criteria": [{"key": "US1/AC2", "met": True, "evidence": "seen"}],
        },
    }


def test_the_head_branch_goes_back_with_its_task() -> None:
    state = SpecState().after("T001", "a", done(1, branch="b1")).after("T002", "b", done(2, branch="b2"))
    assert state.head_branch == "b2"
    back = state.after("T002", "b", Completion(TaskStatus.PENDING, "run-1", 3))
    assert back.head_branch == "b1"
    assert back.after("T001", "a", Completion(TaskStatus.PENDING, "run-1", 4)).head_branch is None
    assert state.after("T003", "c", done(3)).head_branch == "b2"


def test_an_earlier_step_repeated_undoes_no_later_record() -> None:
    later = SpecState().after("T001", "a", done(1, branch="b1")).after("T002", "b", done(2, branch="b2"))
    assert later.after("T001", "a", done(1, branch="b1")) is later


def test_an_edited_file_is_noticed_and_foreign_fields_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert not saved(path, SpecState().after("T001", "a", done())).edited
    document = json.loads(path.read_bytes())
    document["tasks"]["T001"]["note"] = "mine"
    document["tasks"]["T009"] = {"status": "done"}
    document["owner"] = "me"
    path.write_text(json.dumps(document))
    edited = load(path)
    assert edited is not None
    assert edited.edited
    assert edited.has("T009", "whatever it says")
    again = saved(path, edited.after("T001", "a", done(2)))
    assert not again.edited
    assert again.extra == {"owner": "me"}
    assert again.tasks["T001"].extra == {"note": "mine"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}",
        '{"schema": 1}',
        '{"schema": 2, "tasks": {}}',
        '{"schema": 1, "tasks": {"T001": "done"}}',
        '{"schema": 1, "tasks": {"T001": {}}}',
        '{"schema": 1, "tasks": {"T001": {"status": "done", "attempts": "2"}}}',
        '{"schema": 1, "tasks": {}, "head_branch": 1}',
        "[" * 100_000,
    ],
)
def test_a_corrupt_file_is_told_and_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(CorruptState) as caught:
        load(path)
    assert str(path) in caught.value.message
    assert "first task" not in caught.value.hint
    stopped = unusable(caught.value)
    assert stopped.message == CANNOT_PROCEED == "Cannot proceed: state file is missing or corrupted."
    assert stopped.exit_code == 2
    assert str(path) in stopped.hint
    assert path.read_text() == text


ENDS = st.builds(
    lambda key, status, seq, branch, error: (key, Completion(status, "r", seq, branch=branch, error=error)),
    st.sampled_from(["T001", "T002#2", "ä"]),
    st.sampled_from([TaskStatus.DONE, TaskStatus.PENDING]),
    st.integers(1, 5),
    st.none() | st.text(max_size=5),
    st.none() | st.text(max_size=5),
)


@given(st.lists(ENDS, max_size=8))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, ends: list[Any]) -> None:
    state = SpecState()
    for key, completion in ends:
        state = state.after(key, "text", completion)
    again = saved(tmp_path_factory.mktemp("state") / "state.json", state)
    assert replace(again, origin=None) == state
    assert list(again.tasks) == list(state.tasks)
    assert not again.edited
