"""Which boxes of a tasks.md are tasks, in the forms that real files have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from segue.domain.kinds import recognise_kind
from segue.domain.task import TaskStatus
from segue.sources.speckit.tasks import BoxTask, ParsedTasks, mark_task, parse, refusal
from tests.sources.speckit_files import TASKS


def read(text: str) -> ParsedTasks:
    return parse(text.encode())


def keys(text: str) -> list[str]:
    return [task.key for task in read(text).tasks]


def only(line: str) -> BoxTask:
    (task,) = read(line).tasks
    return task


def notices(text: str) -> str:
    return "\n".join(f"{notice.line}: {notice.text}" for notice in read(text).notices)


def test_the_template() -> None:
    tasks = read(TASKS).tasks
    assert [(t.key, t.status.value, t.line) for t in tasks] == [
        ("T001", "pending", 12),
        ("T002", "done", 16),
        ("T003", "pending", 24),
        ("T004", "pending", 28),
        ("T005", "pending", 34),
    ]
    assert tasks[0].text == "T001 Create the project in src/library/\n  Use a src layout.\n\n  - [ ] package"
    assert tasks[2].labels == ("P", "US1")
    assert [t.stories for t in tasks] == [(), (), ("US1",), ("US1",), ("US2",)]
    assert tasks[2].phase.startswith("Phase 2: User Story 1")
    assert tasks[3].title == "Lend a book in src/library/lend.py per FR-002 and SC-001"
    assert read(TASKS).notices == ()


def test_the_section_says_what_comes_first() -> None:
    """Headings, a note about tests, and the implementation that follows."""
    text = """\
