"""What is a task in a plan file: the rule of the document, and boxes; nothing is lost silently."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.errors import SourceError
from segue.domain.source import SourceHistory
from segue.domain.task import TaskStatus
from segue.ports import SourceRequest
from segue.sources.plan import INVALID, ParsedPlan, PlanFile, parse
from segue.sources.recorded import RecordedSource
from tests.conformance.source import check_source


def bodies(text: str) -> dict[str, str]:
    return {task.key: task.text for task in parse(text).tasks}


def unread(plan: ParsedPlan) -> list[int | None]:
    return [notice.line for notice in plan.unread]


def test_a_task_ends_at_the_next_task() -> None:
    plan = parse("# P\nintro\n\n## Task 1\n\none\n\n### Task 9\n  two \n# Stage 2\n## Task 2\nthree")
    assert bodies("## Task 1\none\n### Task 9\nx\n## Task 2\nthree") == {
        "1": "one\n### Task 9\nx",
        "2": "three",
    }
    assert [(task.key, task.line) for task in plan.tasks] == [("1", 4), ("2", 11)]
    assert (plan.preamble, plan.unread) == ("# P\nintro", ())


def test_tasks_are_ordered_by_number_and_gaps_are_allowed() -> None:
    plan = parse("### Task 10\nten\n### Task 2.1: a\nx\n### Task 3\nthree\n### Task 0\nzero")
    assert [task.key for task in plan.tasks] == ["0", "2.1", "3", "10"]
    assert plan.read_as == "Read 4 tasks from headings `### Task N`."


@pytest.mark.parametrize("separator", ["\r\n", "\r", "\n"])
@pytest.mark.parametrize(
    "heading", ["## Task 1", "## Task\t 1", "## Task 01 \t ", "\ufeff## Task 1", "## **Task 1**"]
)
def test_line_ends_and_spellings(separator: str, heading: str) -> None:
    assert bodies(separator.join((heading, "a", "", "b\u2028## Task 3", "## Task 2", "c"))) == {
        "1": "a\n\nb\u2028## Task 3",
        "2": "c",
    }


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("## Task 2", "words below"),
        ("## Task 2: Title", "Title"),
        ("## Task 2 — **Bold** `title`", "Bold title"),
        ("## Task 2. Title ##", "Title"),
        ("## Task 2 (parallel): Title", "(parallel): Title"),
    ],
)
def test_titles(heading: str, title: str) -> None:
    assert parse(f"{heading}\n- [ ] words below").tasks[0].title == title


@pytest.mark.parametrize(
    "heading",
    ["## task 2", "## [x] Task 2", "## Task 2-3", "## TASK-2", "## Task 2b", f"## Task {'9' * 5000}"],
)
def test_a_heading_that_is_nearly_a_task_is_named(heading: str) -> None:
    plan = parse(f"## Task 1\na\n{heading}\nb")
    assert unread(plan) == [3]
    assert len(plan.unread[0].text) < 300


def test_the_same_number_twice_is_named() -> None:
    plan = parse("## Task 1\na\n## Task 01\nc")
    assert unread(plan) == [3]
    assert "line 1" in plan.unread[0].text


def test_code_comments_and_front_matter_are_not_read() -> None:
    text = (
        "---\n## Task 7\n---\n<!--\n## Task 8\n-->\n## Task 1\n```\n## Task 2\n```\n> ## Task 3\n## Task 4\nx"
    )
    assert list(bodies(text)) == ["1", "4"]


def test_boxes_where_there_is_no_such_heading() -> None:
    boxes = "- [ ] **One** thing\n  - [ ] part\n\n  more\n- [x] Two\n* [-] Three"
    plan = parse(f"# Todo\nAbout\n## Setup\n{boxes}\n## End\nrest")
    assert [(task.key, task.title, task.status.value, task.section) for task in plan.tasks] == [
        ("1", "One thing", "pending", "Setup"),
        ("2", "Two", "done", "Setup"),
        ("3", "Three", "skipped", "Setup"),
    ]
    assert plan.tasks[0].text == "**One** thing\n  - [ ] part\n\n  more"
    assert plan.preamble == "# Todo\nAbout"


def test_waits_that_are_stated() -> None:
    tasks = parse(
        "## Task 1\na\n## Task 2\nb\n## Task 3\nAfter Tasks 1 and 2.\n## Task 4\nblocked by task 02"
    ).tasks
    assert [[key for wait in task.depends_on for key in wait.keys] for task in tasks] == [
        [],
        [],
        ["1", "2"],
        ["2"],
    ]


@given(
    st.lists(st.tuples(st.integers(0, 99), st.text(st.characters(codec="utf-8"), max_size=40)), max_size=8)
)
def test_no_task_is_lost(given_tasks: list[tuple[int, str]]) -> None:
    text = "".join(f"## Task {number}\n    {body}\n" for number, body in given_tasks)
    plan = parse(text)
    if given_tasks:
        assert len(plan.tasks) + len(plan.unread) >= len({number for number, _ in given_tasks})


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff\xfe## Task 1\nx\n", "is not UTF-8: byte 0"),
        (b"\0", "is not a text"),
        (b" \n", "is empty"),
        (b"Just prose.", "No heading such as `## Task 1`"),
        (b"## Task 1\na\n## task 2\nb", "line 3: `## task 2` is not read as a task"),
        (None, "does not exist"),
    ],
)
def test_what_cannot_be_run_is_refused(tmp_path: Path, data: bytes | None, why: str) -> None:
    path = tmp_path / "plan.md"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(SourceError, match=why) as caught:
        RecordedSource(PlanFile(path, tmp_path), tmp_path, tmp_path, SourceHistory).tasks()
    assert caught.value.message.startswith(INVALID)


def test_the_text_above_is_context_in_whole_paragraphs(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text(f"# P\n\n{'a' * 5000}\n\n{'b' * 5000}\n\n## Task 1\nx\n")
    source = PlanFile(tmp_path / "plan.md", tmp_path)
    assert source.context(source.tasks().tasks[0]) == f"# P\n\n{'a' * 5000}"


def test_it_keeps_the_promises_of_sources(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text("## Task 1\na\n## Task 2\nb\n## Task 3\nc\n")
    request = SourceRequest("plan.md", tmp_path, tmp_path / "state", tmp_path)
    check_source(lambda: PlanFile.open(request), request)


def test_a_changed_file_is_read_again_and_another_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "plan.md"
    path.write_text("- [ ] a\n")
    source = PlanFile(path, tmp_path)
    first = source.tasks()
    assert source.tasks() is first
    path.write_text("- [x] a\n")
    assert source.tasks().tasks[0].status is TaskStatus.DONE
