"""Several tasks at once in real projects: their dependencies are found, and each lane sees its own code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
NODE = {
    ".gitignore": "node_modules/\n",
    "plan.md": PLAN,
    "package.json": json.dumps(
        {
            "name": "app",
            "version": "1.0.0",
            "dependencies": {"dep": "file:dep"},
            "scripts": {"test": "node test.js"},
        }
    ),
    "dep/package.json": '{"name": "dep", "version": "1.0.0"}',
    "dep/index.js": "exports.n = 1\n",
    "test.js": """const fs = require("fs"), { n } = require("dep")
for (const name of fs.readdirSync("parts")) if (require("./parts/" + name) !== n) process.exit(1)
""",
    "parts/base.js": "module.exports = 1\n",
}
NODE_AGENT = """
const fs = require("fs"), { spawnSync } = require("child_process"), task = process.env.SEGUE_TASK
fs.writeFileSync(`parts/p${task}.js`, "module.exports = 1\\n")
const { status } = spawnSync("npm", ["test", "--silent"])
const { SEGUE_LANE, SEGUE_PORT } = process.env
fs.writeFileSync(`seen${task}`, [process.cwd(), SEGUE_LANE, SEGUE_PORT, status].join(" "))
"""


def run(
    place: Place, argv: list[str], check: list[str], *, isolation: str, more: str = ""
) -> dict[str, list[str]]:
    """Work on all tasks at once, and return what each agent has seen."""
    place.config(
        f'agent = "command"\njobs = 3\nchecks = [{json.dumps(check)}]\n{more}'
        f"[agents.command]\nargv = {json.dumps(argv)}\n"
    )
    place.use_sandbox()
    place.segue("run", "plan.md", "--isolation", isolation)
    branch = f"segue/{place.last_run()}"
    found = branch if branch in place.git("branch", "--format=%(refname:short)").split() else "main"
    return {task: place.git("show", f"{found}:seen{task}").split() for task in ("1", "2", "3")}


def check_seen(place: Place, seen: dict[str, list[str]], folder: str | None) -> None:
    assert [words[3] for words in seen.values()] == ["0"] * 3, "each agent's own tests passed"
    lanes = {words[1]: words[2] for words in seen.values()}
    assert len(set(lanes.values())) == len(lanes), "no two lanes have the same ports"
    if folder:
        assert {words[0] for words in seen.values()} == {folder}
    assert place.git("worktree", "list").count("\n") == 1, "the lanes are gone"


def test_a_python_package_with_an_editable_install(tmp_path: Path) -> None:
    place = Place.make(tmp_path, template=make_template(PYTHON))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=place.repo, check=True)
    (site,) = (place.repo / ".venv").glob("lib/python*/site-packages")
    (site / "__editable__.shop-1.pth").write_text(f"{place.repo / 'src'}\n")
    program = place.root / "agent.py"
    program.write_text(AGENT)
    argv = [sys.executable, "-IS", str(program)]
    seen = run(place, argv, [".venv/bin/python", "-m", "unittest"], isolation="bwrap")
    check_seen(place, seen, os.path.realpath(place.repo))


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
@pytest.mark.parametrize("isolation", ["bwrap", "none"])
def test_an_npm_project(tmp_path: Path, isolation: str) -> None:
    """With bubblewrap the user's dependencies are used; else each lane installs its own."""
    place = Place.make(tmp_path, template=make_template(NODE))
    install = ["npm", "install", "--install-links", "--no-audit", "--no-fund", "--offline"]
    subprocess.run(install, cwd=place.repo, env=place.env, check=True, capture_output=True)
    place.git("add", "--all")
    place.git("commit", "--quiet", "--message=Lock")
    program = place.root / "agent.js"
    program.write_text(NODE_AGENT)
    setup = f"lane_setup = [{json.dumps(install)}]\n" if isolation == "none" else ""
    node = shutil.which("node")
    assert node
    seen = run(place, [node, str(program)], ["npm", "test"], isolation=isolation, more=setup)
    check_seen(place, seen, os.path.realpath(place.repo) if isolation == "bwrap" else None)
