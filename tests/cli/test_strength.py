"""Stronger proof through the command: scenarios in the plan, independent tests, tasks that keep both."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.place import Place
from tests.proof.projects import DISCOVER, needs_sandbox

pytestmark = needs_sandbox

PLAN = f"""# Plan

## Task 1
Add `double` to calc.py.

## Task 2
Add a command that greets.

```scenario
run = ["{sys.executable}", "greet.py", "Ada"]
stdout = "Hello Ada"
```

## Task 3
Add a note.
"""
SCRIPT = '''
[[on]]
phase = "independent"
write = { "test_double.py" = """
import unittest
from calc import double
class Test(unittest.TestCase):
    def test_five(self):
        self.assertEqual(double(5), 10)
""", "calc.py" = "nothing of this is taken" }

[[on]]
task = "1"
write = { "calc.py" = """
def double(x):
    return 2 * x
""" }

[[on]]
task = "2"
write = { "greet.py" = """
import sys
print("Hello", sys.argv[1])
""" }

[[on]]
task = "3"
phase = "execute"
write = { "notes.py" = "x = 1", "greet.py" = "print('Bye')" }

[[on]]
task = "3"
write = { "greet.py" = "print('Hello Ada')" }
'''


@pytest.mark.thorough
def test_tasks_reach_the_levels_that_their_evidence_allows(tmp_path: Path) -> None:
    place = Place.make(tmp_path, PLAN)
    place.script(SCRIPT)
    place.more_config(f"checks = [{json.dumps(DISCOVER)}]\nproof.independent = true\n")
    place.segue("run", "plan.md")
    tasks = place.json("status", "last")["tasks"]
    assert [(task["key"], task["proof"], task["tampering"]) for task in tasks] == [
        ("1", "independent", 0),
        ("2", "tested", 0),
        ("3", "changed", 0),  # no check exercises a note
    ]
    broken = [check["task"] for check in place.events("check") if "breaks Task 2" in str(check["result"])]
    assert broken == ["3"]
    assert place.git("for-each-ref", "refs/segue") == "", "independent tests stay out of the repository"
    assert place.git("ls-files").split() == ["calc.py", "greet.py", "notes.py", "plan.md"]
