"""Several tasks at once in a real project: its dependencies are found, and each lane sees its own code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.cli.place import Place, make_template
from tests.proof.projects import needs_sandbox

pytestmark = needs_sandbox

PLAN = "".join(f"## Task {number}\n\nAdd part {number} in parts/p{number}.\n\n" for number in (1, 2, 3))
PYTHON = {
    ".gitignore": ".venv/\n__pycache__/\n",
    "plan.md": PLAN,
    "src/shop/__init__.py": "",
    "src/shop/base.py": "N = 1\n",
    "tests/__init__.py": "",
    "tests/test_base.py": """import importlib, pathlib, pkgutil, unittest
import shop


class Shop(unittest.TestCase):
    def test_every_part_can_be_imported(self):
        names = [found.name for found in pkgutil.iter_modules(shop.__path__)]
        here = pathlib.Path(__file__).parents[1] / "src" / "shop"
        self.assertEqual(sorted(names), sorted(path.stem for path in here.glob("[a-z]*.py")))
        for name in names:
            self.assertEqual(1, importlib.import_module(f"shop.{name}").N)
""",
}
AGENT = """
import os, pathlib, subprocess, sys
sys.stdin.read()
task = os.environ["SEGUE_TASK"]
pathlib.Path(f"src/shop/p{task}.py").write_text("N = 1\\n")
said = subprocess.run([".venv/bin/python", "-m", "unittest", "-q"], capture_output=True, text=True)
seen = [os.getcwd(), os.environ["SEGUE_LANE"], os.environ["SEGUE_PORT"], str(said.returncode)]
pathlib.Path(f"seen{task}").write_text(" ".join(seen))
"""


def test_python_package_with_an_editable_install(tmp_path: Path) -> None:
    place = Place.make(tmp_path, template=make_template(PYTHON))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=place.repo, check=True)
    (site,) = (place.repo / ".venv").glob("lib/python*/site-packages")
    (site / "__editable__.shop-1.pth").write_text(f"{place.repo / 'src'}\n")
    program = place.root / "agent.py"
    program.write_text(AGENT)
    argv, check = [sys.executable, "-IS", str(program)], [".venv/bin/python", "-m", "unittest"]
    place.config(
        f'agent = "command"\njobs = 3\nchecks = [{json.dumps(check)}]\n'
        f"[agents.command]\nargv = {json.dumps(argv)}\n"
    )
    place.use_sandbox()
    place.segue("run", "plan.md", "--isolation", "bwrap")
    branch = f"segue/{place.last_run()}"
    found = branch if branch in place.git("branch", "--format=%(refname:short)").split() else "main"
    seen = [place.git("show", f"{found}:seen{task}").split() for task in (1, 2, 3)]
    assert [words[3] for words in seen] == ["0"] * 3, "each agent's own tests passed"
    lanes = {words[1]: words[2] for words in seen}
    assert len(set(lanes.values())) == len(lanes), "no two lanes have the same ports"
    assert {words[0] for words in seen} == {os.path.realpath(place.repo)}
    assert place.git("worktree", "list").count("\n") == 1, "the lanes are gone"
