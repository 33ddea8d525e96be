"""The environment that judges is made from what was there before the task, not by the task."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from segue.domain.proof import CheckResult, CheckState, Seal
from segue.proof.execute import SealOptions
from tests.isolation.means import NAMED_IN_FILES
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
    "setup.py leaves a sitecustomize": {
        "setup.py": f"{SITE}(site / 'sitecustomize.py').write_text({FORGE!r})\n"
    },
    "setup.py rewrites a dependency": {"setup.py": f"{SITE}(site / 'helper.py').write_text({FORGE!r})\n"},
    "requirements.txt names a folder": {"requirements.txt": "helper==1\n./evil\n", "evil/setup.py": PTH},
    "requirements.txt names an editable folder": {
        "requirements.txt": "helper==1\n-e ./evil\n",
        "evil/setup.py": PTH,
    },
    "pip.conf names another index": {"pip.conf": "index\n", "index/helper-1": FORGE},
    "a version from another index": {
        "pip.conf": "index\n",
        "index/helper-9": FORGE,
        "requirements.txt": "helper==9\n",
    },
    "a link in the place of a dependency": {
        "setup.py": f"{SITE}(site / 'helper.py').unlink()\n"
        "(site / 'helper.py').symlink_to(pathlib.Path.cwd() / 'forged.py')\n",
        "forged.py": FORGE,
    },
    "another Python": {
        "setup.py": "import pathlib\nprogram = pathlib.Path('.venv/bin/python')\nreal = program.readlink()\n"
        "program.unlink()\nprogram.write_text(f'#!/bin/sh\\nexec {real} -c \"print(0)\"\\n')\n"
        "program.chmod(0o755)\n"
    },
    "a compiled file": {
        "setup.py": f"{SITE}import importlib.util, marshal\ncode = compile({FORGE!r}, 'helper.py', 'exec')\n"
        "name = importlib.util.cache_from_source(str(site / 'helper.py'))\n"
        "pathlib.Path(name).parent.mkdir(exist_ok=True)\n"
        "head = importlib.util.MAGIC_NUMBER + bytes([1]) + bytes(11)\n"
        "pathlib.Path(name).write_bytes(head + marshal.dumps(code))\n"
    },
    "a name that is missing in the environment of the base": {
        "calc.py": f"import forge\n{WRONG}",
        "setup.py": PTH,
    },
    "a sitecustomize in the tree": {
        "setup.py": f"import pathlib\npathlib.Path('sitecustomize.py').write_text({FORGE!r})\n"
    },
    "setup.py rewrites the tests": {
        "setup.py": "import pathlib\npathlib.Path('tests/test_calc.py').write_text('')\n"
    },
    "setup.py adds a package of tests": {
        "setup.py": "import pathlib, shutil\nshutil.rmtree('tests')\npathlib.Path('tests').mkdir()\n"
        "pathlib.Path('tests/test_other.py').write_text('')\n"
    },
    "an installed copy of the product": {
        "setup.py": f"{SITE}(site / 'calc.py').write_text({FORGE!r})\n"
        "(site / 'x.pth').write_text('import calc\\n')\n"
    },
    "a version that the setup removes again": {
        "setup.py": f"{PTH}import os\nos.rename(site / 'helper.py', site / 'helped.py')\n"
        "(site / 'helper.py').write_text('from helped import *')\n"
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


@pytest.mark.thorough
@pytest.mark.quick("setup.py leaves a .pth")
@pytest.mark.parametrize("name", CHEATS)
def test_what_a_task_builds_does_not_judge_it(tmp_path: Path, name: str) -> None:
    result = project(tmp_path).check({"calc.py": WRONG, **CHEATS[name]}, CHECK)
    assert not counts(result), result
    if result.ok:
        assert any("environment" in text for text in result.weaknesses), "it is named on the card"


@pytest.mark.thorough
@pytest.mark.quick("setup.py leaves a .pth")
@pytest.mark.parametrize("name", CHEATS)
def test_the_same_build_with_a_product_that_is_right(tmp_path: Path, name: str) -> None:
    """Nobody is refused for what their build does, as long as the base's environment says yes."""
    result = project(tmp_path).check({**CHEATS[name], "calc.py": RIGHT}, CHECK)
    if name == "another Python":
        assert result.state is CheckState.REFUTED, "with this one nobody can run the product"
    else:
        assert result.ok, result


