"""Every command that people use as a check reports its tests where its runner can, else by its exit code."""

# ruff: noqa: E501 - small programs, a file each in one line
from __future__ import annotations

import asyncio
import shlex
import subprocess
import textwrap
from pathlib import Path

import pytest
from msgspec import Struct

from segue.domain.proof import BaseState, CheckState
from segue.proof.execute import SealOptions
from segue.proof.obstacles import NEEDS_NETWORK
from tests.proof.packages import node_modules
from tests.proof.projects import Checkout, Files, needs_sandbox
from tests.proof.tools import js_on_path, on_path, program

pytestmark = [needs_sandbox, pytest.mark.thorough]

SHOP = {"shop.py": "def total(prices):\n    return sum(prices)\n"}
MEAN = {"shop.py": f"{SHOP['shop.py']}\n\ndef mean(prices):\n    return sum(prices) / len(prices)\n"}
TOTAL_TEST = "from shop import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n"
MEAN_TEST = "from shop import mean\n\n\ndef test_mean():\n    assert mean([1, 3]) == 2\n"
PYTHON: Files = {**SHOP, "tests/test_shop.py": TOTAL_TEST, "conftest.py": ""}
PYTHON_DONE: Files = {**MEAN, "tests/test_mean.py": MEAN_TEST}
PROVED = "tests/test_mean.py::test_mean"


def text(lines: str) -> str:
    return textwrap.dedent(lines).lstrip()


class Command(Struct, frozen=True):
    """A check, a project that uses it, and honest work with a new test."""

    argv: str
    base: Files
    change: Files
    proved: str = PROVED
    runner: str = "pytest"
    needs: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    """Commands that the user has run in the work tree."""
    ignored: str = ""
    network: bool = False
    makes: bool = False
    """Whether it makes an environment for itself, before the run."""


PYPROJECT = text("""
    [project]
    name = "shop"
    version = "1.0"
    requires-python = ">=3.11"
    [build-system]
    requires = ["setuptools"]
    build-backend = "setuptools.build_meta"
    [tool.setuptools]
    py-modules = ["shop"]
    [dependency-groups]
    dev = ["pytest"]
    """)
POETRY = text("""
    [tool.poetry]
    name = "shop"
    version = "1.0"
    description = ""
    authors = []
    package-mode = false
    [tool.poetry.dependencies]
    python = ">=3.11"
    [tool.poetry.group.dev.dependencies]
    pytest = "*"
    """)
NODE_TEST = "const test = require('node:test');\nconst assert = require('node:assert');\n"
JS_TOTAL = "exports.total = (p) => p.reduce((a, b) => a + b, 0);\n"
JS_MEAN = f"{JS_TOTAL}exports.mean = (p) => exports.total(p) / p.length;\n"
JS_OLD = f"{NODE_TEST}const {{ total }} = require('../shop');\ntest('total', () => assert.equal(total([1, 2]), 3));\n"
JS_NEW = (
    f"{NODE_TEST}const shop = require('../shop');\ntest('mean', () => assert.equal(shop.mean([1, 3]), 2));\n"
)
NODE: Files = {"shop.js": JS_TOTAL, "test/shop.test.js": JS_OLD}
NODE_DONE: Files = {"shop.js": JS_MEAN, "test/mean.test.js": JS_NEW}
NODE_PROVED = "test/mean.test.js::mean"
SCRIPTS = '{"name": "shop", "version": "1.0.0", "scripts": {"test": "node --test"}}\n'
PACKAGED: Files = {**NODE, "package.json": SCRIPTS}
BUN = "const { test } = require('bun:test');\n"
BARE = JS_OLD.replace(NODE_TEST, "const assert = require('node:assert');\n")
BARE_NEW = JS_NEW.replace(NODE_TEST, "const assert = require('node:assert');\n")
GO: Files = {
    "go.mod": "module shop\n\ngo 1.19\n",
    "shop.go": "package shop\n\nfunc Total(a, b int) int { return a + b }\n",
    "shop_test.go": 'package shop\n\nimport "testing"\n\nfunc TestTotal(t *testing.T) {\n\tif Total(1, 2) != 3 {\n\t\tt.Fatal("wrong")\n\t}\n}\n',
}
GO_DONE: Files = {
    "shop.go": "package shop\n\nfunc Total(a, b int) int { return a + b }\n\nfunc Mean(a, b int) int { return Total(a, b) / 2 }\n",
    "mean_test.go": 'package shop\n\nimport "testing"\n\nfunc TestMean(t *testing.T) {\n\tif Mean(1, 3) != 2 {\n\t\tt.Fatal("wrong")\n\t}\n}\n',
}
NOXFILE = text("""
    import nox

    @nox.session(venv_backend="none")
    def tests(session):
        session.run("pytest", "-q", external=True)
    """)