# Tasks: Shop
## Phase 1: Setup
- [ ] T001 Create the project
## Phase 2: User Story 1 - Buy
**Independent Test**: The first payment must fail.
### Tests for User Story 1 (OPTIONAL) ⚠️
> **NOTE: Write these tests FIRST, ensure they FAIL**
- [ ] T002 Contract test for POST /orders in tests/test_orders.py
### Implementation for User Story 1
- [ ] T003 Orders in src/orders.py
- [ ] T004 Unit tests for prices in tests/test_prices.py
## Phase 3: User Story 2 - Return
### Tests
- [ ] T005 Test returns in tests/test_returns.py
### Implementation
- [ ] T006 Returns in src/returns.py
### Tests for later
- [ ] T007 Test limits in tests/test_limits.py
## Phase 3.2: Tests First (TDD)
**CRITICAL: These tests MUST be written and MUST FAIL before ANY implementation**
- [ ] T008 Contract test in tests/test_contract.py
"""
    tasks = read(text).tasks
    assert [task.section for task in tasks[:3]] == [
        "Phase 1: Setup",
        "Phase 2: User Story 1 - Buy / Tests for User Story 1 (OPTIONAL) ⚠️: NOTE: Write these tests FIRST, "
        "ensure they FAIL, before Implementation for User Story 1",
        "Phase 2: User Story 1 - Buy / Implementation for User Story 1",
    ]
    assert tasks[4].section == "Phase 3: User Story 2 - Return / Tests, before Implementation"
    kinds = [recognise_kind(task.title, task.text, task.section).value for task in tasks]
    assert kinds == ["build", "test-first", "build", "build", "test-first", "build", "build", "test-first"]


@pytest.mark.parametrize(
    ("line", "key", "title"),
    [
        ("- [ ] T012 [P] [US1] Make it", "T012", "Make it"),
        ("* [ ] T012 Make it", "T012", "Make it"),
        ("-\t[ ]\tT012\tMake it", "T012", "Make it"),
        ("  - [ ] T012 Make it", "T012", "Make it"),
        ("- [ ] **T012** Make it", "T012", "Make it"),
        ("- [ ] **T011 [P]** Make it", "T011", "Make it"),
        ("- [ ] [T001] Make it", "T001", "Make it"),
        ("- [ ] T001 - Make it", "T001", "Make it"),
        ("- [ ] T001 .env and __init__.py", "T001", ".env and __init__.py"),
        ("- [ ] [VERIFY] T004 Make it", "T004", "Make it"),
        ("- [ ] T047a Make it", "T047a", "Make it"),
        ("- [ ] T013.1 Make it", "T013.1", "Make it"),
        ("- [ ] T001-based work", "T001", "-based work"),
        ("- [ ] T001 创建用户模型", "T001", "创建用户模型"),
        ("- [ ] T001 [a link](x.md) is no label", "T001", "[a link](x.md) is no label"),
        ("- [ ] T001", "T001", "T001"),
        ("- [ ] T001\n  The words stand below", "T001", "The words stand below"),
    ],
)
def test_forms_of_ids(line: str, key: str, title: str) -> None:
    task = only(line)
    assert (task.key, task.title, task.status) == (key, title, TaskStatus.PENDING)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("- [ ] T005/T006 Make both", "T005+T006"),
        ("- [ ] T054-T058 Make all", "T054-T058"),
    ],
)
def test_several_ids_are_one_task_and_told(line: str, key: str) -> None:
    assert only(line).key == key
    assert "run as one task" in notices(line)


@pytest.mark.parametrize(
    "text",
    [
        "- [ ] T025% is a number",
        "Wrapped words about\nT001 go on",
        "- [ ] TXXX is a placeholder",
        "- [ ] Ask about T001",
        "- [ ] UTF-8, FR-001, SC-001, US1 and HTTP2 are no tasks",
        "---\n- [ ] T001 front matter\n---",
        "```\n- [ ] T001 code\n```",
        "~~~\n- [ ] T001 code\n```\n~~~",
        "  - x\n    ```\n    - [ ] T001 code\n    ```",
        "<!--\n- [ ] T001 comment\n-->",
        "text <!-- begins\n- [ ] T001 comment\n-->",
        "> - [ ] T001 quoted",
    ],
)
def test_what_is_no_task(text: str) -> None:
    assert keys(f"{text}\n\n## Phase 1\n- [ ] T900 Real\n") == ["T900"]


@pytest.mark.parametrize(
    "text",
    [
        "Use `<!--` in text\n- [ ] T001 One",
        "---\nno front matter\n\n- [ ] T001 One",
        "- [ ] T001 One <!-- a note -->",
        "`` ``` `` is no fence\n- [ ] T001 One",
        "```\ncode\n```\n- [ ] T001 One",
    ],
)
def test_what_hides_nothing(text: str) -> None:
    assert keys(text) == ["T001"]


@pytest.mark.parametrize(
    ("line", "status", "told"),
    [
        ("- [ ] T001 One", TaskStatus.PENDING, False),
        ("- [x] T001 One", TaskStatus.DONE, False),
        ("- [X] T001 One", TaskStatus.DONE, False),
        ("- [-] T001 One", TaskStatus.SKIPPED, False),
        ("- [~] T001 One", TaskStatus.CANCELLED, True),
        ("- [✓] T001 One", TaskStatus.DONE, False),
        ("- [\u00a0] T001 One", TaskStatus.PENDING, False),
    ],
)
def test_marks(line: str, status: TaskStatus, told: bool) -> None:
    assert only(line).status is status
    assert ("neither pending nor done" in notices(line)) is told


@pytest.mark.parametrize(
    ("label", "stories"),
    [
        ("[US1]", ("US1",)),
        ("[US1+US2]", ("US1", "US2")),
        ("[US1, US2]", ("US1", "US2")),
        ("[US2b]", ("US2b",)),
        ("[US1][P]", ("US1",)),
        ("[P] [Story 3]", ("US3",)),
        ("[Setup]", ()),
        ("", ()),
    ],
)
def test_story_labels(label: str, stories: tuple[str, ...]) -> None:
    assert only(f"- [ ] T001 {label} Make it").stories == stories
    assert only(f"- [ ] T001 Make it {label.replace('Story 3', 'US3')}").stories == stories


@pytest.mark.parametrize(
    ("heading", "stories"),
    [
        ("## Phase 3: User Story 1 - Borrow", ("US1",)),
        ("## Phase 3: US2 Borrow", ("US2",)),
        ("## Phase 3: User Stories 2 & 3", ("US2", "US3")),
        ("# Tasks of User Story 1", ()),
        ("## Phase 3: Polish", ()),
    ],
)
def test_stories_by_the_heading_unless_a_label_says_otherwise(heading: str, stories: tuple[str, ...]) -> None:
    first, second = read(f"{heading}\n### Tests\n- [ ] T001 One\n- [ ] T002 [US9] Two").tasks
    assert first.stories == stories
    assert second.stories == ("US9",)


def test_details_end_where_the_task_ends() -> None:
    text = (
        "- [ ] T001 One\n  indented\n\n  ```\ncode at the margin\n  ```\n  - [ ] sub-box\n"
        "    - [ ] T002 Own task\n      its detail\nlazy line\n"
        "**Checkpoint**: not a detail\n- [ ] T003 Three\n\nA paragraph.\n"
    )
    tasks = {task.key: task.text for task in read(text).tasks}
    assert tasks == {
        "T001": "T001 One\n  indented\n\n  ```\ncode at the margin\n  ```\n  - [ ] sub-box",
        "T002": "T002 Own task\n      its detail\nlazy line",
        "T003": "T003 Three",
    }


def test_duplicates_are_told_apart_and_told() -> None:
    text = "- [ ] T056 One\n- [x] T056 Two\n- [ ] T056 Three\n"
    assert keys(text) == ["T056", "T056#2", "T056#3"]
    assert "2: T056 is here and on line 1 too; this one is called T056#2." in notices(text)


_PHASE = "# Tasks\n\n## Phase 1: Setup\n\n"


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("- [ ] T001 One\n- [ ] Write the README\n- [ ] T002 Two\n", "One, Write the README, Two"),
        ("- [ ] PREREQUISITE: ask\n- [ ] T001 One\n", "PREREQUISITE: ask, One"),
        ("- [ ] T001 One\n\n- [ ] No id\n\n- [ ] T002 Two\n", "One, No id, Two"),
        ("- [ ] T001 One\n  - [ ] T002 In\n- [ ] No id\n", "One, In, No id"),
        ("- [ ] T001 One\n  Text\n  ```\ncode\n  ```\n- [ ] No id\n", "One, No id"),
        ("- [ ] T001 One\n\n## Phase 2: Polish\n\n**Purpose**: More\n\n- [ ] No id\n", "One, No id"),
        ("- [ ] All tasks complete\n- [ ] QA validated\n\n- [ ] T001 One\n- [ ] T002 Two\n", "One, Two"),
        ("- [ ] T001 One\n  - [ ] part\n", "One"),
        ("- [ ] Models\n  - [ ] T001 One\n  - [ ] T002 Two\n", "One, Two"),
        ("- [ ] T001 One\n\n**Acceptance**:\n- [ ] Users can log in\n", "One"),
        ("- [ ] T001 One\n\n**Checkpoint**: Ready\n\n- [ ] Demo\n", "One"),
        ("- [ ] T001 One\n\n## Phase 2: Polish\n\n**Validation**:\n\n- [ ] It works\n", "One"),
    ],
)
def test_boxes_without_an_id_are_tasks_where_they_stand_among_tasks(text: str, titles: str) -> None:
    assert ", ".join(task.title for task in read(_PHASE + text).tasks) == titles


def test_a_file_without_ids() -> None:
    text = "## Phase 1: Validation\n- [ ] One\n  - [ ] part\n- [x] Two\n## Checklist\n- [ ] Ask\n"
    parsed = read(text)
    assert [(t.title, t.status.value) for t in parsed.tasks] == [("One", "pending"), ("Two", "done")]
    assert all(task.key.startswith("box-") for task in parsed.tasks)
    assert [t.key for t in read("\n\n" + text.replace("[ ] One", "[x] One")).tasks] == [
        t.key for t in parsed.tasks
    ]
    assert "keys are made from their texts" in parsed.notices[0].text


SIGNS = {TaskStatus.PENDING: "", TaskStatus.DONE: "*", TaskStatus.SKIPPED: "-", TaskStatus.CANCELLED: "~"}


def summary(text: str) -> str:
    """What was understood, on one line: keys with signs for their states, and the lines of notices."""
    parsed = read(text)
    if refusal(parsed, "tasks.md"):
        return "refused"
    keys = " ".join(f"{task.key}{SIGNS[task.status]}" for task in parsed.tasks)
    lines = ",".join(str(notice.line) for notice in parsed.notices)
    return f"{keys} !{lines}" if lines else keys


def test_files_are_read_as_a_person_would() -> None:
    parts = Path(__file__).with_name("written.txt").read_text().split("%%% ")[1:]
    expected = [part.split("\n", 1)[0].split(" | ") for part in parts]
    found = [[name, summary(part.split("\n", 1)[1])] for part, (name, _) in zip(parts, expected, strict=True)]
    assert found == expected


LINES = """\
- [ ] T001 One
- [x] T002 Two
* [X] **T003 [P]** Three
1. [ ] T001 again
  - [ ] sub
