"""Several tasks at once, by each means: what is checked is what was merged, never another tree."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.place import Place
from tests.isolation.means import each, run_by

PLAN = "# Plan\n" + "".join(
    f"\n## Task {number}\nWrite the module part{number} with a function `value` and a test.\n"
    for number in range(1, 5)
)
AGENT = """
import pathlib, sys, time
folder = pathlib.Path({folder!r})
task = sys.argv[1]
(folder / task).touch()
while task in "12" and len(list(folder.iterdir())) < 2:
    time.sleep(0.02)
{work}
"""
HONEST = """
pathlib.Path(f"part{task}.py").write_text(f"def value():\\n    return {task}\\n")
pathlib.Path(f"tests/test_part{task}.py").write_text(
    "import unittest\\n"
    f"from part{task} import value\\n\\n\\n"
    "class Test(unittest.TestCase):\\n"
    "    def test_value(self):\\n"
    f"        self.assertEqual(value(), {task})\\n"
)
"""
"""Each task has files of its own."""
TOGETHER = """
import os
def write_test(module, call):
    pathlib.Path(f"tests/test_part{task}.py").write_text(
        f"import unittest\\nimport {module}\\n\\n\\nclass Test(unittest.TestCase):\\n"
        f"    def test_value(self):\\n        self.assertEqual({module}.{call}(), 1)\\n"
    )
if task == "1":  # renames what the other one begins to use
    text = pathlib.Path("common.py").read_text()
    pathlib.Path("common.py").write_text(text.replace("def base", "def ground"))
    write_test("common", "ground")
elif os.environ["SEGUE_ATTEMPT"] == "1":
    text = "from common import base\\n\\n\\ndef value():\\n    return base()\\n"
    pathlib.Path("part2.py").write_text(text)
    write_test("part2", "value")
else:
    pathlib.Path("notes.txt").write_text("left to a person")
"""
"""Each of two tasks is fine alone; git merges them without a conflict, and together they fail."""
COMMON = {
    "common.py": "def base():\n    return 1\n\n\ndef other():\n    return 2\n",
    "tests/__init__.py": "",
    "tests/test_common.py": "import unittest\nimport common\n\n\nclass Test(unittest.TestCase):\n"
    "    def test_other(self):\n        self.assertEqual(common.other(), 2)\n",
}


def make(root: Path, work: str) -> Place:
    """A project whose first two tasks are always at work at the same time."""
    place = Place.make(root, PLAN)
    for name, text in COMMON.items():
        (place.repo / name).parent.mkdir(exist_ok=True)
        (place.repo / name).write_text(text)
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "Code")
    folder = root / "meeting"
    folder.mkdir()
    (root / "agent.py").write_text(AGENT.format(folder=str(folder), work=work))
    argv = json.dumps(["sh", "-c", f"exec '{sys.executable}' '{root}/agent.py' $SEGUE_TASK"])
    check = json.dumps([[sys.executable, "-m", "unittest", "discover", "-s", "tests", "-t", "."]])
    place.config(f'agent = "command"\nchecks = {check}\nagents.command.argv = {argv}\n')
    return place


@pytest.mark.quick("namespaces")
@pytest.mark.parametrize("means", each("bwrap", "namespaces", "copy"))
def test_honest_independent_tasks_never_collide(tmp_path: Path, means: str) -> None:
    place = make(tmp_path, HONEST)
    done = run_by(means, place, "run", "plan.md", "--jobs", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert place.events("task.collided") == []
    tasks = place.json("status", "last")["tasks"]
    assert {task["proof"] for task in tasks} <= {"tested"}, tasks
    assert place.git("status", "--porcelain") == ""
    assert len(list(place.repo.glob("tests/test_part*.py"))) == 4


@pytest.mark.quick("copy")
@pytest.mark.parametrize("means", each("bwrap", "namespaces", "copy"))
def test_what_fails_together_is_never_merged(tmp_path: Path, means: str) -> None:
    place = make(tmp_path, TOGETHER)
    run_by(means, place, "run", "plan.md", "--jobs", "2", "--task", "1", "--task", "2")
    collided = place.events("task.collided")
    assert collided, place.json("status", "last")["tasks"]
    assert "together they fail" in collided[0]["reason"]
    both = {"def ground" in (place.repo / "common.py").read_text(), (place.repo / "part2.py").exists()}
    assert both != {True}
