"""Commands are found where a text names them, and only those that need no shell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.kinds import commands_in, find_commands

FOUND = [
    ("Run `pytest tests/us1 -q` and look", [("pytest", "tests/us1", "-q")]),
    ("**Independent Test**: Run `pytest tests/us1 -q`, then `npm run build`.",
     [("pytest", "tests/us1", "-q"), ("npm", "run", "build")]),
    ("Run `pytest -k 'a and b' tests/x.py::test_y[1]`",
     [("pytest", "-k", "a and b", "tests/x.py::test_y[1]")]),
    ("Run `./scripts/verify.sh`", [("./scripts/verify.sh",)]),
    ("Run `$ cargo test`", [("cargo", "test")]),
    ("Run `curl http://localhost:3000/health?deep=1`", [("curl", "http://localhost:3000/health?deep=1")]),
    ("```bash\n# first\npytest -q\nnpm test  # all\n```", [("pytest", "-q"), ("npm", "test")]),
    ("  ```sh\n  pytest \\\n    -q\n  ```", [("pytest", "-q")]),
    ("```\npytest -q\nexpected: 3 passed\n```", [("pytest", "-q")]),
    ("```bash\npytest -q", [("pytest", "-q")]),
    ("Twice: `make test` and `make test`", [("make", "test")]),
    # What only looks like a command.
    ("Verify `GET /health` returns 200", []),
    ("Verify `User` and `total count` in `src/forms.py`", []),
    ("no backticks: pytest -q", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "commands"), FOUND, ids=[text for text, _ in FOUND])
def test_commands_are_found(text: str, commands: list[tuple[str, ...]]) -> None:
    """In backticks and code blocks, split as a shell would."""
    assert list(commands_in(text)) == commands


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q | tail",
        "cd web && npm test",
        "pytest $(git ls-files)",
        'pytest "$TESTS"',
        "CI=1 npm test",
        "pytest tests/*.py",
        "docker run <image>",
        "pytest 'unclosed",
        "npm publish",
    ],
)
def test_what_needs_a_shell_or_reaches_too_far_is_left_out_and_named(command: str) -> None:
    """Half a command is worse than none."""
    found = find_commands(f"Run `{command}` and `make test`.")
    assert found.commands == (("make", "test"),)
    assert found.left_out == (command,)


def test_unknown_programs_in_a_shell_block_are_left_out_and_named() -> None:
    """A block may contain anything, and Segue runs only what looks at the work."""
    found = find_commands("```bash\nrm -rf build\npytest -q\n```")
    assert found.commands == (("pytest", "-q"),)
    assert found.left_out == ("rm -rf build",)


@given(st.text(alphabet=st.sampled_from("`~$ \n|pytesmak-q'\"\\#>(") | st.characters()))
def test_any_text_can_be_searched(text: str) -> None:
    """No text stops a run, and no command has an empty program or an operator as a word."""
    for command in commands_in(text):
        assert command[0]
        assert not {"|", "&&", ">", ";"} & set(command)
