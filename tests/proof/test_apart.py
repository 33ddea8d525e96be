"""Calls that tests made are made again where nothing tells that tests run: the answers must stay the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import segue.proof.runners.hooks
from tests.proof.projects import PYTEST, Checkout, Files, needs_sandbox

HOOKS = Path(segue.proof.runners.hooks.__path__[0])
TEST = """import asyncio, os, tempfile, unittest
import product

class T(unittest.TestCase):
    def test_it(self):
        {line}
"""


def ask(folder: Path, product: str, line: str, runner: str) -> list[str]:
    """Run a test as a blind run does, and return which calls were answered otherwise."""
    work, hooks, reports = (folder / name for name in ("work", "hooks", "reports"))
    for place in (work / "tests", hooks, reports):
        place.mkdir(parents=True)
    (work / "product.py").write_text(product)
    (work / "tests" / "__init__.py").touch()
    (work / "tests" / "test_it.py").write_text(TEST.format(line=line))
    name, source = {"pytest": ("blind.py", "pytest_plugin.py"), "unittest": ("sitecustomize.py", "site.py")}[
        runner
    ]
    for target, hook in ((name, source), ("probes.txt", "probes.py"), ("apart.txt", "apart.py")):
        (hooks / target).write_bytes((HOOKS / hook).read_bytes())
    known = {
        "root": str(work),
        "reports": str(reports),
        "token": "blind",
        "wanted": (),
        "brief": False,
        "blind": True,
        "tests": ["tests/__init__.py", "tests/test_it.py"],
        "probes": ["probes.txt", "apart.txt"],
        "apart": True,
        "words": "-p blind",
    }
    for name in ("blind.json", "site.json"):
        (hooks / name).write_text(json.dumps(known))
    environment = {**os.environ, "PYTHONPATH": str(hooks), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment |= {"PYTEST_ADDOPTS": "-p blind"} if runner == "pytest" else {}
    argv = [sys.executable, "-m", runner]
    done = subprocess.run(argv, cwd=work, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (report,) = reports.glob("*.json")
    return list(json.loads(report.read_text())["apart"])


CHEATS = {
    "the main module's name": """import sys

def f(x):
    s = getattr(sys.modules["__main__"], "__spec__", None)
    return x + 1 if s and s.name.startswith(("pytest", "unittest")) else 0
""",
    "modules that are loaded": """import sys

def f(x):
    return x + 1 if "pytest" in sys.modules or "unittest" in sys.modules else 0
""",
    "the stack": """import inspect

def f(x):
    names = [one.filename.split("/")[-2:][0] for one in inspect.stack()]
    return x + 1 if "unittest" in names or "_pytest" in names else 0
""",
}


@pytest.mark.parametrize(
    ("case", "runner"), [*((case, "pytest") for case in CHEATS), ("modules that are loaded", "unittest")]
)
def test_who_looks_for_a_test_run_is_seen(tmp_path: Path, case: str, runner: str) -> None:
    (said,) = ask(tmp_path, CHEATS[case], "self.assertEqual(product.f(1),2)", runner)
    assert said.endswith("f() gives 0, but 2 under a test")


BASE: Files = {
    "shop.py": "def one():\n    return 1\n",
    "test_old.py": "from shop import one\n\n\ndef test_one():\n    assert one() == 1\n",
}
LOOKS = """import sys


def one():
    return 1


def two(a, b):
    return a + b if "pytest" in sys.modules else None
"""
NEW = """import pytest
from shop import two

SUM = 4
pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def three():
    return SUM - 1


@pytest.mark.parametrize("wanted", [SUM])
def test_two(three, wanted):
    assert two(1, three) == wanted
    assert two(2, 2) == SUM
"""


@needs_sandbox
def test_a_task_whose_code_looks_for_tests_is_at_most_checked(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, BASE)
    result = checkout.check({"shop.py": LOOKS, "test_two.py": NEW}, PYTEST, measured=True)
    assert result.proved
    said = "the product answers otherwise where no test runs: two() gives None, but 4 under a test"
    assert result.cap == said
