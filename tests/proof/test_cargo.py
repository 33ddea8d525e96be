"""Sealed checks by cargo test: honest work is proved, tricks are refused."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from segue.domain.proof import CheckState, Seal
from tests.proof.projects import Checkout, Files, needs_sandbox


@cache
def _missing() -> str:
    if shutil.which("cargo") is None:
        return "cargo is not installed"
    done = subprocess.run(["cargo", "--version"], capture_output=True, text=True, timeout=60, check=False)
    return "" if done.returncode == 0 else f"cargo does not work: {done.stderr.strip()[-200:]}"


pytestmark = [needs_sandbox, pytest.mark.skipif(bool(_missing()), reason=_missing())]

CARGO = ("cargo", "test", "--offline")
UNIT = """
#[cfg(test)]
mod tests {
    #[test]
    fn two() {
        assert_eq!(super::two(), 2);
    }
}
"""
ONE_IS_ONE = "pub fn one() -> i32 {\n    1\n}\n\n"
TWO = "pub fn two() -> i32 {\n    2\n}\n"
ONE = "#[test]\nfn one() {\n    assert_eq!(calc::one(), 1);\n}\n"
ADD = "\n#[test]\nfn add() {\n    assert_eq!(calc::add(1, 2), 3);\n}\n"
MANIFEST = '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n'
BASE: Files = {
    "Cargo.toml": MANIFEST,
    "Cargo.lock": 'version = 3\n\n[[package]]\nname = "calc"\nversion = "0.1.0"\n',
    "src/lib.rs": f"{ONE_IS_ONE}{TWO}{UNIT}",
    "tests/calc.rs": ONE,
}
HONEST: Files = {
    "src/lib.rs": f"{ONE_IS_ONE}pub fn add(a: i32, b: i32) -> i32 {{\n    a + b\n}}\n\n{TWO}{UNIT}",
    "tests/calc.rs": ONE + ADD,
}
THREE = TWO.replace("2\n", "3\n")
WRONG = f"pub fn one() -> i32 {{\n    42\n}}\n\n{TWO}"
EXIT = f"pub fn one() -> i32 {{\n    std::process::exit(0)\n}}\n\n{TWO}{UNIT}"

CHEATS: dict[str, Files] = {
    "nothing else": {"src/lib.rs": WRONG + UNIT},
    "an exit in the function": {"src/lib.rs": EXIT},
    "a test that is ignored": {
        "src/lib.rs": WRONG + UNIT,
        "tests/calc.rs": ONE.replace("#[test]", "#[test]\n#[ignore]"),
    },
    "a unit test that is ignored": {
        "src/lib.rs": f"{ONE_IS_ONE}{THREE}" + UNIT.replace("#[test]", "#[test]\n    #[ignore]")
    },
    "a unit test that is deleted": {"src/lib.rs": f"{ONE_IS_ONE}{THREE}"},
    "a weaker test": {"src/lib.rs": WRONG + UNIT, "tests/calc.rs": ONE.replace(", 1)", ", 42)")},
    "tests that are not found": {
        "src/lib.rs": WRONG + UNIT,
        "Cargo.toml": MANIFEST + "autotests = false\n",
    },
    "a runner of its own": {
        "src/lib.rs": WRONG + UNIT,
        ".cargo/config.toml": "[target.'cfg(unix)']\nrunner = \"true\"\n",
    },
}


@pytest.mark.parametrize("change", CHEATS.values(), ids=CHEATS.keys())
def test_a_cheat_is_refused(tmp_path: Path, change: Files) -> None:
    result = Checkout(tmp_path, BASE).check(change, CARGO)
    assert result.state in (CheckState.FAILED, CheckState.REFUTED, CheckState.CONTESTED), result
    assert result.reason


def test_honest_work_is_proved(tmp_path: Path) -> None:
    result = Checkout(tmp_path, BASE).check(HONEST, CARGO)
    assert result.state is CheckState.PASSED, result
    assert result.proved == ("tests/calc.rs::add",)
    assert result.passed == 3
    assert result.noticed is True
    assert result.seal is Seal.SEALED
    assert result.runner == "cargo test"
    assert result.exit_code == 0
    assert result.weaknesses == ("unit tests in Rust are part of the files that the agent may change",)
