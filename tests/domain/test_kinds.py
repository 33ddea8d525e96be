"""The kind of a task by four rules, and the commands that a task names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.kinds import commands_in, keeps_behaviour, kind_of, recognise_kind, stated_kind, with_kinds
from segue.domain.task import Task, TaskKind, TaskList

BUILD, TEST_FIRST, VERIFY, DOCS, HUMAN = TaskKind

LINES = [
    (BUILD, "Create User model in src/models/user.py"),
    (BUILD, "Validate email input in src/forms.py"),
    (BUILD, "Run length encoding of lines"),
    (BUILD, "Update README"),
    (BUILD, "实现用户登录"),
    (TEST_FIRST, "Write a failing test for the parser"),
    (TEST_FIRST, "Contract test for GET /users in tests/contract/test_users.py (must fail)"),
    (VERIFY, "Run quickstart.md validation"),
    (VERIFY, "Run all tests in tests/test_app.py"),
    (VERIFY, "Verify all existing functionality works correctly"),
    (HUMAN, "[MANUAL] Get approval from legal"),
]


@pytest.mark.parametrize(("kind", "line"), LINES, ids=[line for _, line in LINES])
def test_the_words_of_a_task_give_its_kind(kind: TaskKind, line: str) -> None:
    assert recognise_kind(line, f"T012 [P] [US1] {line}") is kind


def test_a_test_below_a_heading_about_tests_that_come_first_is_test_first() -> None:
    section = "Phase 3: User Story 1 / Tests for User Story 1 (write these tests FIRST, ensure they FAIL)"
    assert recognise_kind("Contract test for POST /x in tests/test_x.py", "", section) is TEST_FIRST
    assert recognise_kind("Implement UserService in src/user.py", "", section) is BUILD
    assert recognise_kind("Unit tests for the cart", "", "Phase 9: Polish, first release") is BUILD


def test_a_line_or_a_label_beats_every_rule() -> None:
    assert recognise_kind("Run all tests", "T001 Run all tests\n  - **Kind**: docs.") is DOCS
    assert stated_kind("Deploy it\n```yaml\nkind: human\n```") is None
    assert stated_kind("kind: Deployment") is None


def test_rules_come_first_then_the_source_then_the_words() -> None:
    assert kind_of(Task("T013", "Add login", ""), {"T012": DOCS, "T0*": HUMAN}) is HUMAN
    assert kind_of(Task("1", "Run all tests", ""), {"T0*": HUMAN}) is VERIFY
    assert kind_of(Task("1", "Run all tests", "", kind=DOCS), {}) is DOCS
    assert kind_of(Task("1", "Run all tests", "", kind_is_given=True), {}) is BUILD


def test_a_kind_that_does_not_exist_is_reported() -> None:
    tasks = (Task("1", "Add login", "[kind: doc]", line=3), Task("2", "Add login", "(kind: build)"))
    (notice,) = with_kinds(TaskList(tasks), {}).notices
    assert notice.line == 3
    assert "'doc' is no kind of task" in notice.text


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("Rename get_user to find_user", True),
        ("Sort faster, with the same results", True),
        ("Add a cache", False),
        ("Refactor the parser. Also add a cache", False),
    ],
)
def test_tasks_that_keep_the_behaviour(words: str, same: bool) -> None:
    assert keeps_behaviour(words) is same


COMMANDS = [
    ("Run `pytest a -q`, then `npm run build`.", [["pytest", "a", "-q"], ["npm", "run", "build"]]),
    ("Run `pytest -k 'a and b' tests/x.py`", [["pytest", "-k", "a and b", "tests/x.py"]]),
    ("Run `$ ./scripts/verify.sh`", [["./scripts/verify.sh"]]),
    ("```bash\n# first\npytest \\\n  -q\nnpm test  # all\n```", [["pytest", "-q"], ["npm", "test"]]),
    ("```\nexpected: 3 passed\n```", []),
    ("Verify `GET /health` returns 200", []),
    *((f"Run `{words}`", []) for words in ("a | b", "cd web", "a $(b)", "CI=1 a", "a *.py", "a 'b")),
    ("Run `npm publish`", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "commands"), COMMANDS, ids=[text for text, _ in COMMANDS])
def test_commands_that_need_no_shell_are_found(text: str, commands: list[list[str]]) -> None:
    assert [list(argv) for argv in commands_in(text)] == commands


@given(st.text(alphabet=st.sampled_from("`~$ \n|pytesmak-run'\"\\#>([:kid]") | st.characters()), st.text())
def test_no_text_stops_a_run(text: str, section: str) -> None:
    assert recognise_kind(text, text, section) in set(TaskKind)
    for command in commands_in(text):
        assert command[0]
        assert not {"|", "&&", ">", ";"} & set(command)
