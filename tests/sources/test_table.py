"""Tables, also those of Task Master and beads: read leniently, completed without loss, never written."""

from __future__ import annotations

import csv
import io
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.errors import SourceError
from segue.domain.task import Completion, Task, TaskStatus
from segue.ports import SourceRequest
from segue.sources.recognise import recognise
from segue.sources.table import TableSource, read_table
from tests.cli.place import Place
from tests.conformance.source import check_source

CSV = """id,title,text,criteria,depends_on,status
a,Add login,"Add a login page.
With a form.",It works;It is tested,,
b,Add logout,,,a,
c,Old one,,,,done
"""
JSONL = """{"id": "a", "title": "Add login", "criteria": ["It works", "It is tested"]}

{"id": 2, "title": "Add logout", "depends_on": ["a", "gone"], "owner": "me"}
"""
TASKMASTER: dict[str, Any] = {
    "other": {"tasks": []},
    "master": {
        "tasks": [
            {"id": 1, "title": "Set up", "status": "done", "description": "The base", "testStrategy": "Look"},
            {
                "id": "2",
                "title": "Build",
                "status": "in-progress",
                "description": "The whole",
                "dependencies": [1],
                "subtasks": [
                    {"id": 1, "title": "Part one", "status": "pending", "details": "How"},
                    {"id": 2, "title": "Part two", "status": "pending", "dependencies": [1, "9.9"]},
                ],
            },
            {
                "id": 3,
                "title": "Ship",
                "status": "pending",
                "dependencies": ["2"],
                "acceptanceCriteria": "Up",
            },
            {"id": 4, "title": "Blocked", "status": "blocked"},
            {"id": 5, "title": "After it", "status": "pending", "dependencies": [4]},
        ]
    },
}
BEADS: list[dict[str, Any]] = [
    {
        "id": "bd-a1",
        "title": "Feature",
        "description": "What",
        "acceptance_criteria": "- It works",
        "issue_type": "feature",
        "status": "open",
        "dependencies": [
            {"issue_id": "bd-a1", "depends_on_id": "bd-b2", "type": "blocks"},
            {"issue_id": "bd-a1", "depends_on_id": "bd-e0", "type": "parent-child"},
        ],
    },
    {"id": "bd-b2", "title": "Bug", "status": "in_progress", "issue_type": "bug", "created_at": "2026"},
    {"id": "bd-d4", "title": "Done", "status": "closed", "issue_type": "task"},
    {"id": "bd-e0", "title": "Epic", "status": "open", "issue_type": "epic"},
    {"id": "bd-f5", "title": "Mail", "status": "open", "issue_type": "message"},
    {"_type": "memory", "text": "x"},
]
FILES = {
    "tasks.csv": CSV,
    "tasks.jsonl": JSONL,
    ".taskmaster/tasks/tasks.json": json.dumps(TASKMASTER, indent=2),
    ".beads/issues.jsonl": "".join(json.dumps(bead) + "\n" for bead in BEADS),
}


def lay(place: Path) -> None:
    for name, text in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)


def ask_for(place: Path, named: str) -> SourceRequest:
    return SourceRequest(named, repo=place, state_dir=place / "state", here=place)


def by_key(data: str, name: str) -> dict[str, Task]:
    return {task.key: task for task in read_table(data.encode(), name).tasks}


@pytest.mark.parametrize("named", [*FILES, ".taskmaster", "./.beads/"])
def test_they_keep_the_promises_of_sources(tmp_path: Path, named: str) -> None:
    lay(tmp_path)
    request = ask_for(tmp_path, named)
    assert recognise(request) == "table"

    def lose() -> None:
        [state] = (tmp_path / "state" / "table").glob("*.json")
        state.unlink()

    check_source(lambda: TableSource.open(request), request, lose=lose)


def test_a_table_is_read() -> None:
    for reading in (read_table(CSV.encode(), "t.csv"), read_table(CSV.replace(",", "\t").encode(), "t.csv")):
        assert [task.key for task in reading.tasks] == ["a", "b", "c"]
    first, second, third = read_table(CSV.encode(), "t.csv").tasks
    assert (first.title, first.text) == ("Add login", "Add a login page.\nWith a form.")
    assert [criterion.text for criterion in first.criteria] == ["It works", "It is tested"]
    assert [wait.keys for wait in second.depends_on] == [("a",)]
    assert (second.line, third.status) == (4, TaskStatus.DONE)
    assert [task.key for task in read_table(b"title\nOne\nTwo\n", "t.csv").tasks] == ["1", "2"]


def test_what_a_table_says_about_nobody_is_named() -> None:
    reading = read_table(JSONL.encode(), "t.jsonl")
    assert [notice.text for notice in reading.notices] == [
        "These columns are not read: owner.",
        "2 waits for gone, which is not in this file; that is ignored.",
    ]


