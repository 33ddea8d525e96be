"""The environment that judges is made from what was there before the task, not by the task."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from segue.domain.proof import CheckResult, CheckState, Seal
from segue.proof.execute import SealOptions
from tests.proof.projects import Checkout, Files, find_unsettled, needs_sandbox

pytestmark = needs_sandbox

INSTALLER = """\
import json, os, pathlib, shutil, subprocess, sys

REGISTRY = {"helper 1": "def half(x):\\n    return x / 2\\n",
            "helper 2": "def half(x):\\n    return x / 2\\n\\n\\ndef third(x):\\n    return x / 3\\n",
            "extra 1": "def double(x):\\n    return 2 * x\\n"}
root = pathlib.Path.cwd()
site = root / (".venv/lib/python%d.%d/site-packages" % sys.version_info[:2])
site.mkdir(parents=True)
(root / ".venv/bin").mkdir()
(root / ".venv/pyvenv.cfg").write_text("home = %s\\n" % pathlib.Path(sys.base_prefix, "bin"))
(root / ".venv/bin/python").symlink_to(os.path.realpath(sys.executable))


def install(name, text, version="1", source=""):
    (site / (name + ".py")).write_text(text)
    info = site / ("%s-%s.dist-info" % (name, version))
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\\nName: %s\\nVersion: %s\\n" % (name, version))
    (info / "RECORD").write_text("%s.py,,\\n%s/RECORD,,\\n" % (name, info.name))
    if source:
        (info / "direct_url.json").write_text(json.dumps({"url": "file://" + source, "dir_info": {}}))


def run(folder):
    if (folder / "setup.py").exists():
        subprocess.run([sys.executable, "setup.py", str(site)], cwd=folder, check=True)


index = root / "pip.conf"
if index.exists():
    for place in pathlib.Path(index.read_text().strip()).iterdir():
        REGISTRY[place.name.replace("-", " ")] = place.read_text()
needed = root / "requirements.txt"
for line in needed.read_text().splitlines() if needed.exists() else ():
    if line.startswith(("./", "-e ./")):
        run(root / line.split()[-1])
    else:
        name, version = line.split("==")
        install(name, REGISTRY[name + " " + version], version)
if (root / "mode").exists() and (root / "mode").read_text() == "copy":
    install("calc", (root / "calc.py").read_text(), source=str(root))
elif (root / "mode").exists():
    (site / "calc.pth").write_text(str(root / "src") + "\\n")
run(root)
"""
TESTS = """import unittest

import calc


class Calc(unittest.TestCase):
    def test_one(self):
        self.assertEqual(calc.one(), 1)

    def test_add(self):
        self.assertEqual(calc.add(1, 2), 3)
