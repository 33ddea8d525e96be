"""Tables: read leniently, completed without loss."""

from __future__ import annotations

import csv
import io
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue import check_source
from segue.domain.errors import SourceError
from segue.domain.task import Completion, TaskStatus
from segue.ports import Source, SourceRequest
from segue.sources.recognise import recognise
from segue.sources.table import TableSource, read_table

CSV = """id,title,text,criteria,depends_on,status
a,Add login,"Add a login page.
With a form.",It works;It is tested,,
b,Add logout,,,a,
c,Old one,,,,done
"""
JSONL = """{"id": "a", "title": "Add login", "criteria": ["It works", "It is tested"]}

{"id": 2, "title": "Add logout", "depends_on": ["a", "gone"], "owner": "me"}
"""


def lay(place: Path) -> dict[str, Path]:
    """Write one file of each kind."""
    files = {
        "tasks.csv": CSV,
        "tasks.jsonl": JSONL,
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

    check_source(lambda: source.open(request), request, lose=lose)


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
