"""The kind of a task is recognised by its words, and its author has the last word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.kinds import kind_of, read_kind, recognise_kind, stated_kind, with_kinds
from segue.domain.task import Task, TaskKind, TaskList

BUILD, TEST_FIRST, VERIFY, DOCS, HUMAN = TaskKind

FIRST = "Phase 3: User Story 1 / Tests for User Story 1 (write these tests FIRST, ensure they FAIL)"
BEFORE = "Phase 3: User Story 1 - Log in / Tests for User Story 1, before Implementation for User Story 1"
OLD = "Phase 3.2: Tests First (TDD) ⚠️ MUST COMPLETE BEFORE 3.3"

LINES = [
    (BUILD, "Create User model in src/models/user.py"),
    (BUILD, "Implement login form"),
    (BUILD, "Add validation and error handling"),
    (BUILD, "Setup environment configuration management"),
    (BUILD, "Validate email input in src/forms.py"),
    (BUILD, "Validate request bodies against the schema in src/api/users.ts"),
    (BUILD, "Validate user input"),
    (BUILD, "Verify JWT signature in src/auth/middleware.ts"),
    (BUILD, "Verify email addresses with a link"),
    (BUILD, "Check permissions before upload"),
    (BUILD, "Check if the user is an admin before a project is deleted"),
    (BUILD, "Check-in flow for guests"),
    (BUILD, "Confirm dialog component in src/components/ConfirmDialog.tsx"),
    (BUILD, "Run database migrations script creation"),
    (BUILD, "Run length encoding in src/rle.py"),
    (BUILD, "Run-length encoding of all tests results"),
    (BUILD, "Run `npx create-next-app web`"),
    (BUILD, "Run `npm install zod` in frontend/"),
    (BUILD, "Run `alembic revision --autogenerate` for the new table"),
    (BUILD, "Run ruff check --fix . to auto-fix linting issues in backend/"),
    (BUILD, "Run `ruff format .` on all files"),
    (BUILD, "Run Lighthouse and record the scores in docs/performance.md"),
    (BUILD, "Fix failing tests in the CI pipeline"),
    (BUILD, "Additional unit tests in tests/unit/"),
    (BUILD, "Unit tests for parsing in tests/unit/test_parse.py"),
    (BUILD, "Add E2E tests with Playwright for the workflow builder"),
    (BUILD, "Implement manual task creation"),
    (BUILD, "Manual retry button in src/components/Retry.tsx"),
    (BUILD, "Add manually triggered sync"),
    (BUILD, "Add docs search component in src/components/Search.tsx"),
    (BUILD, "Add documentation generator"),
    (BUILD, "Create document model in src/models/document.py"),
    (BUILD, "Document upload endpoint in src/api/upload.py"),
    (BUILD, "Implement retries as described in docs/retry.md"),
    (BUILD, "Create Order entity from data-model.md in src/models/order.py"),
    (BUILD, "Add user endpoints per contracts/users.md"),
    (BUILD, "Configure database connection in src/db.py"),
    (BUILD, "Configure error handling and logging infrastructure"),
    (BUILD, "Add docstrings to all public classes in src/api.py"),
    (BUILD, "Build Node.js server with Express.js"),
    (BUILD, "Ask for confirmation before deleting a project"),
    (BUILD, "Get approval status from the API in src/approvals.py"),
    (BUILD, "实现用户登录"),
    (BUILD, ""),
    (TEST_FIRST, "Write a failing test for the parser"),
    (TEST_FIRST, "Add failing integration tests for checkout in tests/checkout.test.ts"),
    (TEST_FIRST, "Contract test for GET /users in tests/contract/test_users.py (expect FAIL)"),
    (TEST_FIRST, "Tests for the date picker, which must fail before T031"),
    (VERIFY, "Run quickstart.md validation"),
    (VERIFY, "Run quickstart.md validation in specs/1-todo/quickstart.md"),
    (VERIFY, "Run `npm run build` to validate TypeScript compilation and fix any type errors"),
    (VERIFY, "Run full test suite (unit + integration + contract + E2E)"),
    (VERIFY, "Run all backend tests and ensure >80% coverage"),
    (VERIFY, "Run npm run check:linting to verify ESLint rules pass for all modified files"),
    (VERIFY, "Run mypy src/ to verify type checking passes in backend/"),
    (VERIFY, "Run pytest --cov=src --cov-fail-under=80 to verify 80% minimum coverage"),
    (VERIFY, "Run linting and fix any issues (`pnpm lint`)"),
    (VERIFY, "Run `prettier --check .`"),
    (VERIFY, "Run `cargo clippy -- -D warnings`"),
    (VERIFY, "Verify TypeScript compiles without errors (`pnpm tsc --noEmit`)"),
    (VERIFY, "Verify all existing functionality works correctly"),
    (VERIFY, "Verify no console errors during normal operation"),
    (VERIFY, "Verify overdue todos appear at top of list (FR-010)"),
    (VERIFY, "Verify 90%+ code coverage"),
    (VERIFY, "Verify that users can create, update and delete tasks"),
    (VERIFY, "Verify dialog max-width works correctly in src/components/SearchDialog.tsx"),
    (VERIFY, "Validate against quickstart.md scenarios"),
    (VERIFY, "Validate SC-001 through SC-005"),
    (VERIFY, "Validate all links work"),
    (VERIFY, "Confirm T052 passes"),
    (VERIFY, "Check that no regressions were introduced"),
    (VERIFY, "Final full test run: all tests must pass"),
    (VERIFY, "Audit the dependencies; no code changes"),
    (BUILD, "Validate automation scripts work without manual intervention"),
    (DOCS, "Update README"),
    (DOCS, "Update README.md with usage examples"),
    (DOCS, "Documentation updates in docs/"),
    (DOCS, "Write the user guide in docs/guide.md"),
    (DOCS, "Create docs/gui-testing-checklist.md with manual testing scenarios"),
    (DOCS, "Document the API"),
    (DOCS, "Add .env.example with all variables"),
    (DOCS, "Update CHANGELOG.md"),
    (DOCS, "Configure linting and formatting tools"),
    (DOCS, "Configure ESLint and Prettier in .eslintrc.json"),
    (DOCS, "Set up GitHub Actions in .github/workflows/ci.yml"),
    (DOCS, "Create .gitignore"),
    (DOCS, "Update quickstart.md with v2 examples"),
    (HUMAN, "Ask the customer which currencies are needed"),
    (HUMAN, "Get approval from legal"),
    (HUMAN, "Obtain security sign-off"),
    (HUMAN, "Manually inspect the redesign at 375px and 768px"),
    (HUMAN, "Manual test: sign in with an expired token"),
    (HUMAN, "Manual end-to-end test: run through the complete journey"),
    (HUMAN, "Verify all acceptance scenarios from spec.md pass manually"),
    (HUMAN, "Validate cancellation leaves no stray files (manual QA)"),
    (HUMAN, "Perform manual accessibility audit"),
    (HUMAN, "Conduct usability tests with five users"),
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
        (TEST_FIRST, "Integration test user registration in tests/integration/test_registration.py"),
        (TEST_FIRST, "Write unit tests for the cart"),
        (TEST_FIRST, "Capability-gap test in tests/contract/test_gap.py: no visits, no error"),
        (BUILD, "Create test fixtures in tests/conftest.py"),
        (BUILD, "Set up test database"),
        (BUILD, "Implement UserService in src/services/user.py"),
        (VERIFY, "Run all tests and confirm that they fail"),
        (HUMAN, "Manual test: sign in"),
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
        "T001 Add login\n  Kind: DOCS",
        "T001 Add login\n  - **Kind**: docs.",
        "T001 Add login (kind: docs)",
        "T001 [kind:docs] Add login",
        "T001 Add login\n\n`kind = docs`",
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
        "Mankind: docs",
    ],
)
def test_other_uses_of_the_word_do_not_count(text: str) -> None:
    """YAML in a code block and prose are no statement."""
    assert stated_kind(text) is None


def test_kinds_are_read_as_people_write_them() -> None:
    """Case, spaces and underscores do not matter."""
    assert [read_kind(word) for word in ("Test First", "verify_only", " build ", "docz")] == [
        TEST_FIRST,
        VERIFY,
        BUILD,
        None,
    ]


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


_PIECES = ("run", "verify", "check", "manual", "tests", "failing", "must fail", "`pytest -q`", "src/a.py",
           "docs/", "README", "kind: docs", "[red]", "and update", "\n```sh\n",
           "…", "(", "create", "fixtures", "that", "all", "works")  # fmt: skip
_WORDS = st.lists(st.sampled_from(_PIECES), max_size=40).map(" ".join)


@given(_WORDS, _WORDS)
def test_kinds_depend_on_the_words_alone(title: str, text: str) -> None:
    """The same words give the same kind, and what the author states is never overruled."""
    kind = recognise_kind(title, text)
    assert recognise_kind(title, text) is kind
    assert recognise_kind(title, f"{text}\n```\n```\nkind: human") in (
        HUMAN,
        stated_kind(text),
        stated_kind(title),
        kind,
    )
    assert recognise_kind(title, f"kind: human\n{text}") is HUMAN
