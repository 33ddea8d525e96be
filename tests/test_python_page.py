"""The examples of docs/reference/python.md run as printed, one after the other, in a new repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import segue
from segue import (
    Options,
    public,
)
from tests.conformance.judge import check_judge
from tests.conformance.reviewer import check_reviewer

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "python.md"
PLAN = "## Task 1\n\nWrite hello.txt.\n\n## Task 2\n\nWrite bye.txt.\n"
SCRIPT = """
[[on]]
task = "1"
say = "I wrote it."
write = { "hello.txt" = "hello" }

[[on]]
say = "I wrote that too."
write = { "bye.txt" = "bye" }
"""


def example(name: str) -> str:
    """Return the block of the page with this name."""
    found = re.search(
        rf"^```python {name}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found, f"docs/reference/python.md has no example called {name}"
    return found[1]


def repository(folder: Path) -> Path:
    """Make a repository with a plan and a script for the simulated agent."""
    folder.mkdir()
    (folder / "plan.md").write_text(PLAN)
    (folder / "script.toml").write_text(SCRIPT)
    who = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    for words in (["init", "--quiet", "-b", "main"], ["add", "-A"], ["commit", "--quiet", "-m", "Start"]):
        subprocess.run(["git", *who, *words], cwd=folder, check=True)
    return folder


def run(code: str, folder: Path) -> str:
    """Run an example as a program of its own; return what it prints."""
    identity = {
        f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    environment = {**os.environ, **identity, "SEGUE_STATE_DIR": str(folder.parent / "state")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_watching_a_run(tmp_path: Path) -> None:
    said = run(example("watch"), repository(tmp_path / "repo"))
    assert "task 1: Write hello.txt." in said
    assert "  I wrote it." in said
    assert "task 2 done" in said


def test_the_reviewer_and_the_judge_conform() -> None:
    written: dict[str, Any] = {}
    exec(example("reviewer") + example("judge"), written)
    check_reviewer(
        lambda services: written["FixmeReviewer"](Options(), services), "notes.md", "FIXME: this\n", "Fine.\n"
    )
    check_judge(lambda services: written["ChangedJudge"](Options(), services))


def test_the_public_names_are_all_there_and_imported_late() -> None:
    for name in public.__all__:
        assert getattr(segue, name) is getattr(public, name)
    code = "import sys, segue; print(sorted(name for name in sys.modules if name.startswith('segue.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert segue.__all__ == public.__all__, "`from segue import *` works, too"
