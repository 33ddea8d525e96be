"""The kind of a task is recognised by its words, and its author has the last word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.kinds import kind_of, recognise_kind, stated_kind, with_kinds
from segue.domain.task import Task, TaskKind, TaskList

BUILD, TEST_FIRST, VERIFY, DOCS, HUMAN = TaskKind

FIRST = "Phase 3: User Story 1 / Tests for User Story 1 (write these tests FIRST, ensure they FAIL)"
BEFORE = "Phase 3: User Story 1 - Log in / Tests for User Story 1, before Implementation for User Story 1"
OLD = "Phase 3.2: Tests First (TDD) ⚠️ MUST COMPLETE BEFORE 3.3"

LINES = [
    (BUILD, "Create User model in src/models/user.py"),
    (BUILD, "Validate email input in src/forms.py"),
    (BUILD, "Run length encoding in src/rle.py"),
    (BUILD, "Run `npx create-next-app web`"),
    (BUILD, "Implement manual task creation"),
    (BUILD, "实现用户登录"),
    (TEST_FIRST, "Write a failing test for the parser"),
    (TEST_FIRST, "Contract test for GET /users in tests/contract/test_users.py (expect FAIL)"),
    (VERIFY, "Run quickstart.md validation"),
    (VERIFY, "Run `npm run build` to validate TypeScript compilation and fix any type errors"),
    (VERIFY, "Verify all existing functionality works correctly"),
    (VERIFY, "Verify that users can create, update and delete tasks"),
    (VERIFY, "Audit the dependencies; no code changes"),
    (DOCS, "Update README"),
    (DOCS, "Create docs/gui-testing-checklist.md with manual testing scenarios"),
    (DOCS, "Set up GitHub Actions in .github/workflows/ci.yml"),
    (HUMAN, "Get approval from legal"),
    (HUMAN, "Manually inspect the redesign at 375px and 768px"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "line"), LINES, ids=[line for _, line in LINES])
def test_a_line_says_what_it_asks_for(kind: TaskKind, line: str) -> None:
    """Lines as people and Spec Kit write them."""
    assert recognise_kind(line.replace("`", ""), f"T012 [P] [US1] {line}") is kind


@pytest.mark.parametrize("section", [FIRST, BEFORE, OLD])
@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (TEST_FIRST, "Contract test for POST /x in tests/contract/test_x.py"),
        (TEST_FIRST, "Write unit tests for the cart"),
        (BUILD, "Implement UserService in src/services/user.py"),
    ],
)
def test_tests_before_the_implementation_come_first(section: str, kind: TaskKind, line: str) -> None:
    """The same line means another thing in a section of tests that are written first."""
    assert recognise_kind(line, line, section) is kind


def test_tests_of_a_section_that_is_about_something_else_are_built() -> None:
    """Only a section about tests makes its tests come first."""
    section = "Phase 9: Polish, first release"
    assert recognise_kind("Unit tests for the cart", "", section) is BUILD


def test_a_note_in_the_text_asks_for_a_failing_test() -> None:
    """What must fail is often said below the first line."""
    text = "T052 Unit tests for the guard in tests/guard.rs\n  Tests MUST FAIL before T053."
    assert recognise_kind("Unit tests for the guard in tests/guard.rs", text) is TEST_FIRST


@pytest.mark.parametrize(("label", "kind"), [("[HUMAN]", HUMAN), ("[RED]", TEST_FIRST)])
def test_labels_count(label: str, kind: TaskKind) -> None:
    """A label is in the text of a task, not in its title."""
    assert recognise_kind("Choose the colours", f"T060 {label} Choose the colours") is kind


def test_a_title_that_was_cut_is_completed() -> None:
    """The path at the end of a long line counts."""
    line = (
        "Validate that the addresses which people type into the long form are all complete in `src/forms.py`"
    )
    cut = line.replace("`", "")[:60].rstrip() + "…"
    assert recognise_kind(cut, f"T001 {line}") is BUILD


@pytest.mark.parametrize(
    "text",
    [
        "T001 Add login\n  kind: docs",
        "T001 Add login\n  - **Kind**: docs.",
    ],
)
def test_the_author_decides(text: str) -> None:
    """A line or a label beats every rule."""
    assert recognise_kind("Add login", text) is DOCS


@pytest.mark.parametrize(
    "text",
    [
        "Deploy it\n```yaml\nkind: human\n```",
        "kind: Deployment",
        "What kind of docs?",
    ],
)
def test_other_uses_of_the_word_do_not_count(text: str) -> None:
    """YAML in a code block and prose are no statement."""
    assert stated_kind(text) is None


def test_the_users_rules_come_first_then_the_source_then_the_words() -> None:
    """An exact key beats a pattern; the first pattern that fits counts."""
    rules = {"T0*": HUMAN, "T01?": BUILD, "T012": DOCS}
    stated = Task("T012", "Run all tests", "Run all tests\nkind: build")
    assert kind_of(stated, rules) is DOCS
    assert kind_of(stated, {"X*": DOCS}) is BUILD
    assert kind_of(Task("T013", "Add login", ""), rules) is HUMAN
    assert kind_of(Task("1", "Run all tests", ""), rules) is VERIFY
    assert kind_of(Task("1", "Run all tests", "", kind=DOCS), {}) is DOCS
    assert kind_of(Task("1", "Run all tests", "", kind_is_given=True), {}) is BUILD


def test_a_kind_that_does_not_exist_is_reported() -> None:
    """A slip of the pen must not pass silently."""
    tasks = (Task("1", "Update README", "[kind: doc]", line=3), Task("2", "Add login", "(kind: build)"))
    found = with_kinds(TaskList(tasks), {})
    assert [task.kind for task in found.tasks] == [DOCS, BUILD]
    assert [
        (notice.line, "'doc'" in notice.text, "verify-only" in notice.text) for notice in found.notices
    ] == [(3, True, True)]


@given(st.text(), st.text(), st.text())
def test_every_text_has_a_kind(title: str, text: str, section: str) -> None:
    """Nothing that a person writes stops a run."""
    assert recognise_kind(title, text, section) in set(TaskKind)
