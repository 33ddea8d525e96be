"""Sealed checks by jest, vitest and mocha: honest work is proved, tricks are refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from segue.domain.proof import CheckState, Seal
from tests.proof.packages import node_modules
from tests.proof.projects import Checkout, Files, is_refused, needs_sandbox

pytestmark = needs_sandbox

JEST = """const calc = require("../calc.js");

describe("calc", () => {
  test("one", () => expect(calc.one()).toBe(1));
  test("add", () => expect(calc.add(1, 2)).toBe(3));
});
"""
VITEST = """import { describe, expect, test } from "vitest";
import * as calc from "../calc";

describe("calc", () => {
  test("one", () => expect(calc.one()).toBe(1));
  test("add", () => expect(calc.add(1, 2)).toBe(3));
});
"""
MOCHA = """const assert = require("assert");
const calc = require("../calc.js");

describe("calc", () => {
  it("one", () => assert.equal(calc.one(), 1));
  it("add", () => assert.equal(calc.add(1, 2), 3));
});
"""
WRONG = "exports.one = () => 42;\nexports.add = () => 42;\n"
WRONG_TS = "export const one = () => 42;\nexport const add = (a: number, b: number) => 42;\n"


def _package(script: str) -> str:
    return f'{{"name": "calc", "scripts": {{"test": "{script}"}}}}\n'


PROJECTS: dict[str, tuple[Files, Files]] = {
    "jest": (
        {
            "calc.js": "exports.one = () => 1;\n",
            "test/calc.test.js": JEST,
            "package.json": _package("jest --bail"),
            "jest.config.js": "module.exports = { testEnvironment: 'node', transform: {} };\n",
        },
        {"calc.js": "exports.one = () => 1;\nexports.add = (a, b) => a + b;\n"},
    ),
    "vitest": (
        {
            "calc.ts": "export const one = () => 1;\n",
            "test/calc.test.ts": VITEST,
            "package.json": _package("vitest run"),
            "vitest.config.ts": "export default { test: { dir: 'test' } };\n",
        },
        {"calc.ts": "export const one = () => 1;\nexport const add = (a: number, b: number) => a + b;\n"},
    ),
    "mocha": (
        {
            "calc.js": "exports.one = () => 1;\n",
            "test/calc.test.js": MOCHA,
            "package.json": _package("mocha --reporter dot"),
        },
        {"calc.js": "exports.one = () => 1;\nexports.add = (a, b) => a + b;\n"},
    ),
}

DIRECT = {
    "jest": ("node_modules/.bin/jest", "--bail"),
    "vitest": ("node_modules/.bin/vitest", "run"),
    "mocha": ("node_modules/.bin/mocha", "--reporter", "dot"),
}
"""What `npm test` runs; npm takes as long to start as they do."""

CHEATS: dict[str, Files] = {
    "jest: nothing else": {"calc.js": WRONG},
    "jest: an exit while the module is loaded": {"calc.js": f"process.exit(0);\n{WRONG}"},
    "jest: a patched matcher": {"calc.js": f"expect.extend({{ toBe: () => ({{ pass: true }}) }});\n{WRONG}"},
    "jest: other settings": {
        "calc.js": WRONG,
        "jest.config.js": "module.exports = { setupFiles: ['<rootDir>/setup.js'] };\n",
        "setup.js": "process.exit(0);\n",
    },
    "jest: a mock of the module under test": {
        "calc.js": WRONG,
        "test/aaa.test.js": "jest.mock('../calc.js', () => ({ one: () => 1, add: () => 3 }));\n" + JEST,
    },
    "vitest: nothing else": {"calc.ts": WRONG_TS},
    "vitest: a patched matcher": {
        "calc.ts": "import { expect } from 'vitest';\n"
        f"expect.extend({{ toBe: () => ({{ pass: true, message: () => '' }}) }});\n{WRONG_TS}"
    },
    "mocha: a patched assertion": {"calc.js": f"require('assert').equal = () => {{}};\n{WRONG}"},
    "mocha: a patched runner": {
        "calc.js": "const { Runner } = require('mocha');\n"
        f"Runner.prototype.fail = function (test) {{ this.emit('pass', test); }};\n{WRONG}"
    },
}


def make(folder: Path, runner: str) -> Checkout:
    """Return a project with its dependencies, which git ignores."""
    modules = node_modules()
    project = Checkout(folder, {**PROJECTS[runner][0], ".gitignore": "node_modules\n"})
    (project.root / "node_modules").symlink_to(modules)
    return project


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Checkout]:
    """One repository of each runner for all cheats, so that its base is checked once."""
    return cache(lambda runner: make(tmp_path_factory.mktemp(runner), runner))


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_is_refused(projects: Callable[[str], Checkout], cheat: str) -> None:
    runner = cheat.partition(":")[0]
    argv = ("npm", "test") if "package.json" in CHEATS[cheat] else DIRECT[runner]
    result = projects(runner).check(CHEATS[cheat], argv)
    assert is_refused(result), result


@pytest.mark.parametrize("runner", PROJECTS)
def test_honest_work_is_proved(tmp_path: Path, runner: str) -> None:
    base, change = PROJECTS[runner]
    result = make(tmp_path, runner).check(change, ["npm", "test"])
    assert result.state is CheckState.PASSED, result
    file = next(path for path in base if path.startswith("test/"))
    assert result.proved == (f"{file}::calc > add",)
    assert result.passed == 2
    assert result.noticed is True
    assert result.seal is Seal.SEALED
    assert result.runner == runner
    assert result.exit_code == 0
    assert not result.weaknesses


def test_links_between_workspaces_lead_into_the_sealed_tree(tmp_path: Path) -> None:
    """The dependency that the tests load by its name is the version of the tree, not the user's."""
    test = 'const { test } = require("node:test");\nconst assert = require("node:assert");\n'
    base = {
        "package.json": '{"workspaces": ["packages/*"],'
        ' "scripts": {"test": "node --test packages/app/test"}}\n',
        "packages/lib/package.json": '{"name": "lib", "main": "index.js"}\n',
        "packages/lib/index.js": "exports.one = () => 1;\n",
        "packages/app/test/app.test.js": test + 'test("one", () => assert.equal(require("lib").one(), 1));\n',
        ".gitignore": "node_modules\n",
    }
    project = Checkout(tmp_path, base)
    modules = project.root / "node_modules"
    modules.mkdir()
    (modules / "lib").symlink_to("../packages/lib")
    wrong = project.check({"packages/lib/index.js": "exports.one = () => 2;\n"}, ["npm", "test"])
    assert wrong.state is CheckState.FAILED, wrong
    right = project.check({"packages/lib/index.js": "exports.one = () => 3 - 2;\n"}, ["npm", "test"])
    assert right.state is CheckState.PASSED, right
    assert right.noticed is True
    assert right.seal is Seal.SEALED


