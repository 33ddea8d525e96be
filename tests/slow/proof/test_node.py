"""Sealed checks by node:test: honest work is proved, tricks are refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from segue.domain.proof import CheckState, Seal
from tests.proof.projects import Checkout, Files, is_refused, needs_sandbox

pytestmark = [needs_sandbox, pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")]

TESTS = """const { test } = require("node:test");
const assert = require("node:assert");
const calc = require("../calc.js");

test("one", () => assert.strictEqual(calc.one(), 1));
test("add", () => assert.strictEqual(calc.add(1, 2), 3));
"""
PACKAGE = '{"name": "calc", "scripts": {"test": "node --test test/"}}\n'
BASE: Files = {
    "calc.js": "exports.one = () => 1;\n",
    "test/calc.test.js": TESTS,
    "package.json": PACKAGE,
    "Makefile": ".PHONY: test\ntest:\n\t@npm test\n",
}
HONEST: Files = {"calc.js": "exports.one = () => 1;\nexports.add = (a, b) => a + b;\n"}
WRONG = "exports.one = () => 42;\nexports.add = () => 42;\n"

DIRECT = ("node", "--test", "test/")
"""What `npm test` runs; npm takes longer to start."""
CHEATS: dict[str, Files] = {
    "nothing else": {"calc.js": WRONG},
    "an exit while the module is loaded": {"calc.js": f"process.exit(0);\n{WRONG}"},
    "a patched assertion": {
        "calc.js": f'const assert = require("assert");\nassert.strictEqual = () => {{}};\n{WRONG}'
    },
    "a patched runner": {
        "calc.js": 'const runner = require("node:test");\nrunner.test = runner.it = () => {};\n'
        f"runner.Test = class {{}};\n{WRONG}"
    },
    "a weaker assertion": {"calc.js": WRONG, "test/calc.test.js": TESTS.replace("strictEqual", "ok")},
    "another script": {"calc.js": WRONG, "package.json": PACKAGE.replace("node --test test/", "true")},
    "planted dependencies": {
        "calc.js": WRONG,
        "test/node_modules/assert/index.js": "module.exports = { strictEqual() {} };\n",
        "node_modules/x/index.js": "process.exit(0);\n",
    },
    "a forged report": {
        "calc.js": 'const fs = require("fs"), path = require("path");\n'
        "for (const word of (process.env.NODE_OPTIONS || '').match(/[^\" ]+cjs/g) || []) {\n"
        "  const known = JSON.parse(fs.readFileSync(word.replace(/cjs$/, 'json')));\n"
        "  const names = ['one', 'add'].map((name) => ({ file: 'test/calc.test.js', names: [name],"
        " outcome: 'passed' }));\n"
        "  fs.writeFileSync(path.join(known.reports, `node-${known.token}-1-1.json`),"
        " JSON.stringify({ tests: names }));\n}\nprocess.exit(0);\n"
    },
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """One repository for all cheats, so that its base is checked once."""
    return Checkout(tmp_path_factory.mktemp("cheats"), BASE)


@pytest.mark.parametrize("change", CHEATS.values(), ids=CHEATS.keys())
def test_a_cheat_is_refused(project: Checkout, change: Files) -> None:
    about_npm = {"package.json", ".npmrc"} & change.keys()
    result = project.check(change, ["npm", "test"] if about_npm else DIRECT)
    assert is_refused(result), result


@pytest.mark.parametrize("command", ["npm test", "make test", "node --test test/"])
def test_honest_work_is_proved(tmp_path: Path, command: str) -> None:
    result = Checkout(tmp_path, BASE).check(HONEST, command.split())
    assert result.state is CheckState.PASSED, result
    assert result.proved == ("test/calc.test.js::add",)
    assert result.passed == 2
    assert result.noticed is True
    assert result.seal is Seal.SEALED
    assert result.runner == "node:test"
    assert result.exit_code == 0
    assert not result.weaknesses
