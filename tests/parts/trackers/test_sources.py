"""Task Master's file and snapshots of beads: read leniently, completed without loss."""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue import check_source
from segue.domain.errors import SourceError
from segue.domain.task import Completion, TaskStatus
from segue.parts.trackers.beads import BeadsSource, read_issues
from segue.parts.trackers.taskmaster import TaskMasterSource, read_tasks, set_status
from segue.ports import Source, SourceRequest
from segue.sources.recognise import recognise
from tests.cli.place import Place

TASKMASTER = {
    "master": {
        "tasks": [
            {"id": 1, "title": "Set up", "description": "D", "status": "done", "dependencies": []},
            {
                "id": "2",
                "title": "Build",
                "description": "The whole",
                "details": "How",
                "testStrategy": "Run it",
                "status": "pending",
                "dependencies": [1],
                "subtasks": [
                    {"id": 1, "title": "First", "status": "pending", "dependencies": []},
                    {"id": 2, "title": "Second", "status": "pending", "dependencies": [1, "9.9"]},
                ],
            },
            {"id": 3, "title": "Ship", "status": "pending", "dependencies": ["2"], "mine": {"kept": True}},
            {"id": 4, "title": "Later", "status": "deferred"},
            {"id": 5, "title": "After later", "status": "pending", "dependencies": [4]},
        ],
        "metadata": {"created": "2026"},
    },
    "other": {"tasks": []},
}
BEADS = [
    {"id": "bd-a1", "title": "Second", "status": "open", "priority": 2, "acceptance_criteria": "- It works"},
    {
        "id": "bd-b2",
        "title": "First",
        "status": "in_progress",
        "priority": 0,
        "dependencies": [{"issue_id": "bd-b2", "depends_on_id": "bd-e0", "type": "parent-child"}],
    },
    {
        "id": "bd-c3",
        "title": "Waits",
        "status": "open",
        "priority": 0,
        "dependencies": [{"issue_id": "bd-c3", "depends_on_id": "bd-a1", "type": "blocks"}],
    },
    {"id": "bd-d4", "title": "Done", "status": "closed", "priority": 1},
    {"id": "bd-e0", "title": "Epic", "status": "open", "priority": 1, "issue_type": "epic"},
    {"id": "bd-f5", "title": "Mail", "status": "open", "priority": 1, "issue_type": "message"},
    {"id": "bd-g6", "title": "Stuck", "status": "blocked", "priority": 1},
    {
        "id": "bd-h7",
        "title": "After stuck",
        "status": "open",
        "priority": 1,
        "dependencies": [{"issue_id": "bd-h7", "depends_on_id": "bd-g6", "type": "blocks"}],
    },
    {"_type": "memory", "text": "x"},
]


def lay(place: Path) -> dict[str, Path]:
    """Write one file of each kind."""
    files = {
        ".taskmaster/tasks/tasks.json": json.dumps(TASKMASTER, indent=2),
        ".beads/issues.jsonl": "".join(json.dumps(bead) + "\n" for bead in BEADS),
    }
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return {name: place / name for name in files}


def ask_for(place: Path, named: str) -> SourceRequest:
    return SourceRequest(named, repo=place, state_dir=place / "state", here=place)


KINDS: dict[str, tuple[str, type[Source]]] = {
    ".taskmaster/tasks/tasks.json": ("taskmaster", TaskMasterSource),
    ".taskmaster": ("taskmaster", TaskMasterSource),
    ".beads/issues.jsonl": ("beads", BeadsSource),
    ".beads": ("beads", BeadsSource),
}


@pytest.mark.parametrize("named", KINDS)
def test_they_keep_the_promises_of_sources(tmp_path: Path, named: str) -> None:
    lay(tmp_path)
    request = ask_for(tmp_path, named)
    kind, source = KINDS[named]
    assert recognise(request) == kind

    def lose() -> None:
        [state] = (tmp_path / "state" / kind).glob("*.json")
        state.unlink()

    check_source(lambda: source.open(request), request, lose=None if kind == "taskmaster" else lose)


@pytest.mark.parametrize("named", ["./.beads/", "/x/.beads/issues.jsonl", "sub/.taskmaster/tasks/t.json"])
def test_paths_with_folders_before_them_are_recognised(tmp_path: Path, named: str) -> None:
    assert recognise(ask_for(tmp_path, named)) in ("beads", "taskmaster")


@pytest.mark.parametrize(
    "named", ["beads.jsonl", "my.beads/x.jsonl", ".beads/readme.md", "a/.taskmaster.json"]
)
def test_other_paths_are_not(tmp_path: Path, named: str) -> None:
    assert recognise(ask_for(tmp_path, named)) not in ("beads", "taskmaster")


@given(st.binary(max_size=60))
def test_any_snapshot_of_beads_is_read_or_refused(data: bytes) -> None:
    with suppress(SourceError):
        read_issues(data, "issues.jsonl")


def test_task_master_is_run_and_mistakes_are_explained(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    assert (
        "tasks.json does not exist" in place.segue("run", ".taskmaster", "--agent", "scripted", code=2).stderr
    )
    assert "bd export" in place.segue("run", ".beads", "--agent", "scripted", code=2).stderr
    folder = place.repo / ".taskmaster" / "tasks"
    folder.mkdir(parents=True)
    (folder / "tasks.json").write_text("[")
    assert "is not JSON" in place.segue("run", ".taskmaster", "--agent", "scripted", code=2).stderr
    tasks = [{"id": 1, "title": "Set up", "status": "pending", "subtasks": [{"id": 1, "title": "Part"}]}]
    (folder / "tasks.json").write_text(json.dumps({"master": {"tasks": tasks}}))
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "tasks")
    place.segue("run", ".taskmaster", "--agent", "scripted", "--allow-dirty")
    assert place.subjects()[-1:] == ["Task 1.1: Part"]
    written = json.loads((folder / "tasks.json").read_text())["master"]["tasks"][0]
    assert (written["status"], written["subtasks"][0]["status"]) == ("done", "done")


