"""The tutorial works as printed: its files and commands lead from nothing to two proven tasks."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from tests.cli.place import Place
from tests.warm import run_segue

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text("utf-8")
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
RESULT = re.compile(r"done +check +\d|PASS \(\w+\)")


def type_line(line: str, folder: Path, env: dict[str, str]) -> tuple[str, str]:
    """Run a line of a console and return what it printed, and what it said beside that."""
    program, *words = shlex.split(line, comments=True)
    if program == "segue":
        done = run_segue(words, folder, env, 120)
    else:
        done = subprocess.run([program, *words], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{line}: {done.stderr}"
    return done.stdout, done.stderr


def test_the_first_half_of_the_tutorial_proves_two_tasks(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    del place.env["SEGUE_TRUST"]
    (tmp_path / "home" / ".gitconfig").write_text("[user]\nname = Me\nemail = me@example.org\n")
    folder, printed, said = tmp_path, "", ""
    first_half = PAGE[: PAGE.index("## 7. ")]
    for kind, name, text in BLOCK.findall(first_half):
        if name:
            (folder / name).write_text(text)
        for line in re.findall(r"^\$ (.*)", text, re.MULTILINE) if kind == "console" else ():
            if line.startswith("cd "):
                folder /= line.removeprefix("cd ")
            else:
                shown_now, said_now = type_line(line, folder, place.env)
                printed, said = printed + shown_now, said + said_now
    shown = RESULT.findall(first_half)
    assert len(shown) == 4
    assert RESULT.findall(printed)[:4] == shown
    caught = re.findall(r"^2 check 1 .*", first_half, re.MULTILINE)
    assert "test_cart.py:6 is skipped now" in caught[0]
    assert [line for line in caught if line not in said] == []
