"""Nobody who works can read the independent tests: an agent that looks everywhere finds none of them."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.place import Place
from tests.isolation.means import each, run_by
from tests.proof.projects import DISCOVER

PLAN = (
    "## Task 1\nWrite `double` in calc.py, with a test.\n\n## Task 2\nWrite `half` in calc.py, with a test.\n"
)
EXAM = r"""import unittest

import calc


class Test(unittest.TestCase):
    def test_other(self):
        self.assertEqual(calc.double(5), 10, "quag\u0067a")
"""
"""The script is in reach; the word is in the tests only."""
LEAK = r"""
import os, pathlib, sys, tempfile

WORD = "".join(["quag", "ga"])
here = pathlib.Path(__file__).parent
seen = [path.read_text() for path in here.rglob("*.py") if WORD in path.read_text()]
places = [here, here.parent, pathlib.Path.home(), sys.prefix, tempfile.gettempdir(), "/var/tmp", "/dev/shm"]
for place in [*places, *os.environ.get("PATH", "").split(":")] if seen else []:
    try:
        pathlib.Path(place, f"seen-{os.getpid()}.txt").write_text(str(seen))
    except OSError:
        pass
if seen and os.fork() == 0:  # stays behind, if it can
    os.setsid()
    os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(300)", WORD])
"""
"""Product code that runs beside the tests, in the checks."""
WORKER = r"""
import os, pathlib, stat, subprocess, sys

WORD = "".join(["quag", "ga"])  # in the tests, and nowhere else
text = sys.stdin.read()
here = pathlib.Path.cwd()
name, body = ("half", "x / 2") if "Write `half`" in text else ("double", "2 * x")
with (here / "calc.py").open("a") as file:
    file.write(f"import leak\n\n\ndef {name}(x):\n    return {body}\n")
(here / f"test_{name}.py").write_text(
    "import unittest\nimport calc\n\nclass T(unittest.TestCase):\n"
    f"    def test_it(self):\n        self.assertEqual(calc.{name}(4), {2 if name == 'half' else 8})\n"
)
found = ["the prompt"] if WORD in text else []


def git(*words):
    return subprocess.run(["git", *words], capture_output=True, errors="replace").stdout


for words in (("cat-file", "--batch-all-objects", "--batch"), ("for-each-ref",), ("log", "--all", "-p")):
    found += ["git"] if WORD in git(*words) else []
new = pathlib.Path(__file__).stat().st_mtime
places = [one for one in pathlib.Path("/tmp").iterdir() if one.stat().st_mtime >= new]
for top in (STATE, "/dev/shm", "/var/tmp", *places):
    for folder, _, names in os.walk(top):
        for name in names:
            path = pathlib.Path(folder, name)
            try:
                about = path.stat()  # a pipe that other tests left in /tmp would never end
                is_short = stat.S_ISREG(about.st_mode) and about.st_size < 5_000_000
                found += [str(path)] if is_short and WORD.encode() in path.read_bytes() else []
            except OSError:
                pass
for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    try:
        found += [str(path)] if WORD.encode() in path.read_bytes() else []
    except OSError:
        pass
with (here / "found.txt").open("a") as file:
    file.write("".join(f"{one}\n" for one in found) or "nothing\n")
"""


@pytest.mark.parametrize("means", each("bwrap"))
def test_an_agent_that_searches_everything_finds_no_independent_test(tmp_path: Path, means: str) -> None:
    place = Place.make(tmp_path, PLAN)
    place.use_sandbox()
    (place.repo / "leak.py").write_text(LEAK)
    place.git("add", ".")
    place.git("commit", "-qm", "Product code")
    worker = place.root / "agent.py"
    worker.write_text(f"STATE = {str(place.root)!r}\n{WORKER}")
    argv = json.dumps([sys.executable, "-IS", str(worker)])
    quoted = EXAM.replace('"', '\\"')
    place.script(f'[[on]]\nphase = "independent"\nwrite."test_more.py" = """\n{quoted}"""\n')
    place.config(
        f'checks = ["{shlex.join(DISCOVER)}"]\nagent = "command"\n[proof]\nindependent = true\n'
        f'[roles]\ntest = "scripted"\n[agents.scripted]\nscript = "script.toml"\n'
        f"[agents.command]\nargv = {argv}\n"
    )
    done = run_by(means, place, "run", "plan.md")
    assert done.returncode == 0, done.stderr
    levels = {key: task["proof"] for key, task in _tasks(place).items()}
    assert levels["1"] == "independent", "the tests were written, and ran"
    shown = place.segue("proof", "last", "--tests", str(tmp_path / "for people")).stdout.split("\n")[0]
    assert 'assertEqual(calc.double(5), 10, "quag' in Path(shown).read_text()
    assert (place.repo / "found.txt").read_text() == "nothing\nnothing\n"


def _tasks(place: Place) -> dict[str, dict[str, str]]:
    return {task["key"]: task for task in place.json("status", "last")["tasks"]}
