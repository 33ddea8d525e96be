"""Which paths a task names, and which words only look like paths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.footprint import Footprint, find_footprint, find_paths
from segue.domain.task import Task, TaskKind
from segue.domain.verdict import Criterion


def paths(text: str) -> str:
    """Return the paths of a text; those it only refers to have a question mark."""
    return " ".join(path + "?" * refers for path, refers in find_paths(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Create User model in src/models/user.py", "src/models/user.py"),
        ("POST /api/v1/login in src/api/auth.py:42", "src/api/auth.py"),
        ("- Modify: `src/y.py:10-20`\n- Test: `tests/test_x.py::test_a`", "src/y.py tests/test_x.py"),
        ("update src/{models,services}/user.py", "src/models/user.py src/services/user.py"),
        ("app/[locale]/(auth)/page.tsx", "app/[locale]/(auth)/page.tsx"),
        ("/src/models/user.py and `./src/b.go`", "src/models/user.py src/b.go"),
        ("Create the structure (src/, tests/)", "src/ tests/"),
        ("all tests/**/*.py, backend/src/services/*.ts", "tests/ backend/src/services/"),
        ("Implement src/models and src/lib/auth", "src/models src/lib/auth"),
        ("Реализовать в src/модели/книга.py", "src/модели/книга.py"),
    ],
)
def test_paths_that_a_task_names(text: str, expected: str) -> None:
    assert paths(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Create it in src/user.py per data-model.md", "src/user.py data-model.md?"),
        ("Import the parser from src/a.py", "src/a.py?"),
        ("the defaults of data-model.md in src/config.ts", "data-model.md? src/config.ts"),
    ],
)
def test_paths_that_a_task_only_refers_to(text: str, expected: str) -> None:
    assert paths(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "and/or CI/CD, TCP/IP, read/write, yes/no, T001/T002, US1/US2, GET/POST",
        "Node.js, Next.js/React and TypeScript/Node.js",
        "https://example.com/a/b.py example.com/index.html www.example.com/a.html me@example.com",
        "GET /api/users/{id} and `/health`",
        "application/json `text/html` `@types/node` `origin/main` `feature/login`",
        "../outside/x.py and ~/.config/x.toml",
        "```python\nopen('src/a.py')\n```",
    ],
)
def test_words_that_are_no_paths(text: str) -> None:
    assert paths(text) == ""


def test_a_footprint_has_what_title_text_and_criteria_name_and_what_was_touched() -> None:
    task = Task(
        "T1", "Write src/a.py", "Write src/a.py per b.md", criteria=(Criterion("AC1", "docs/c.md has it"),)
    )
    assert find_footprint(task, ["d.py"]) == Footprint(("src/a.py", "docs/c.md"), ("b.md",), ("d.py",))


def test_a_task_that_only_looks_changes_nothing_that_it_names() -> None:
    task = Task("T1", "Run all tests in tests/unit/", "", kind=TaskKind.VERIFY_ONLY)
    assert find_footprint(task) == Footprint((), ("tests/unit/",))


WORDS = st.sampled_from(
    ["src", "a.py", "/", "`", "*", "{", "}", ",", "..", " ", "[", "(", ")", "and", ":", "\n", "."]
)


@given(st.lists(WORDS | st.text(max_size=3), max_size=30).map("".join))
def test_every_path_is_inside_the_repository(text: str) -> None:
    for path, _ in find_paths(text):
        parts = path.rstrip("/").split("/")
        assert all(parts)
        assert not {".", ".."} & set(parts)


def test_long_texts_take_linear_work() -> None:
    text = "((((" * 10_000 + "{a,b}" * 20 + "/" * 10_000 + "`" * 999 + "a." * 10_000 + "src/x.py"
    assert len(paths(text)) < 10_000