def test_a_file_of_task_master_is_a_table() -> None:
    reading = read_table(json.dumps(TASKMASTER).encode(), "tasks.json")
    found = {task.key: task for task in reading.tasks}
    assert list(found) == ["1", "2.1", "2.2", "3", "4", "5"]
    assert found["1"].text == "The base\n\nTest strategy: Look"
    assert found["2.1"].text == "How\n\nPart of: Build\n\nThe whole"
    assert [wait.keys for wait in found["2.2"].depends_on] == [("2.1", "1")], "a sibling, and the parent's"
    assert [wait.keys for wait in found["3"].depends_on] == [("2.1", "2.2")], "all parts of the other"
    assert [criterion.text for criterion in found["3"].criteria] == ["Up"]
    assert (found["1"].status, found["2.1"].status) == (TaskStatus.DONE, TaskStatus.PENDING)
    assert (found["4"].status, found["5"].status) == (TaskStatus.SKIPPED, TaskStatus.SKIPPED)
    assert [notice.text for notice in reading.notices] == [
        "2.2 waits for 9.9, which is not in this file; that is ignored.",
        "4 is left to a person, as its status says.",
        "5 waits for 4, so it is left out.",
    ]
    for other in (
        '[{"title": "x"}]',
        '{"tasks": [{"id": 1, "title": "x"}]}',
        '{"t": {"tasks": [{"title": "x"}]}}',
    ):
        assert list(by_key(other, "t.json")) == ["1"]


def test_a_snapshot_of_beads_is_a_table() -> None:
    reading = read_table(FILES[".beads/issues.jsonl"].encode(), "issues.jsonl")
    assert [task.key for task in reading.tasks] == ["bd-b2", "bd-a1", "bd-d4"]
    first = reading.by_key["bd-a1"]
    assert (first.text, [one.text for one in first.criteria]) == ("What", ["It works"])
    assert [wait.keys for wait in first.depends_on] == [("bd-b2",)]
    assert reading.by_key["bd-d4"].status is TaskStatus.DONE
    assert reading.notices == ()


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
        ("t.csv", "title\n\udcff\n", "line 2 is not UTF-8"),
        ("t.jsonl", '{"title": "One"}\n{"title"\n', "line 2 is not JSON"),
        ("t.jsonl", "[1]\n", "line 1 is not a JSON object"),
        ("t.json", "[", "t.json is not JSON"),
        ("t.json", '{"a": 1}', "t.json has no list of tasks"),
        ("t.json", '[{"id": 1}]', "task 1 has neither a title nor a text"),
    ],
)
def test_mistakes_in_a_table_are_named_with_their_place(name: str, text: str, words: str) -> None:
    with pytest.raises(SourceError, match=words.replace("[", r"\[").replace("(", r"\(")):
        read_table(text.encode("utf-8", "surrogateescape"), name)


CELLS = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=20)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8))
def test_any_text_survives_all_forms(rows: list[tuple[str, str]]) -> None:
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(["title", "text"])
    writer.writerows((f"T{title}", f"x{text}") for title, text in rows)
    objects = [{"title": f"T{title}", "text": f"x{text}"} for title, text in rows]
    texts = [f"x{text}".strip() for _, text in rows]
    assert [task.text for task in by_key(table.getvalue(), "t.csv").values()] == texts
    assert [task.text for task in by_key("\n".join(map(json.dumps, objects)), "t.jsonl").values()] == texts
    assert [task.text for task in by_key(json.dumps(objects), "t.json").values()] == texts


JSON = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(max_size=5) | st.sampled_from(["1", "1.1", "done"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "title", "status", "dependencies", "subtasks", "details", "tasks"]), inner
        )
    ),
    max_leaves=12,
)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode) | JSON.map(json.dumps).map(str.encode))
def test_any_file_is_read_or_refused(data: bytes) -> None:
    for name in ("t.csv", "t.jsonl", "t.json"):
        with suppress(SourceError):
            keys = [task.key for task in read_table(data, name).tasks]
            assert len(set(keys)) == len(keys)


def test_a_table_is_never_written_and_a_change_of_what_is_done_is_noticed(tmp_path: Path) -> None:
    lay(tmp_path)
    path = tmp_path / "tasks.csv"
    source = TableSource.open(ask_for(tmp_path, "tasks.csv"))
    source.mark(source.tasks().tasks[0], Completion(TaskStatus.DONE, "run", 1))
    assert path.read_text() == CSV
    path.write_text(CSV.replace("Add a login page.", "Something else."))
    changed = TableSource.open(ask_for(tmp_path, "tasks.csv")).rewritten()
    assert changed is not None
    assert "completed tasks a say something else" in changed.message


def test_the_folders_of_other_tools_are_run(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    assert "bd export" in place.segue("run", ".beads", "--agent", "scripted", code=2).stderr
    lay(place.repo)
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "tasks")
    place.segue("run", ".taskmaster", "--agent", "scripted", "--task", "2.1")
    assert place.subjects()[-1:] == ["Task 2.1: Part one"]
    assert (place.repo / ".taskmaster/tasks/tasks.json").read_text() == FILES[".taskmaster/tasks/tasks.json"]