NOX_OWN = text("""
    import nox

    @nox.session
    def tests(session):
        session.install("pytest")
        session.run("pytest", "-q")
    """)
TOX = "[tox]\nskipsdist = true\n[testenv]\ndeps = pytest\ncommands = pytest -q tests\n"
TOX_PACKAGE = "[testenv]\ndeps = pytest\ncommands = pytest -q tests\n"
SETUP_C = "from setuptools import Extension, setup\n\nsetup(name='shop', ext_modules=[Extension('fast', ['fast.c'])])\n"


def fast(body: str) -> str:
    return text(
        f"""
        #include <Python.h>
        static PyObject *total(PyObject *s, PyObject *a) {{
            long x, y;
            if (!PyArg_ParseTuple(a, "ll", &x, &y)) return NULL;
            return PyLong_FromLong(x + y);
        }}
        {body}
        static PyMethodDef methods[] = {{{{"total", total, METH_VARARGS, ""}}, MORE {{NULL}}}};
        static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "fast", "", -1, methods}};
        PyMODINIT_FUNC PyInit_fast(void) {{ return PyModule_Create(&module); }}
        """
    )


FAST = fast("#define MORE")
FASTER = fast(
    "static PyObject *mean(PyObject *s, PyObject *a) { long x, y;"
    ' if (!PyArg_ParseTuple(a, "ll", &x, &y)) return NULL; return PyLong_FromLong((x + y) / 2); }\n'
    '#define MORE {"mean", mean, METH_VARARGS, ""},'
)
C_TEST = "import fast\n\n\ndef test_total():\n    assert fast.total(1, 2) == 3\n"
C_MEAN = "import fast\n\n\ndef test_mean():\n    assert fast.mean(1, 3) == 2\n"
FEATURE = "Feature: Shop\n  Scenario: total\n    When I add 1 and 2\n    Then I get 3\n"
FEATURE_MEAN = "Feature: Mean\n  Scenario: mean\n    When I average 1 and 3\n    Then I get 2\n"
STEPS = text("""
    from behave import then, when
    import shop

    @when("I add {a:d} and {b:d}")
    def add(context, a, b):
        context.result = shop.total([a, b])

    @then("I get {n:d}")
    def get(context, n):
        assert context.result == n

    @when("I average {a:d} and {b:d}")
    def average(context, a, b):
        context.result = shop.mean([a, b])
    """)
DOCTEST = 'def total(p):\n    """Add.\n\n    >>> total([1, 2])\n    3\n    """\n    return sum(p)\n'
DOCTEST_MEAN = f'{DOCTEST}\n\ndef mean(p):\n    """Mean.\n\n    >>> mean([1, 3])\n    2.0\n    """\n    return sum(p) / len(p)\n'
GENERATED = text("""
    test:
    \tpython gen.py
    \tgit diff --exit-code
    \tpytest -q
    """)
GEN = "from pathlib import Path\nimport shop\n\nPath('API.md').write_text('\\n'.join(n for n in dir(shop) if n[0] != '_') + '\\n')\n"

