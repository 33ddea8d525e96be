"""Tables, Task Master's file and snapshots of beads: read leniently, completed without loss."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conformance.source import check_source
from segue.domain.errors import SourceError
from segue.domain.task import Completion, TaskStatus
from segue.ports import Source, SourceRequest
from segue.sources.beads import BeadsSource, read_issues
from segue.sources.recognise import recognise
from segue.sources.table import TableSource, read_table
from segue.sources.taskmaster import TaskMasterSource, read_tasks, set_status

CSV = """id,title,text,criteria,depends_on,status
a,Add login,"Add a login page.
With a form.",It works;It is tested,,
b,Add logout,,,a,
c,Old one,,,,done
"""
JSONL = """{"id": "a", "title": "Add login", "criteria": ["It works", "It is tested"]}

{"id": 2, "title": "Add logout", "depends_on": ["a", "gone"], "owner": "me"}
"""
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
        "tasks.csv": CSV,
        "tasks.jsonl": JSONL,
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
    "tasks.csv": ("table", TableSource),
    "tasks.jsonl": ("table", TableSource),
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


def test_a_table_is_read() -> None:
    for reading in (read_table(CSV.encode(), "t.csv"), read_table(CSV.replace(",", "\t").encode(), "t.csv")):
        assert [task.key for task in reading.tasks] == ["a", "b", "c"]
    first, second, third = read_table(CSV.encode(), "t.csv").tasks
    assert (first.title, first.text) == ("Add login", "Add a login page.\nWith a form.")
    assert [criterion.text for criterion in first.criteria] == ["It works", "It is tested"]
    assert [wait.keys for wait in second.depends_on] == [("a",)]
    assert (second.line, third.status) == (4, TaskStatus.DONE)


def test_what_a_table_says_about_nobody_is_named() -> None:
    reading = read_table(JSONL.encode(), "t.jsonl")
    assert [notice.text for notice in reading.notices] == [
        "These columns are not read: owner.",
        "2 waits for gone, which is not in this file; that is ignored.",
    ]


def test_rows_without_ids_are_counted() -> None:
    reading = read_table(b"title\nOne\nTwo\n", "t.csv")
    assert [task.key for task in reading.tasks] == ["1", "2"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("t.csv", "name,when\nx,y\n", "names no column `title` or `text`"),
        ("t.csv", "id,title\na,One\na,Two\n", "line 3 has the id a, which another row has"),
        ("t.csv", "id,title\na/b,One\n", "without a slash"),
        ("t.csv", "id,title\na,One\n,Two\n", "has no id, but others have"),
        ("t.csv", "id,title,status\na,One,maybe\n", "unknown status 'maybe'"),
        ("t.csv", "id,title\na,One,more\n", "has 3 cells, but there are 2 columns"),
        ("t.csv", 'id,title\na,"One\n', "is not CSV"),
        ("t.csv", "id,title\na,\n", "neither a title nor a text"),
        ("t.csv", "title,title\na,b\n", "names the column `title` twice"),
        ("t.jsonl", '{"title": "One"}\n{"title"\n', "line 2 is not JSON"),
        ("t.jsonl", "[1]\n", "line 1 is not a JSON object"),
    ],
)
def test_mistakes_in_a_table_are_named_with_their_line(name: str, text: str, words: str) -> None:
    with pytest.raises(SourceError, match=words.replace("[", r"\[").replace("(", r"\(")):
        read_table(text.encode(), name)


def test_text_that_is_not_utf8_is_named() -> None:
    with pytest.raises(SourceError, match="line 2 is not UTF-8"):
        read_table(b"title\n\xff\xff\n", "t.csv")


CELLS = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=20)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8))
def test_any_text_survives_both_forms(rows: list[tuple[str, str]]) -> None:
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(["title", "text"])
    writer.writerows((f"T{title}", f"x{text}") for title, text in rows)
    lines = "".join(json.dumps({"title": f"T{a}", "text": f"x{b}"}) + "\n" for a, b in rows)
    by_csv = read_table(table.getvalue().encode(), "t.csv").tasks
    by_json = read_table(lines.encode(), "t.jsonl").tasks
    assert [(task.key, task.text) for task in by_csv] == [(task.key, task.text) for task in by_json]
    assert [task.text for task in by_json] == [f"x{text}".strip() for _, text in rows]


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode()))
def test_any_file_is_read_or_refused(data: bytes) -> None:
    for name in ("t.csv", "t.jsonl"):
        with suppress(SourceError):
            keys = [task.key for task in read_table(data, name).tasks]
            assert len(set(keys)) == len(keys)
    with suppress(SourceError):
        read_issues(data, "issues.jsonl")


def test_a_table_is_never_written_and_a_change_of_what_is_done_is_noticed(tmp_path: Path) -> None:
    path = lay(tmp_path)["tasks.csv"]
    source = TableSource.open(ask_for(tmp_path, "tasks.csv"))
    task = source.tasks().tasks[0]
    source.mark(task, Completion(TaskStatus.DONE, "run", 1))
    assert path.read_text() == CSV
    path.write_text(CSV.replace("Add a login page.", "Something else."))
    changed = TableSource.open(ask_for(tmp_path, "tasks.csv")).rewritten()
    assert changed is not None
    assert "completed tasks a say something else" in changed.message


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
