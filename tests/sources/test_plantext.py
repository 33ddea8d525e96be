"""What is a task in a plan, in the form of the document and in the usual shapes; nothing is lost silently."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.domain.errors import SourceError
from segue.domain.task import Notice
from segue.sources.plan.text import INVALID, ParsedPlan, decode, order
from segue.sources.plan.usual import parse


def keys(plan: ParsedPlan) -> list[str]:
    return [task.key for task in plan.tasks]


def bodies(plan: ParsedPlan) -> dict[str, str]:
    return {task.key: task.text for task in plan.tasks}


def at(notices: tuple[Notice, ...], line: int) -> str:
    """The texts of the notices about a line."""
    return " | ".join(notice.text for notice in notices if notice.line == line)


def lines_of(notices: tuple[Notice, ...]) -> list[int]:
    return [notice.line for notice in notices if notice.line is not None]


class TestCanonical:
    def test_body_is_everything_up_to_the_next_task_heading(self) -> None:
        plan = parse("# P\nintro\n\n## Task 1\n\none\n\n### Sub\n  two \n\n## Task 2\nthree")
        assert bodies(plan) == {"1": "one\n\n### Sub\n  two ", "2": "three"}
        assert [task.line for task in plan.tasks] == [4, 11]
        assert plan.preamble == "# P\nintro"
        assert plan.notices == plan.lost == ()

    def test_order_is_by_number_and_gaps_are_allowed(self) -> None:
        plan = parse("## Task 10\nten\n## Task 3\nthree\n## Task 0\nzero")
        assert keys(plan) == ["0", "3", "10"]
        assert [task.line for task in plan.tasks] == [5, 3, 1]

    @pytest.mark.parametrize(
        "heading", ["## Task 1", "## Task\t 1", "## Task 1 \t ", "## Task 01", "## Task 1\r"]
    )
    def test_spellings_of_task_1(self, heading: str) -> None:
        assert bodies(parse(f"{heading}\nbody")) == {"1": "body"}

    def test_marks_and_line_ends_of_files(self) -> None:
        assert keys(parse(decode(b"\xef\xbb\xbf## Task 1\nbody", "p.md"))) == ["1"]
        assert bodies(parse("## Task 1\r\na\r\n\r\nb\r\n## Task 2\r\nc\r\n")) == {"1": "a\n\nb", "2": "c"}
        assert keys(parse("## Task 1\ra\r## Task 2\rb\r")) == ["1", "2"]

    @pytest.mark.parametrize("separator", ["\u2028", "\x85", "\x0c"])
    def test_other_separators_stay_inside_their_line(self, separator: str) -> None:
        text = f"one{separator}## Task 2{separator}two"
        assert bodies(parse(f"## Task 1\n{text}\n## Task 3\nx")) == {"1": text, "3": "x"}

    def test_the_same_number_twice_is_named_with_both_lines(self) -> None:
        plan = parse("## Task 1\na\n## Task 2\nb\n## Task 01\nc")
        assert bodies(plan) == {"1": "a", "2": "b"}
        assert lines_of(plan.lost) == [5]
        assert "line 1" in plan.lost[0].text

    def test_a_number_of_five_thousand_digits_is_no_task(self) -> None:
        plan = parse(f"## Task 1\na\n## Task {'9' * 5000}\nb")
        assert keys(plan) == ["1"]
        assert lines_of(plan.lost) == [3]
        assert len(plan.lost[0].text) < 300
        assert keys(parse(f"## Task {'0' * 5000}7\na\n## Task 000\nb")) == ["0", "7"]

    def test_chapters_swallowed_by_the_last_task(self) -> None:
        plan = parse(
            "## Task 1\na\n## Steps\n## Task 2\nb\n```\n# comment\n```\n# Rules\n## Submission\n### Sub"
        )
        assert lines_of(plan.notices) == [9]
        assert "`# Rules` (and 1 more)" in plan.notices[0].text
        assert "Task 2" in plan.notices[0].text
        assert plan.lost == ()
        assert "Task 1" in at(parse("## Task 1\na\n# Stage 2\n## Task 2\nb").notices, 3)

    @pytest.mark.parametrize("says", ["Status: Completed", "- status: ✅ complete", "- [x] a\n- [X] b"])
    def test_a_task_that_says_it_is_done(self, says: str) -> None:
        plan = parse(f"## Task 1\na\n{says}\n## Task 2\n- [x] a\n- [ ] b\nStatus: open")
        assert lines_of(plan.notices) == [3]
        assert plan.lost == ()
        assert "Task 1" in plan.notices[0].text
        assert "the plan" in at(parse("Status: Completed\n## Task 1\na").notices, 1)

    def test_a_task_without_text_is_told(self) -> None:
        plan = parse("## Task 1\n\n## Task 2\nb")
        assert bodies(plan)["1"] == ""
        assert "no text" in at(plan.notices, 1)

    @pytest.mark.parametrize(
        ("body", "title"),
        [
            ("", "Task 1"),
            ("\n\n  Plain words", "Plain words"),
            ("### **Add** the `login` page\nmore", "Add the login page"),
            ("- [ ] Write tests", "Write tests"),
            ("---\n```\ncode", "code"),
            ("a\x1b[31mb\u2028c", "a [31mb c"),
            ("x" * 200, "x" * 79 + "…"),
        ],
    )
    def test_title(self, body: str, title: str) -> None:
        assert parse(f"## Task 1\n{body}").tasks[0].title == title


class TestUsual:
    @pytest.mark.parametrize(
        ("heading", "key", "title"),
        [
            ("## Task 2", "2", "body"),
            ("## Task 2: Title", "2", "Title"),
            ("### Task 02 — Title", "2", "Title"),
            ("## TASK 2. **Bold** words", "2", "Bold words"),
            ("## Task 2 (parallel): Title", "2", "(parallel): Title"),
            ("### Task 2.1: Title", "2.1", "Title"),
            ("## Task 4B: Title", "4b", "Title"),
            ("# Task 2: Title", "2", "Title"),
            ("## **Task 2**: Title", "2", "Title"),
            ("## ✅ Task 2 Title", "2", "Title"),
            ("## [ ] Task 2: Title", "2", "Title"),
            ("## Step 2: Title", "2", "Title"),
            ("### T002 Title", "2", "T002 Title"),
        ],
    )
    def test_headings(self, heading: str, key: str, title: str) -> None:
        plan = parse(f"{heading}\nbody\n")
        assert [(task.key, task.title, task.text, task.line) for task in plan.tasks] == [
            (key, title, "body", 1)
        ]
        assert plan.lost == ()

    @pytest.mark.parametrize(
        "near",
        [
            "## Task 2-3",
            "## Task ٣",
            "## Task 4bis",
            "## Task 2.1é",
        ],
    )
    def test_what_nobody_can_know_is_lost_with_a_notice(self, near: str) -> None:
        plan = parse(f"## Task 1\na\n{near}\nb\n## Task 9\nc")
        assert keys(plan) == ["1", "9"]
        assert lines_of(plan.lost) == [3]

    def test_sub_numbers_sort_and_do_not_collide(self) -> None:
        text = "".join(f"### Task {n}: t\nx\n" for n in ("10", "4b", "2.10", "2", "4", "2.9", "2b"))
        plan = parse(text)
        assert keys(plan) == ["2", "2b", "2.9", "2.10", "4", "4b", "10"]
        assert plan.notices == ()

    def test_a_body_ends_at_a_heading_of_the_same_or_a_higher_level(self) -> None:
        text = "## Task 1: a\none\n### Files\ntwo\n## Notes\nno\n### Task 2: b\nthree\n#### Sub\n### End\nx"
        plan = parse(text)
        assert bodies(plan) == {"1": "one\n### Files\ntwo", "2": "three\n#### Sub"}
        assert lines_of(plan.notices) == [5, 10]
        assert plan.lost == ()

    def test_code_blocks_are_skipped(self) -> None:
        text = "```md\n## Task 1\n```\n\n## Task 2: b\n~~~~\n# no heading\n## Task 3\n~~~\n~~~~\nend"
        plan = parse(text)
        assert bodies(plan) == {"2": "~~~~\n# no heading\n## Task 3\n~~~\n~~~~\nend"}
        assert lines_of(plan.notices) == [2, 8]
        assert plan.lost == ()

    def test_a_code_block_that_is_never_closed_does_not_hide_tasks(self) -> None:
        plan = parse("## Task 1: a\n```\ncode\n## Task 2: b\nx")
        assert lines_of(plan.lost) == [4]

    def test_steps_below_tasks_belong_to_them(self) -> None:
        plan = parse("## Task 1: a\n### Step 1\nx\n### Step 2\ny\n## Task 2: b\nz")
        assert bodies(plan) == {"1": "### Step 1\nx\n### Step 2\ny", "2": "z"}

    def test_a_chapter_of_tasks_is_no_task(self) -> None:
        plan = parse("## Task 1: a\n\n### Task 1.1: b\nx\n### Task 1.2: c\ny\n## Task 2: d\nz")
        assert keys(plan) == ["1.1", "1.2", "2"]
        assert plan.tasks[0].section == "Task 1: a"
        assert keys(parse("## Task 1: a\nwords\n### Task 1.1: b\nx")) == ["1", "1.1"]

    def test_each_phase_may_count_from_one(self) -> None:
        plan = parse("## Phase 1: A\n### Task 1\na\n### Task 2\nb\n## Phase 2: B\n### Task 1\nc")
        assert bodies(plan) == {"1.1": "a", "1.2": "b", "2.1": "c"}
        assert plan.lost == ()

    def test_boxes(self) -> None:
        text = (
            "# Plan\nintro\n\n## Part\n- [ ] One\n  more\n  - [ ] sub\n\n  still\n- [x] Two\n\nA word.\n"
            "1. [ ] Three\n## Acceptance criteria\n- [ ] No task\n"
        )
        plan = parse(text)
        assert [(t.key, t.title, t.status.value, t.line) for t in plan.tasks] == [
            ("1", "One", "pending", 5),
            ("2", "Two", "done", 10),
            ("3", "Three", "pending", 13),
        ]
        assert bodies(plan)["1"] == "One\n  more\n  - [ ] sub\n\n  still"
        assert plan.preamble == "# Plan\nintro"
        assert plan.tasks[0].section == "Part"
        assert "`A word.` belongs to no task" in at(plan.notices, 12)

    def test_an_open_box_below_a_ticked_one_is_named(self) -> None:
        plan = parse("- [ ] One\n  - [ ] open\n- [x] Two\n  - [x] done\n  - [ ] forgotten\n")
        assert [notice.line for notice in plan.notices] == [5]
        assert "is open, but the box above it is ticked" in plan.notices[0].text

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("## Task 1\na\n## Task 2\nb", "Read 2 tasks from level-2 headings 'Task N'."),
            ("### Task 1: a\n### Task 2: b", "Read 2 tasks from level-3 headings 'Task N: title'."),
            ("## Task 1: a\n### Task 1.1\nb", "Read 1 task from level-3 headings 'Task N'."),
            ("## Step 1\na", "Read 1 task from level-2 headings 'Step N'."),
            ("- [ ] a\n- [x] b", "Read 2 tasks from boxes `- [ ]`, 1 of them ticked."),
        ],
    )
    def test_one_line_says_what_was_understood(self, text: str, said: str) -> None:
        assert parse(text).read_as == said

    @pytest.mark.parametrize("text", ["", "Only prose.", "## Goals\n- one\n- two", "1. Do this"])
    def test_a_plan_without_tasks(self, text: str) -> None:
        assert parse(text).tasks == ()

    def test_a_title_is_the_text_when_there_is_no_body(self) -> None:
        assert bodies(parse("## Task 1: Add login\n## Task 2: b\nx"))["1"] == "Add login"


def test_invalid_utf8_names_file_and_byte() -> None:
    with pytest.raises(SourceError) as caught:
        decode(b"## Task 1\ncaf\xe9\n", "dir/plan.md")
    assert caught.value.message.startswith(INVALID)
    assert "dir/plan.md" in caught.value.message
    assert "byte 13 (line 2)" in caught.value.message
    assert "UTF-8" in caught.value.hint


LINE = st.text(st.characters(exclude_characters="\r\n#", exclude_categories=["Cs"]), max_size=20)
BODY = st.lists(LINE, max_size=4)
FRAGMENT = st.sampled_from(
    [
        *("#", "##", "###", " ", "\t", "Task", "task", "1", "2", ".", "b", ":", "```", "~~~~", "\n", "\r\n"),
        *("\r", "\u2028", "٣", "- [x] ", "Status: Done", "x", "\n## Task 3\n", "\n## Task 3: t\n", "é", "ſ"),
        "\ufeff",
    ]
)
TEXT = st.one_of(st.text(), st.lists(FRAGMENT, max_size=40).map("".join))


def same_body(text: str) -> str:
    rows = text.replace("\r\n", "\n").split("\n")
    while rows and not rows[0].strip():
        rows.pop(0)
    while rows and not rows[-1].strip():
        rows.pop()
    return "\n".join(rows)


@settings(deadline=None)
@given(
    BODY,
    st.lists(st.tuples(st.integers(0, 999), BODY), min_size=1, max_size=6, unique_by=lambda pair: pair[0]),
)
def test_a_plan_that_was_written_is_read_back(
    preamble: list[str], tasks: list[tuple[int, list[str]]]
) -> None:
    rows = [*preamble]
    for number, body in tasks:
        rows += [f"## Task {number}", *body]
    plan = parse("\n".join(rows))
    assert bodies(plan) == {str(number): same_body("\n".join(body)) for number, body in sorted(tasks)}
    assert keys(plan) == [str(number) for number, _ in sorted(tasks)]
    assert plan.lost == ()


@settings(deadline=None)
@given(TEXT)
def test_every_line_that_looks_like_a_task_is_one_or_is_told(text: str) -> None:
    assert parse(text.replace("\r", "").replace("\n", "\r\n")) == parse(text.replace("\r", ""))
    plan = parse(text)
    told = {task.line for task in plan.tasks} | set(lines_of(plan.notices))
    rows = re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff"))
    for number, row in enumerate(rows, start=1):
        if re.match(r"#{1,6}\s*task\s+\d", row, re.IGNORECASE):
            assert number in told
    assert set(plan.lost) <= set(plan.notices)
    assert len(set(keys(plan))) == len(plan.tasks)
    assert keys(plan) == sorted(keys(plan), key=order)
    assert all(task.title and task.title.isprintable() and len(task.title) <= 80 for task in plan.tasks)