- [ ] box
- [] T011 mistyped
-[ ] T012 mistyped
- [ ]T013 mistyped
[ ] T014 mistyped
~~~
```
    ```
<!--
-->
text <!-- x
> - [ ] T004
---
## Phase 1: US2
## Checklist
## Dependencies

\t- [ ] T005/T006 für
- [~] T007
- [ ] ~~T008~~
\u2028- [ ] T010
  detail
lazy é"""
WORDS = st.sampled_from(LINES.split("\n"))
FILES = st.builds(
    lambda bom, end, lines, last: (bom + end.join(lines) + last).encode("utf-8", "surrogateescape"),
    st.sampled_from(["", "\ufeff"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(WORDS | st.text(max_size=30) | st.just("caf\udce9"), max_size=25),
    st.sampled_from(["", "\n", "\r\n"]),
)


def facts(tasks: Sequence[BoxTask]) -> list[tuple[object, ...]]:
    return [(t.key, t.title, t.fingerprint, t.status, t.line, t.stories, t.phase) for t in tasks]


@given(FILES | st.text().map(str.encode))
def test_any_tick_changes_one_mark_and_can_be_taken_back(data: bytes) -> None:
    before = parse(data)
    for index, task in enumerate(before.tasks):
        assert task.title.strip()
        assert task.title.isprintable()
        start, end = task.mark.start, task.mark.end
        assert data[start:end] == task.mark.text.encode("utf-8", "surrogateescape")
        if task.status is not TaskStatus.PENDING:
            continue
        now = mark_task(data, before, task, True)
        assert now[:start] == data[:start]
        assert now[len(now) - len(data) + end :] == data[end:]
        after = parse(now)
        wanted = facts(before.tasks)
        wanted[index] = facts([replace(task, status=TaskStatus.DONE)])[0]
        assert facts(after.tasks) == wanted
        back = mark_task(now, after, after.tasks[index], False)
        assert facts(parse(back).tasks) == facts(before.tasks)


@given(st.binary())
def test_any_bytes_are_read(data: bytes) -> None:
    if not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        parse(data)