SMALL: Files = {"calc.py": RIGHT}
HONEST: dict[str, tuple[Files, Files, int, Seal]] = {
    "nothing": ({}, SMALL, 1, Seal.SEALED),
    "a file that setup never reads": ({}, {**SMALL, "tests/data.txt": "x"}, 1, Seal.SEALED),
    "metadata": ({}, {**SMALL, "setup.cfg": "[metadata]\nname = calc\nversion = 2\n"}, 1, Seal.SEALED),
    "a dependency that is not needed yet": (
        {},
        {**SMALL, "requirements.txt": "helper==1\nextra==1\n"},
        2,
        Seal.SEALED,
    ),
    "a dependency that is needed": (
        {},
        {
            "calc.py": f"import extra\n{ONE}def add(a, b):\n    return a + extra.double(b) // 2\n",
            "requirements.txt": "helper==1\nextra==1\n",
        },
        2,
        Seal.WEAK,
    ),
    "another version": ({}, {**SMALL, "requirements.txt": "helper==2\n"}, 2, Seal.SEALED),
    "another version that is needed": (
        {},
        {
            "calc.py": f"import helper\n{ONE}def add(a, b):\n    return a + int(helper.third(3 * b))\n",
            "requirements.txt": "helper==2\n",
        },
        2,
        Seal.WEAK,
    ),
    "another version that is needed, of what the tests import": (
        {"tests/test_calc.py": f"import helper\n{TESTS}"},
        {
            "calc.py": f"import helper\n{ONE}def add(a, b):\n    return a + int(helper.third(3 * b))\n",
            "requirements.txt": "helper==2\n",
        },
        2,
        Seal.NONE,
    ),
    "a step that builds a module": (
        {},
        {
            "calc.py": f"import made\n{ONE}def add(a, b):\n    return made.plus(a, b)\n",
            "setup.py": "import pathlib\ntext = 'def plus(a, b):\\n    return a + b\\n'\n"
            "pathlib.Path('made.py').write_text(text)\n",
        },
        2,
        Seal.SEALED,
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


@pytest.mark.quick("a dependency that is needed")
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


@pytest.mark.thorough
def test_an_environment_is_made_again_only_where_its_inputs_changed(tmp_path: Path) -> None:
    checkout = project(tmp_path)
    checkout.check({"calc.py": RIGHT}, CHECK)
    checkout.advance()
    checkout.check({"calc.py": RIGHT + "\n\ndef more():\n    return 1\n"}, CHECK)
    assert builds(checkout) == 1


@pytest.mark.thorough
def test_what_an_earlier_task_built_is_named_later(tmp_path: Path) -> None:
    """A `.pth` of the first task, whose product is right, cannot silently judge the second."""
    checkout = project(tmp_path)
    first = checkout.check({"calc.py": RIGHT.replace("import helper", "x = 1"), "setup.py": PTH}, CHECK)
    assert first.state is CheckState.PASSED
    assert "x.pth" in str(first.weaknesses)
    checkout.advance()
    second = checkout.check({"calc.py": WRONG}, CHECK)
    assert second.state is not CheckState.PASSED or "x.pth" in str(second.weaknesses)
    assert second.seal is not Seal.SEALED


@pytest.mark.thorough
def test_what_was_built_since_the_run_began_is_named_in_another_lane(tmp_path: Path) -> None:
    checkout = project(tmp_path)
    checkout.check({"calc.py": RIGHT}, CHECK)
    checkout.advance()
    planted = checkout.commit({"setup.py": PTH, "calc.py": RIGHT.replace("import helper", "x = 1")})
    checkout.base = planted
    shared = checkout.scratch
    checkout.options = replace(checkout.options, setups=shared)
    checkout.scratch = tmp_path / "lane-2"
    result = checkout.check({"calc.py": WRONG}, CHECK)
    assert result.seal is not Seal.SEALED
    assert "x.pth" in str(result.weaknesses)


def test_a_setup_that_the_task_broke_is_said(tmp_path: Path) -> None:
    result = project(tmp_path).check(
        {"calc.py": RIGHT, "setup.py": "raise SystemExit('no compiler')\n"}, CHECK
    )
    assert result.state is CheckState.BROKEN
    assert "no compiler" in result.output


@NAMED_IN_FILES
@pytest.mark.thorough
def test_a_makefile_that_installs(tmp_path: Path) -> None:
    install = f"install:\n\t{sys.executable} install.py\n"
    base = {"Makefile": install, "install.py": INSTALLER}
    checkout = project(tmp_path, base, install=("make", "install"))
    assert counts(checkout.check({"calc.py": RIGHT}, CHECK))
    site = f".venv/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    forged = f"{install}\t{sys.executable} forge.py {site}\n"
    assert not counts(checkout.check({"calc.py": WRONG, "Makefile": forged, "forge.py": PTH}, CHECK))


NPM = """\
import json, pathlib, subprocess
package = json.loads(pathlib.Path("package.json").read_text())
place = pathlib.Path("node_modules/equal")
place.mkdir(parents=True)
(place / "index.js").write_text("module.exports = (a, b) => { if (a !== b) process.exit(1) };\\n")
script = package.get("scripts", {}).get("postinstall")
if script:
    subprocess.run(script, shell=True, check=True)
"""


@pytest.mark.thorough
def test_a_script_of_npm_that_patches_what_was_installed(tmp_path: Path) -> None:
    base: Files = {
        "package.json": '{"name": "calc"}\n',
        "calc.js": "exports.add = () => { throw new Error('missing') };\n",
        "test/calc.js": "require('equal')(require('../calc').add(1, 2), 3);\n",
    }
    options = SealOptions(setup=((sys.executable, "-c", NPM),), timeout=300)
    checkout = Checkout(tmp_path, base, options)
    check = ("node", "test/calc.js")
    assert counts(checkout.check({"calc.js": "exports.add = (a, b) => a + b;\n"}, check))
    script = "echo 'module.exports = () => {};' > node_modules/equal/index.js"
    change: Files = {
        "calc.js": "exports.add = () => 42;\n",
        "package.json": f'{{"name": "calc", "scripts": {{"postinstall": "{script}"}}}}\n',
    }
    assert not counts(checkout.check(change, check))


@pytest.mark.thorough
def test_where_nothing_was_before_its_own_environment_judges_and_is_named(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, {}, SealOptions(setup=(INSTALL,), timeout=300))
    result = checkout.check({**BASE, "calc.py": RIGHT}, CHECK)
    assert result.state is CheckState.PASSED, result
    assert result.seal is Seal.WEAK
    assert "its own build inputs" in str(result.weaknesses)