def test_task_master_is_read_with_its_rules() -> None:
    reading = read_tasks(TASKMASTER, "master", "tasks.json")
    found = {task.key: task for task in reading.tasks}
    assert list(found) == ["1", "2.1", "2.2", "3", "4", "5"]
    assert [wait.keys for wait in found["2.2"].depends_on] == [("2.1", "1")], "a sibling, and the parent's"
    assert [wait.keys for wait in found["3"].depends_on] == [("2.1", "2.2")], "all parts of the other"
    assert found["2.1"].section == "Build\n\nThe whole\n\nHow"
    assert (found["4"].status, found["5"].status) == (TaskStatus.SKIPPED, TaskStatus.SKIPPED)
    assert any("2.2 waits for 9.9" in notice.text for notice in reading.notices)
    assert [task.key for task in read_tasks({"tasks": [{"id": 1, "title": "x"}]}, "", "t").tasks] == ["1"]
    with pytest.raises(SourceError, match="no list of tasks"):
        read_tasks({"a": 1}, "master", "t")


def test_task_master_gets_statuses_in_place(tmp_path: Path) -> None:
    path = lay(tmp_path)[".taskmaster/tasks/tasks.json"]
    source = TaskMasterSource.open(ask_for(tmp_path, ".taskmaster"))
    tasks = {task.key: task for task in source.tasks().tasks}

    def show() -> Any:
        return json.loads(path.read_text())["master"]

    source.announce(tasks["2.1"], "run")
    assert (show()["tasks"][1]["status"], show()["tasks"][1]["subtasks"][0]["status"]) == ("in-progress",) * 2
    for key in ("2.1", "2.2"):
        source.mark(tasks[key], Completion(TaskStatus.DONE, "run", 1))
    assert show()["tasks"][1]["status"] == "done", "with its last subtask"
    assert show()["tasks"][2] == TASKMASTER["master"]["tasks"][2], "unknown fields stay"  # type: ignore[index]
    assert show()["metadata"] == {"created": "2026"}
    assert not path.with_name("tasks.json.lock").exists()
    source.restart()
    assert {task.status for task in source.tasks().tasks if task.key in ("1", "2.1")} == {TaskStatus.PENDING}


def test_a_lock_that_task_master_left_behind_is_cleared(tmp_path: Path) -> None:
    path = lay(tmp_path)[".taskmaster/tasks/tasks.json"]
    lock = path.with_name("tasks.json.lock")
    lock.mkdir()
    os.utime(lock, (1, 1))
    source = TaskMasterSource.open(ask_for(tmp_path, ".taskmaster"))
    source.mark(source.tasks().tasks[1], Completion(TaskStatus.DONE, "run", 1))
    assert json.loads(path.read_text())["master"]["tasks"][1]["subtasks"][0]["status"] == "done"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(max_size=5)
    | st.sampled_from(["1", "1.1", "done"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "title", "status", "dependencies", "subtasks", "details"]), inner
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=4))
def test_any_list_of_task_master_is_read(listed: list[Any]) -> None:
    reading = read_tasks({"master": {"tasks": listed}}, "master", "tasks.json")
    keys = [task.key for task in reading.tasks]
    assert len(set(keys)) == len(keys)
    for key in keys:
        set_status(listed, key, "done")
    again = read_tasks({"master": {"tasks": listed}}, "master", "tasks.json")
    assert {task.status for task in again.tasks} <= {TaskStatus.DONE}


def test_beads_are_read_by_what_is_ready() -> None:
    data = "".join(json.dumps(bead) + "\n" for bead in BEADS).encode()
    reading = read_issues(data, "issues.jsonl")
    found = {task.key: task for task in reading.tasks}
    assert list(found) == ["bd-b2", "bd-a1", "bd-c3", "bd-d4", "bd-g6", "bd-h7"], (
        "by priority, blockers first"
    )
    assert [key for key, task in found.items() if task.status is TaskStatus.PENDING] == [
        "bd-b2",
        "bd-a1",
        "bd-c3",
    ]
    assert [criterion.text for criterion in found["bd-a1"].criteria] == ["It works"]
    assert [notice.text for notice in reading.notices] == [
        "bd-g6 is blocked, so it is left to a person.",
        "bd-h7 waits for bd-g6, which is left to a person.",
    ]


@pytest.mark.skipif(os.name == "nt", reason="a script stands in for bd")
def test_bd_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = lay(tmp_path)[".beads/issues.jsonl"].read_text()
    told = tmp_path / "told"
    program = tmp_path / "bin" / "bd"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {told}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    source = BeadsSource.open(ask_for(tmp_path, ".beads"))
    task = source.tasks().tasks[0]
    source.announce(task, "run")
    source.mark(task, Completion(TaskStatus.DONE, "run", 1, "c" * 40))
    assert told.read_text().splitlines() == [
        "update bd-b2 --status in_progress",
        "close bd-b2 --reason Done by Segue in cccccccccccc",
    ]
    assert (tmp_path / ".beads" / "issues.jsonl").read_text() == before


def test_a_missing_snapshot_says_how_to_make_one(tmp_path: Path) -> None:
    (tmp_path / ".beads").mkdir()
    with pytest.raises(SourceError) as refused:
        BeadsSource.open(ask_for(tmp_path, ".beads")).tasks()
    assert "bd export" in refused.value.hint
