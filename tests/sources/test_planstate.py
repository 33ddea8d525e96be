"""The state file survives other hands: edits are noticed, foreign fields kept, broken files set aside."""

from __future__ import annotations

import json
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.domain.task import Completion, TaskStatus
from segue.sources.plan.state import (
    PlanState,
    load,
    pair_key,
    save,
    state_path,
    update,
)
from segue.sources.state_file import CorruptState, set_aside

MINIMAL = {"plan_path": "/p/plan.md", "repo_path": "/r", "completed_task_indices": [1, 3]}


def done(seq: int = 1, run: str = "r1", commit: str | None = None, plan: str | None = None) -> Completion:
    return Completion(TaskStatus.DONE, run, seq, commit, plan)


def write(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


def read(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_bytes())
    assert isinstance(document, dict)
    return document


def loaded(path: Path) -> PlanState:
    state = load(path)
    assert state is not None
    return state


def test_the_file_has_the_fields_others_rely_on(tmp_path: Path) -> None:
    state = PlanState("/p/plan.md", "/r", plan_hash="abc")
    for number, key in enumerate(["10", "2", "2.1", "4b"], start=1):
        state = state.after(key, done(number, commit=f"c{number}", plan=f"plan of {key}"))
    save(tmp_path / "deep" / "s.json", state)
    document = read(tmp_path / "deep" / "s.json")
    assert len(document.pop("digest")) == 64
    assert document == {
        "schema": 1,
        "plan_path": "/p/plan.md",
        "repo_path": "/r",
        "completed_task_indices": [2, 10],
        "completed_task_keys": ["2", "10", "2.1", "4b"],
        "last_plan_by_task": {"10": "plan of 10", "2": "plan of 2", "2.1": "plan of 2.1", "4b": "plan of 4b"},
        "last_completed_ref": "c4",
        "task_hashes": {},
        "skipped_task_keys": [],
        "plan_hash": "abc",
        "run": "r1",
        "seq": 4,
    }
    assert stat.S_IMODE((tmp_path / "deep").stat().st_mode) == 0o700


@settings(deadline=None)
@given(
    st.sets(st.integers(0, 10**18 - 1)),
    st.sets(st.from_regex(r"[1-9]{1,3}\.[1-9]{1,3}[a-z]?", fullmatch=True)),
    st.dictionaries(st.text(), st.text(), max_size=3),
    st.dictionaries(st.text(), st.recursive(st.none() | st.floats() | st.text(), st.lists), max_size=3),
    st.text(),
)
def test_what_was_saved_is_loaded_unedited(
    indices: set[int],
    others: set[str],
    plans: dict[str, str],
    extra: dict[str, Any],
    plan_path: str,
) -> None:
    own = PlanState("", "").document().keys() | {"digest"}
    extra = {name: value for name, value in extra.items() if name not in own}
    state = PlanState(plan_path, "/r", tuple(sorted(indices)), last_plan_by_task=plans, extra=extra)
    for key in others:
        state = state.after(key, done())
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder) / "s.json", state)
        again = loaded(Path(folder) / "s.json")
    assert repr(replace(again, origin=None)) == repr(state)
    assert again.completed == others | {str(index) for index in indices}
    assert not again.edited


def test_an_edit_by_hand_is_noticed_and_decides(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    save(path, PlanState("/p", "/r", (1, 2, 3)))
    document = read(path)
    document["completed_task_indices"].remove(2)
    state = loaded(write(path, document))
    assert state.edited
    assert state.completed == {"1", "3"}
    save(path, state)
    assert not loaded(path).edited
    assert read(path)["completed_task_keys"] == ["1", "3"]


def test_fields_of_others_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "s.json", {**MINIMAL, "completed": [9], "note": {"by": "me"}})
    update(path, lambda state: (state or PlanState("", "")).after("2", done()))
    document = read(path)
    assert document["note"] == {"by": "me"}
    assert document["completed"] == [9]
    assert document["completed_task_indices"] == [1, 2, 3]


BROKEN = [
    b"",
    b"{",
    b"\xff\xfe{}",
    b"[]",
    b"null",
    b"[" * 100_000,
    b'{"plan_path": "/p", "repo_path": "/r"}',
    *(
        json.dumps({**MINIMAL, **wrong}).encode()
        for wrong in (
            {"plan_path": 1},
            {"completed_task_indices": ["1"]},
            {"completed_task_indices": [True]},
            {"completed_task_indices": [10**18]},
            {"completed_task_keys": [1]},
            {"last_plan_by_task": {"1": 2}},
            {"seq": "7"},
            {"schema": 0},
        )
    ),
]


@pytest.mark.parametrize("data", BROKEN, ids=lambda data: data[-60:].decode("latin-1"))
def test_a_broken_file_is_told_and_left_alone(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(data)
    with pytest.raises(CorruptState) as caught:
        load(path)
    assert caught.value.path == path
    assert str(path) in caught.value.message
    assert caught.value.hint
    with pytest.raises(CorruptState):
        update(path, lambda _: PlanState("/p", "/r"))
    assert path.read_bytes() == data


def test_a_newer_schema_is_not_guessed_at(tmp_path: Path) -> None:
    with pytest.raises(CorruptState, match="schema 2") as caught:
        load(write(tmp_path / "s.json", {**MINIMAL, "schema": 2}))
    assert "newer Segue" in caught.value.hint


def test_a_corrupt_file_is_set_aside_and_never_overwrites_another(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    moved = []
    for content in (b"one", b"two", b"three"):
        path.write_bytes(content)
        moved.append(set_aside(path))
        assert not path.exists()
    assert [file.read_bytes() for file in moved] == [b"one", b"two", b"three"]
    assert all(file.name.startswith("s.json.corrupt-2") for file in moved)


def test_repeating_an_earlier_step_does_not_turn_the_record_back() -> None:
    state = PlanState("/p", "/r").after("1", done(5, commit="c1")).after("2", done(9, commit="c2"))
    assert state.after("1", done(5, commit="c1")) == state
    redone = state.after("1", done(2, run="r2", commit="c3"))
    assert (redone.last_completed_ref, redone.run, redone.seq) == ("c3", "r2", 2)


@pytest.mark.parametrize("key", ["2", "2.1"])
def test_a_completion_can_be_taken_back(key: str) -> None:
    state = PlanState("/p", "/r", (1, 3)).after(key, done(4))
    back = state.after(key, Completion(TaskStatus.PENDING, "r1", 6))
    assert back.completed == {"1", "3"}
    assert back.seq == 6


def test_the_name_of_a_pair(tmp_path: Path) -> None:
    plan, repo = tmp_path / "my plan: ünï.md", tmp_path / "repo"
    plan.write_text("x")
    repo.mkdir()
    (tmp_path / "link.md").symlink_to(plan)
    key = pair_key(plan, repo)
    assert key.startswith("my-plan-ünï-")
    assert len(key.rsplit("-", 1)[1]) == 12
    assert pair_key(tmp_path / "repo" / ".." / plan.name, repo) == key
    assert pair_key(tmp_path / "link.md", repo) == key
    assert pair_key(plan, tmp_path) != key
    assert pair_key(repo, plan) != key
    assert state_path(tmp_path / "s", plan, repo) == tmp_path / "s" / "plans" / f"{key}.json"
    assert len(pair_key(tmp_path / ("ü" * 100), repo).encode()) < 150
    assert pair_key(Path("/"), repo).startswith("plan-")
