"""What was red before a run is not the agent's fault, and a check that cannot start is refused first."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.place import Place, until

PYTEST = ("env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", sys.executable, "-m", "pytest", "-q")
CODE = "def add(a, b):\n    return a + b\n\n\ndef mul(a, b):\n    return a + b\n"
TESTS = (
    "from calc import add, mul\n\n\ndef test_add():\n    assert add(2, 3) == 5\n\n\n"
    "def test_mul():\n    assert mul(2, 3) == 6\n"
)
BASE = {"calc.py": CODE, "tests/test_calc.py": TESTS, "conftest.py": "", ".gitignore": "__pycache__\n"}
RED = "tests/test_calc.py::test_mul"
REPAIR = (
    '[[on]]\nedit = { "calc.py" = '
    '["def mul(a, b):\\n    return a + b", "def mul(a, b):\\n    return a * b"] }\n'
)


def make(
    tmp_path: Path,
    script: str,
    *checks: tuple[str, ...],
    files: Mapping[str, str] = BASE,
    plan: str = "# Plan\n\n## Task 1\nImprove it.\n",
    more: str = "",
) -> Place:
    place = Place.make(tmp_path, plan)
    for name, text in files.items():
        path = place.repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    commands = [list(argv) for argv in checks or (PYTEST,)]
    place.config(f"checks = {commands}\n{more}\n[agents.scripted]\nscript = 'script.toml'\n")
    (place.root / "script.toml").write_text(script)
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "A project with a red test")
    return place


def run(place: Place, code: int = 0, *words: str) -> str:
    done = place.segue("run", "plan.md", "--agent", "scripted", *words, code=code)
    return done.stdout + done.stderr


def card(place: Place, task: str = "1") -> dict[str, object]:
    [found] = place.json("proof", "last", task)["tasks"]
    return found  # type: ignore[no-any-return]


def check_of(place: Place, task: str = "1") -> dict[str, object]:
    return card(place, task)["checks"][0]  # type: ignore[index,no-any-return]


def test_work_beside_a_red_test_is_not_blamed_and_everybody_is_told(tmp_path: Path) -> None:
    place = make(tmp_path, '[[on]]\nappend = { "calc.py" = "\\n\\ndef sub(a, b):\\n    return a - b\\n" }\n')
    said = run(place)
    words = f"1 of 2 tests fails already: {RED}"
    assert words in said
    assert words in place.segue("status", "last").stdout
    [before] = place.json("status", "last")["before"]
    assert (before["state"], before["failing"], before["words"]) == ("red", [RED], words)
    assert f"failed before too: {RED}" in " ".join(place.segue("proof").stdout.split())
    assert check_of(place)["state"] == "passed"
    assert check_of(place)["known"] == [RED]
    shown = place.json("status", "last")
    assert shown["tasks"][0]["attempts"] == 2, "once for a test of its own"
    assert re.search(r"; agents [\d.ms]+, proving [\d.ms]+", said), "where the time went"
    assert min(shown["spent"].values()) > 0


def test_a_task_that_repairs_a_known_failure_gets_the_credit(tmp_path: Path) -> None:
    place = make(tmp_path, REPAIR)
    run(place)
    assert card(place)["proof"] == "tested"
    assert check_of(place)["repaired"] == [RED]
    [before] = place.json("status", "last")["before"]
    assert before["repaired"] == [RED]


def test_one_that_breaks_a_green_test_is_sent_back_and_told_of_that_one_only(tmp_path: Path) -> None:
    place = make(
        tmp_path,
        '[[on]]\nattempt = 1\nphase = "execute"\n'
        'edit = { "calc.py" = ["def add(a, b):", "def add(a, b):\\n    return 0"] }\n'
        '[[on]]\nedit = { "calc.py" = ["def add(a, b):\\n    return 0", "def add(a, b):"] }\n'
        'write = { "notes.md" = "Done." }\n',
    )
    run(place)
    prompts = [text for (text,) in place.rows("SELECT text FROM orchestrator_prompts")]
    [again] = [text for text in prompts if "test_add" in text]
    assert "test_mul" not in again
    assert place.json("status", "last")["tasks"][0]["attempts"] == 2


LINT = ("sh", "lint.sh")
BAD_LINT = "if grep -q 'a + b' calc.py; then echo 'calc.py: too simple'; exit 1; fi\n"


def test_whoever_turns_it_green_gets_the_credit_and_must_keep_it_so(tmp_path: Path) -> None:
    script = (
        '[[on]]\ntask = "1"\nrun = [["sed", "-i", "s/return a + b/return b + a/", "calc.py"]]\n'
        '[[on]]\ntask = "2"\nappend = { "calc.py" = "\\n\\ndef third(a, b):\\n    return a + b\\n" }\n'
    )
    plan = "# Plan\n\n## Task 1\nSimplify.\n\n## Task 2\nAdd a third.\n"
    place = make(tmp_path, script, LINT, files={**BASE, "lint.sh": BAD_LINT}, plan=plan)
    said = run(place, 3)
    assert card(place)["proof"] == "checked", "a linter does not look at results"
    assert check_of(place)["repaired"] == ["sh lint.sh"]
    assert "Task 2 needs a human: checks failed" in said


@pytest.mark.parametrize(
    ("argv", "files", "said"),
    [
        (("make", "lint"), {"Makefile": "test:\n\ttrue\n"}, "No rule to make target 'lint'"),
        ((*PYTEST, "tests/other"), {}, "file or directory not found: tests/other"),
    ],
)
def test_a_check_that_cannot_start_is_refused_before_anybody_is_paid(
    tmp_path: Path, argv: tuple[str, ...], files: dict[str, str], said: str
) -> None:
    place = make(tmp_path, REPAIR, argv, files={**BASE, **files})
    text = run(place, 2)
    assert said in text
    assert "No agent was launched." in text
    assert "known_failures" in text
    assert place.rows("SELECT count(*) AS n FROM orchestrator_prompts") == [(0,)]
    assert place.json("status", "last")["state"] == "needs_human"


def test_resume_continues_once_the_check_is_repaired(tmp_path: Path) -> None:
    place = make(tmp_path, REPAIR, ("make", "check"), files={**BASE, "Makefile": "test:\n\ttrue\n"})
    run(place, 2)
    place.config((place.root / "segue.toml").read_text().replace("'make', 'check'", "'make', 'test'"))
    place.segue("resume", "last")
    assert [check["state"] for check in place.json("status", "last")["before"]][-1] == "green"


def test_killed_while_the_checks_run_first_and_resumed(tmp_path: Path) -> None:
    # The script waits in a folder of dependencies, which sealed checks see as it is.
    wait = "while [ ! -e .venv/gate ]; do sleep 0.05; done\nexit 1\n"
    files = {**BASE, "lint.sh": wait, ".venv/pyvenv.cfg": "", ".gitignore": ".venv\n"}
    place = make(tmp_path, '[[on]]\nwrite = { "notes.md" = "Done." }\n', LINT, files=files)
    going = place.start("run", "plan.md", "--agent", "scripted")
    until(lambda: has_steps(place, "before/%"), "the checks run")
    going.kill()
    going.wait()
    (place.repo / ".venv" / "gate").touch()
    place.segue("resume", "last")
    rows = place.rows("SELECT state FROM orchestrator_steps WHERE key LIKE 'before/%'")
    assert rows == [("done",)]
    assert len(place.events("base.checked")) == 1
    assert place.json("status", "last")["tasks"][0]["attempts"] == 1


def has_steps(place: Place, pattern: str) -> bool:
    try:
        return bool(place.rows("SELECT 1 FROM orchestrator_steps WHERE key LIKE ?", pattern))
    except sqlite3.OperationalError:
        return False