POM = text("""
    <project xmlns="http://maven.apache.org/POM/4.0.0">
      <modelVersion>4.0.0</modelVersion>
      <groupId>shop</groupId><artifactId>shop</artifactId><version>1</version>
      <properties>
        <maven.compiler.release>17</maven.compiler.release>
        <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
      </properties>
      <dependencies><dependency>
        <groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId><version>5.11.3</version>
      </dependency></dependencies>
      <build><plugins>
        <plugin><artifactId>maven-resources-plugin</artifactId><version>3.3.1</version></plugin>
        <plugin><artifactId>maven-compiler-plugin</artifactId><version>3.13.0</version></plugin>
        <plugin><artifactId>maven-surefire-plugin</artifactId><version>3.2.5</version></plugin>
      </plugins></build>
    </project>
    """)
JUNIT_TEST = text("""
    package shop;

    import static org.junit.jupiter.api.Assertions.assertEquals;

    import org.junit.jupiter.api.Test;

    class NAMETest {
        @Test
        void works() {
            assertEquals(RESULT);
        }
    }
    """)
SHOP_JAVA, TESTS_JAVA = "src/main/java/shop/Shop.java", "src/test/java/shop"
JAVA: Files = {
    "pom.xml": POM,
    SHOP_JAVA: "package shop;\n\nclass Shop {\n    static int total(int a, int b) { return a + b; }\n}\n",
    f"{TESTS_JAVA}/TotalTest.java": JUNIT_TEST.replace("NAME", "Total").replace(
        "RESULT", "3, Shop.total(1, 2)"
    ),
}
JAVA_DONE: Files = {
    SHOP_JAVA: "package shop;\n\nclass Shop {\n    static int total(int a, int b) { return a + b; }\n\n    static int mean(int a, int b) { return total(a, b) / 2; }\n}\n",
    f"{TESTS_JAVA}/MeanTest.java": JUNIT_TEST.replace("NAME", "Mean").replace("RESULT", "2, Shop.mean(1, 3)"),
}
CASES: dict[str, Command] = {
    "pytest": Command("pytest -q", PYTHON, PYTHON_DONE),
    "xdist": Command("pytest -q -n 2 -p no:randomly", PYTHON, PYTHON_DONE),
    "randomly": Command("pytest -q -p randomly", PYTHON, PYTHON_DONE),
    "cov": Command("pytest -q --cov=shop --cov-fail-under=50", PYTHON, PYTHON_DONE),
    "asyncio": Command(
        "pytest -q",
        PYTHON,
        {
            **MEAN,
            "tests/test_mean.py": "import pytest\nfrom shop import mean\n\n\n@pytest.mark.asyncio\nasync def test_mean():\n    assert mean([1, 3]) == 2\n",
        },
    ),
    "subfolder": Command(
        "pytest -q packages/a",
        {f"packages/a/{path}": body for path, body in PYTHON.items()}
        | {"packages/b/test_x.py": "def test_x():\n    pass\n"},
        {f"packages/a/{path}": body for path, body in PYTHON_DONE.items()},
        f"packages/a/{PROVED}",
    ),
    "two pytests": Command(
        "sh -c 'pytest -q packages/b && pytest -q packages/a'",
        {f"packages/a/{path}": body for path, body in PYTHON.items()}
        | {"packages/b/test_x.py": "def test_x():\n    pass\n"},
        {f"packages/a/{path}": body for path, body in PYTHON_DONE.items()},
        f"packages/a/{PROVED}",
    ),
    "make": Command("make test", {**PYTHON, "Makefile": "test:\n\tpytest -q\n"}, PYTHON_DONE),
    "make -C": Command(
        "make -C sub test",
        {f"sub/{path}": body for path, body in PYTHON.items()} | {"sub/Makefile": "test:\n\tpytest -q\n"},
        {f"sub/{path}": body for path, body in PYTHON_DONE.items()},
        f"sub/{PROVED}",
    ),
    "just": Command("just test", {**PYTHON, "justfile": "test:\n    pytest -q\n"}, PYTHON_DONE),
    "nox": Command("nox", {**PYTHON, "noxfile.py": NOXFILE}, PYTHON_DONE),
    "nox with its own environment": Command(
        "nox -r", {**PYTHON, "noxfile.py": NOX_OWN}, PYTHON_DONE, makes=True
    ),
    "tox": Command("tox -q", {**PYTHON, "tox.ini": TOX}, PYTHON_DONE, makes=True),
    "tox made before": Command(
        "tox -q", {**PYTHON, "tox.ini": TOX}, PYTHON_DONE, before=("tox -q",), ignored=".tox\n", makes=True
    ),
    "uv run": Command(
        "uv run pytest -q",
        {**PYTHON, "pyproject.toml": PYPROJECT},
        PYTHON_DONE,
        before=("uv sync -q",),
        ignored=".venv\n*.egg-info\nuv.lock\n",
    ),
    "poetry run": Command(
        "poetry run pytest -q",
        {**PYTHON, "pyproject.toml": POETRY},
        PYTHON_DONE,
        before=("poetry env use -q python", "poetry run pip install -q pytest"),
    ),
    "hatch": Command(
        "hatch run pytest -q tests",
        {
            **PYTHON,
            "pyproject.toml": PYPROJECT.replace("setuptools.build_meta", "hatchling.build")
            .replace('"setuptools"', '"hatchling"')
            .replace(
                '[tool.setuptools]\npy-modules = ["shop"]',
                '[tool.hatch.build]\ninclude=["shop.py"]\n[tool.hatch.envs.default]\ndependencies = ["pytest"]',
            ),
        },
        PYTHON_DONE,
        before=("hatch env create",),
    ),
    "pdm": Command(
        "pdm run pytest -q",
        {**PYTHON, "pyproject.toml": PYPROJECT},
        PYTHON_DONE,
        before=("python -m venv .venv", ".venv/bin/pip install -q pytest"),
        ignored=".venv\n.pdm-python\npdm.lock\n*.egg-info\nbuild\n",
    ),
    "pipenv": Command(
        "pipenv run pytest -q",
        {**PYTHON, "Pipfile": '[packages]\n[dev-packages]\npytest = "*"\n'},
        PYTHON_DONE,
        before=("pipenv install --dev --skip-lock",),
    ),
    "npm": Command(
        "npm test", {**NODE, "package.json": SCRIPTS}, NODE_DONE, NODE_PROVED, "node:test", ("npm",)
    ),
    "npm -w": Command(
        "npm -w a test",
        {f"a/{path}": body for path, body in NODE.items()}
        | {
            "package.json": '{"name": "r", "workspaces": ["a"]}',
            "a/package.json": SCRIPTS.replace("shop", "a"),
        },
        {f"a/{path}": body for path, body in NODE_DONE.items()},
        f"a/{NODE_PROVED}",
        "node:test",
        ("npm",),
    ),
    "pnpm": Command("pnpm test", PACKAGED, NODE_DONE, NODE_PROVED, "node:test", ("node",)),
    "yarn": Command("yarn test", PACKAGED, NODE_DONE, NODE_PROVED, "node:test", ("node",)),
    "bun run": Command("bun run test", PACKAGED, NODE_DONE, NODE_PROVED, "node:test", ("node",)),
    "bun test": Command(
        "bun test",
        {**NODE, "test/shop.test.js": BUN + BARE},
        {**NODE_DONE, "test/mean.test.js": BUN + BARE_NEW},
        "bun test",
        "",
    ),
    "node --test": Command("node --test", NODE, NODE_DONE, NODE_PROVED, "node:test", ("node",)),
    "npx mocha": Command(
        "npx mocha test",
        {**NODE, "test/shop.test.js": BARE.replace("test(", "it("), "package.json": SCRIPTS},
        {**NODE_DONE, "test/mean.test.js": BARE_NEW.replace("test(", "it(")},
        NODE_PROVED,
        "mocha",
        ("npx", "node_modules"),
        ignored="node_modules\n",
    ),
    "jest": Command(
        "npx jest",
        {**NODE, "test/shop.test.js": BARE, "package.json": SCRIPTS},
        {**NODE_DONE, "test/mean.test.js": BARE_NEW},
        NODE_PROVED,
        "jest",
        ("npx", "node_modules"),
        ignored="node_modules\n",
    ),
    "go": Command("go test ./...", GO, GO_DONE, "mean_test.go::TestMean", "go test", ("go",)),
    "gotestsum": Command("gotestsum", GO, GO_DONE, "mean_test.go::TestMean", "go test", ("gotestsum",)),
    "behave": Command(
        "behave",
        {
            **SHOP,
            "features/shop.feature": FEATURE,
            "features/steps/steps.py": f"import sys\nsys.path.insert(0, '.')\n{STEPS}",
        },
        {**MEAN, "features/mean.feature": FEATURE_MEAN},
        "features/mean.feature::mean",
        "behave",
    ),
    "doctest": Command(
        "python -m doctest shop.py",
        {"shop.py": DOCTEST},
        {"shop.py": DOCTEST_MEAN},
        "shop.py::shop.mean",
        "doctest",
    ),
    "pytest doctests": Command(
        "pytest -q --doctest-modules",
        {"shop.py": DOCTEST},
        {"shop.py": DOCTEST_MEAN},
        "shop.py::shop.mean",
        "pytest",
    ),
    "C extension": Command(
        "sh -c 'python setup.py -q build_ext --inplace && pytest -q'",
        {"setup.py": SETUP_C, "fast.c": FAST, "tests/test_fast.py": C_TEST, "conftest.py": ""},
        {"fast.c": FASTER, "tests/test_mean.py": C_MEAN},
        needs=("gcc",),
        ignored="*.so\nbuild\n",
    ),
    "C extension built before": Command(
        "make test",
        {
            "setup.py": SETUP_C,
            "fast.c": FAST,
            "tests/test_fast.py": C_TEST,
            "conftest.py": "",
            "Makefile": "test:\n\tpython setup.py -q build_ext --inplace\n\tpytest -q\n",
        },
        {"fast.c": FASTER, "tests/test_mean.py": C_MEAN},
        needs=("gcc",),
        before=("make test",),
        ignored="*.so\nbuild\n",
    ),
    "generated file": Command(
        "make test",
        {**PYTHON, "Makefile": GENERATED, "gen.py": GEN, "API.md": "total\n"},
        {**PYTHON_DONE, "API.md": "mean\ntotal\n"},
    ),
    "git diff": Command(
        "sh -c 'git diff --exit-code && git status --porcelain | wc -l | grep -qx 0 && pytest -q'",
        PYTHON,
        PYTHON_DONE,
    ),
    "bats": Command(
        "bats test",
        {
            "add.sh": "add() { echo $(($1 + $2)); }\n",
            "test/add.bats": 'load ../add.sh\n@test "adds" {\n  [ "$(add 1 2)" = 3 ]\n}\n',
        },
        {
            "add.sh": "add() { echo $(($1 + $2)); }\nsub() { echo $(($1 - $2)); }\n",
            "test/sub.bats": 'load ../add.sh\n@test "subtracts" {\n  [ "$(sub 3 2)" = 1 ]\n}\n',
        },
        "subtracts",
        "TAP",
        ("bats",),
    ),
    "rspec": Command(
        "rspec",
        {
            "shop.rb": "def total(p) = p.sum\n",
            "spec/shop_spec.rb": "require_relative '../shop'\nRSpec.describe 'shop' do\n  it('adds') { expect(total([1, 2])).to eq 3 }\nend\n",
        },
        {
            "shop.rb": "def total(p) = p.sum\ndef mean(p) = p.sum / p.size\n",
            "spec/mean_spec.rb": "require_relative '../shop'\nRSpec.describe 'mean' do\n  it('averages') { expect(mean([1, 3])).to eq 2 }\nend\n",
        },
        "spec/mean_spec.rb::mean averages",
        "rspec",
        ("rspec",),
    ),
    "phpunit": Command(
        "phpunit --log-junit build/junit.xml tests",
        {
            "shop.php": "<?php\nfunction total($p) { return array_sum($p); }\n",
            "tests/ShopTest.php": "<?php\nrequire_once __DIR__ . '/../shop.php';\nclass ShopTest extends PHPUnit\\Framework\\TestCase {\n  function testTotal() { $this->assertSame(3, total([1, 2])); }\n}\n",
        },
        {
            "shop.php": "<?php\nfunction total($p) { return array_sum($p); }\nfunction mean($p) { return total($p) / count($p); }\n",
            "tests/MeanTest.php": "<?php\nrequire_once __DIR__ . '/../shop.php';\nclass MeanTest extends PHPUnit\\Framework\\TestCase {\n  function testMean() { $this->assertSame(2, mean([1, 3])); }\n}\n",
        },
        "MeanTest::testMean",
        "JUnit",
        ("phpunit",),
        ignored="build\n.phpunit*\n",
    ),
    "maven": Command(
        "mvn -o -q test",
        JAVA,
        JAVA_DONE,
        "shop.MeanTest::works",
        "JUnit",
        ("mvn", "javac"),
        ignored="target\n",
    ),
    "ctest": Command(
        "sh -c 'cmake -S . -B out -DCMAKE_BUILD_TYPE=Debug >/dev/null && cmake --build out >/dev/null && ctest --test-dir out'",
        {
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.20)\nproject(shop C)\nenable_testing()\nfile(GLOB T tests/*.c)\nforeach(t ${T})\n  get_filename_component(n ${t} NAME_WE)\n  add_executable(${n} ${t} shop.c)\n  target_include_directories(${n} PRIVATE ${CMAKE_SOURCE_DIR})\n  add_test(NAME ${n} COMMAND ${n})\nendforeach()\n",
            "shop.h": "int total(int, int);\n",
            "shop.c": '#include "shop.h"\nint total(int a, int b) { return a + b; }\n',
            "tests/test_total.c": '#include "shop.h"\nint main(void) { return total(1, 2) != 3; }\n',
        },
        {
            "shop.h": "int total(int, int);\nint mean(int, int);\n",
            "shop.c": '#include "shop.h"\nint total(int a, int b) { return a + b; }\nint mean(int a, int b) { return total(a, b) / 2; }\n',
            "tests/test_mean.c": '#include "shop.h"\nint main(void) { return mean(1, 3) != 2; }\n',
        },
        "test_mean",
        "ctest",
        ("cmake", "cc"),
        ignored="out\n",
    ),
}


JS_LAUNCHED = ("pnpm", "yarn", "bun")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path(monkeypatch)


@pytest.mark.parametrize("name", CASES)
def test_a_command_reports_its_tests(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    if name.startswith(JS_LAUNCHED):
        js_on_path(monkeypatch)
    for tool in case.needs:
        node_modules() if tool == "node_modules" else program(tool)
    ignore = f"__pycache__\n.pytest_cache\n{case.ignored}"
    project = Checkout(
        tmp_path, {**case.base, ".gitignore": ignore}, SealOptions(timeout=300, network=case.network)
    )
    if "node_modules" in case.needs:
        (project.root / "node_modules").symlink_to(node_modules())
    for line in case.before:
        subprocess.run(shlex.split(line), cwd=project.root, check=True, capture_output=True, text=True)
    if case.makes:
        asyncio.run(project.sealer().survey(shlex.split(case.argv), project.base))
    result = project.check(case.change, shlex.split(case.argv))
    assert result.state is CheckState.PASSED, (result.reason, result.output[-1500:])
    assert (result.runner, result.proved) == (case.runner, (case.proved,)), result


def test_what_needs_the_network_each_time_is_refused_before_the_run(tmp_path: Path) -> None:
    base: Files = {**PYTHON, "tox.ini": TOX_PACKAGE, "pyproject.toml": PYPROJECT}
    project = Checkout(tmp_path, base, SealOptions(timeout=300))
    found = asyncio.run(project.sealer().survey(("tox", "-q"), project.base))
    assert found.state is BaseState.UNREADY
    assert NEEDS_NETWORK in found.reason
