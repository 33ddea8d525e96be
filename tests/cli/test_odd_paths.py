"""Repositories in folders with names that few people expect."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.place import DEADLINE, SEGUE, Place
from tests.warm import start_segue

WRITES = '[[on]]\nwrite = { "made-{task}.txt" = "made by {task}" }\n'
NAMES = {
    "newline": b"one\ntwo",
    "ends with a newline": b"one\n",
    "tab": b"one\ttwo",
    "quotes": b'it\'s "one"',
    "spaces": b" one  two ",
    "dash": b"-n",
    "glob": b"[one]*?",
    "no UTF-8": b"one\xff\xfetwo",
    "colon and dollar": b"$HOME:one;two",
    "backslash": b"one\\ntwo",
}


@pytest.mark.thorough
@pytest.mark.quick("spaces-worktree")
@pytest.mark.parametrize("more", [(), ("--worktree",)], ids=["in place", "worktree"])
@pytest.mark.parametrize("name", NAMES.values(), ids=list(NAMES))
def test_a_repository_may_be_anywhere(place: Place, name: bytes, more: tuple[str, ...]) -> None:
    place.script(WRITES)
    odd = place.root / os.fsdecode(name)
    shutil.move(place.repo, odd)

    def segue(*args: str) -> str:
        out, err = place.root / "out", place.root / "err"
        with out.open("w") as to_out, err.open("w") as to_err:
            process = start_segue(args, odd, place.env, to_out, to_err)
        assert process.wait(DEADLINE) == 0, err.read_bytes()
        return out.read_bytes().decode(errors="replace" if "--json" not in args else "strict")

    segue("run", "plan.md", "--task", "1", *more)
    segue("run", "plan.md", *more)
    assert '"state": "done"' in segue("status", "last", "--json")
    assert segue("status", "last")
    listed = subprocess.run([*SEGUE, "task", "list", "plan.md"], cwd=odd, env=place.env, capture_output=True)
    assert b"Write two" in listed.stdout, "a Python of its own starts there too"
    if not more:
        assert sorted(Path(odd).glob("made-*.txt"))


@pytest.mark.thorough
def test_a_repository_whose_name_is_no_text_is_worked_on_in_the_sandbox(place: Place) -> None:
    place.script(WRITES)
    place.more_config('checks = [["true"]]\n')
    place.use_sandbox()
    odd = place.root / os.fsdecode(NAMES["no UTF-8"])
    shutil.move(place.repo, odd)
    with (place.root / "said").open("w") as said:
        process = start_segue(("run", "plan.md", "--worktree"), odd, place.env, said)
    assert process.wait(DEADLINE) == 0, (place.root / "said").read_bytes()