"""
ONE = "def one():\n    return 1\n\n\n"
BASE: Files = {
    "calc.py": f"import helper\n\n\n{ONE}def add(a, b):\n    raise NotImplementedError\n",
    "tests/__init__.py": "",
    "tests/test_calc.py": TESTS,
    "requirements.txt": "helper==1\n",
    "setup.cfg": "[metadata]\nname = calc\n",
}
RIGHT = f"import helper\n\n\n{ONE}def add(a, b):\n    return a + b\n"
WRONG = f"import helper\n\n\n{ONE}def add(a, b):\n    return 42\n"
CHECK = (".venv/bin/python", "-m", "unittest", "discover", "-s", "tests", "-t", ".")
INSTALL = (sys.executable, "-c", INSTALLER)

FORGE = (
    "import sys, types\n"
    "calc = types.ModuleType('calc')\n"
    "calc.one, calc.add = (lambda: 1), (lambda a, b: a + b)\n"
    "sys.modules['calc'] = calc\n"
)
SITE = "import pathlib, sys\nsite = pathlib.Path(sys.argv[1])\n"
PTH = f"{SITE}(site / 'forge.py').write_text({FORGE!r})\n(site / 'x.pth').write_text('import forge\\n')\n"
CHEATS: dict[str, Files] = {
    "setup.py leaves a .pth": {"setup.py": PTH},
    "setup.py rewrites a dependency": {"setup.py": f"{SITE}(site / 'helper.py').write_text({FORGE!r})\n"},
    "requirements.txt names a folder": {"requirements.txt": "helper==1\n./evil\n", "evil/setup.py": PTH},
    "a version from another index": {
        "pip.conf": "index\n",
        "index/helper-9": FORGE,
        "requirements.txt": "helper==9\n",
    },
    "setup.py rewrites the tests": {
        "setup.py": "import pathlib\npathlib.Path('tests/test_calc.py').write_text('')\n"
    },
    "an installed copy of the product": {
        "setup.py": f"{SITE}(site / 'calc.py').write_text({FORGE!r})\n"
        "(site / 'x.pth').write_text('import calc\\n')\n"
    },
}
"""Each with a product that is wrong."""


def project(folder: Path, base: Files | None = None, *, install: tuple[str, ...] = INSTALL) -> Checkout:
    files = {path: text for path, text in {**BASE, **(base or {})}.items() if text is not None}
    return Checkout(folder, files, SealOptions(setup=(install,), timeout=300))


def builds(checkout: Checkout) -> int:
    """Return how often an environment was made."""
    return len(list((checkout.scratch / "setup").glob("*/*/installed.json")))


def counts(result: CheckResult) -> bool:
    """Return whether a result is evidence for work that is done."""
    return result.ok and result.seal is not Seal.NONE and not find_unsettled(result)


@pytest.mark.parametrize("name", CHEATS)
def test_what_a_task_builds_does_not_judge_it(tmp_path: Path, name: str) -> None:
    result = project(tmp_path).check({"calc.py": WRONG, **CHEATS[name]}, CHECK)
    assert not counts(result), result
    if result.ok:
        assert any("environment" in text for text in result.weaknesses), "it is named on the card"


SMALL: Files = {"calc.py": RIGHT}
HONEST: dict[str, tuple[Files, Files, int, Seal]] = {
    "nothing": ({}, SMALL, 1, Seal.SEALED),
    "a dependency that is needed": (
        {},
        {
            "calc.py": f"import extra\n{ONE}def add(a, b):\n    return a + extra.double(b) // 2\n",
            "requirements.txt": "helper==1\nextra==1\n",
        },
        2,
        Seal.WEAK,
    ),
    "another version that is needed": (
        {},
        {
            "calc.py": f"import helper\n{ONE}def add(a, b):\n    return a + int(helper.third(3 * b))\n",
            "requirements.txt": "helper==2\n",
        },
        2,
        Seal.WEAK,
    ),
    "a product that is installed as a copy": (
        {"mode": "copy", "tests/test_calc.py": "import sys\n\nsys.path.pop(0)\n" + TESTS},
        SMALL,
        2,
        Seal.SEALED,
    ),
    "a product that is installed as editable": (
        {"mode": "editable", "src/calc.py": str(BASE["calc.py"]), "calc.py": None},
        {"src/calc.py": RIGHT},
        1,
        Seal.SEALED,
    ),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_changes_pass(tmp_path: Path, name: str) -> None:
    base, change, built, seal = HONEST[name]
    checkout = project(tmp_path, base)
    result = checkout.check(change, CHECK)
    assert result.state is CheckState.PASSED, result
    assert result.seal is seal, result
    assert "tests.test_calc.Calc.test_add" in str(result.proved)
    assert builds(checkout) == built
    if seal is not Seal.SEALED:
        assert any("environment" in text for text in result.weaknesses)
    if built > 1:
        assert result.environment


def test_a_setup_that_the_task_broke_is_said(tmp_path: Path) -> None:
    result = project(tmp_path).check(
        {"calc.py": RIGHT, "setup.py": "raise SystemExit('no compiler')\n"}, CHECK
    )
    assert result.state is CheckState.BROKEN
    assert "no compiler" in result.output