def test_a_run_that_fails_for_another_reason_is_not_forgiven(tmp_path: Path) -> None:
    project = make(tmp_path, "jest")
    threshold = "module.exports = { coverageThreshold: { global: { functions: 100 } } };\n"
    project.base = project.commit({"jest.config.js": threshold, "package.json": _package("jest --coverage")})
    change = {"calc.js": "exports.one = () => 1;\nexports.add = (a, b) => a + b;\nexports.idle = () => 1;\n"}
    result = project.check(change, ["npm", "test"])
    assert result.state is CheckState.FAILED, result
    assert "exit code" in result.reason


def test_what_npm_cannot_find_is_a_failure_and_a_missing_program_is_broken(tmp_path: Path) -> None:
    project = Checkout(tmp_path, {"package.json": _package("nothing-like-that"), "calc.js": ""})
    assert project.check({"calc.js": "exports.one = 1;\n"}, ["npm", "test"]).state is CheckState.FAILED
    assert project.check({"calc.js": "exports.one = 1;\n"}, ["no-npm", "test"]).state is CheckState.BROKEN


@pytest.mark.parametrize("runner", ["jest", "vitest", "mocha"])
def test_a_copy_leaves_the_work_tree_as_it_was(tmp_path: Path, runner: str) -> None:
    project = make(tmp_path, runner)
    project.options = replace(project.options, means="copy")
    result = project.check(PROJECTS[runner][1], ["npm", "test"])
    assert result.state is CheckState.PASSED, result
    assert not project.git("status", "--porcelain")
