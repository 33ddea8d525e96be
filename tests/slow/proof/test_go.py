"""Sealed checks by go test: honest work is proved, tricks are refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from segue.domain.proof import CheckState, Seal
from tests.proof.projects import Checkout, Files, is_refused, needs_sandbox

pytestmark = [needs_sandbox, pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed")]

GO = ("go", "test", "./...")
FAST = ("go", "test", "-vet=off", "./...")
"""Without `go vet`, which takes four times as long as all the rest, and no trick is about it."""
ONE = """
func TestOne(t *testing.T) {
	if calc.One() != 1 {
		t.Fatal("not 1")
	}
}
"""
ADD = """
func TestAdd(t *testing.T) {
	if calc.Add(1, 2) != 3 {
		t.Error("not 3")
	}
}
"""
TESTS = f'package calc_test\n\nimport (\n\t"testing"\n\n\t"example.com/calc/calc"\n)\n{ONE}'
MODULE = "module example.com/calc\n\ngo 1.19\n"
BASE: Files = {
    "go.mod": MODULE,
    "calc/calc.go": "package calc\n\nfunc One() int { return 1 }\n",
    "calc/calc_test.go": TESTS,
    "Makefile": "vet:\n\tgo vet ./...\ntest:\n\tgo test -vet=off $$(go list ./...)\n",
}
HONEST: Files = {
    "calc/calc.go": "package calc\n\nfunc One() int { return 1 }\n\n"
    "func Add(a, b int) int { return a + b }\n",
    "calc/calc_test.go": TESTS + ADD,
}
WRONG = "package calc\n\nfunc One() int { return 42 }\n"


def _with(imported: str, code: str) -> str:
    imports = "".join(f'\t"{name}"\n' for name in imported.split())
    return f"package calc\n\nimport (\n{imports})\n\n{code}\n\nfunc One() int {{ return 42 }}\n"


FORGERY = "=== RUN   TestOne\\n--- PASS: TestOne (0.00s)\\nPASS\\n"
CHEATS: dict[str, Files] = {
    "nothing else": {"calc/calc.go": WRONG},
    "an exit before the tests": {"calc/calc.go": _with("os", "func init() { os.Exit(0) }")},
    "a forged report": {
        "calc/calc.go": _with("fmt os", f'func init() {{ fmt.Print("{FORGERY}"); os.Exit(0) }}')
    },
    "a filter for the tests": {
        "calc/calc.go": _with("os", 'func init() { os.Args = append(os.Args, "-test.run=Nothing") }')
    },
    "a test that is skipped": {
        "calc/calc.go": WRONG,
        "calc/calc_test.go": TESTS.replace("testing.T) {", 'testing.T) {\n\tt.Skip("later")'),
    },
    "the tests deleted": {"calc/calc.go": WRONG, "calc/calc_test.go": None},
    "a build tag": {"calc/calc.go": WRONG, "calc/calc_test.go": f"//go:build never\n\n{TESTS}"},
    "a package of tests that ends early": {
        "calc/calc.go": WRONG,
        "calc/main_test.go": 'package calc_test\n\nimport (\n\t"os"\n\t"testing"\n)\n\n'
        "func TestMain(m *testing.M) { os.Exit(0) }\n",
    },
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """One repository for all cheats, so that its base is checked once."""
    return Checkout(tmp_path_factory.mktemp("cheats"), BASE)


@pytest.mark.parametrize("change", CHEATS.values(), ids=CHEATS.keys())
def test_a_cheat_is_refused(project: Checkout, change: Files) -> None:
    result = project.check(change, FAST)
    assert is_refused(result), result


@pytest.mark.parametrize("command", [GO, ("make", "test")])
def test_honest_work_is_proved(tmp_path: Path, command: tuple[str, ...]) -> None:
    result = Checkout(tmp_path, BASE).check(HONEST, command)
    assert result.state is CheckState.PASSED, result
    assert result.proved == ("calc/calc_test.go::TestAdd",)
    assert result.passed == 2
    assert result.noticed is True
    assert result.seal is Seal.SEALED
    assert result.runner == "go test"
    assert result.exit_code == 0
    assert not result.weaknesses


def test_the_first_tests_of_a_module_count(tmp_path: Path) -> None:
    base = {path: text for path, text in BASE.items() if path != "calc/calc_test.go"}
    result = Checkout(tmp_path, base).check({"calc/calc_test.go": TESTS}, FAST)
    assert result.state is CheckState.PASSED, result
    assert result.passed == 1


def test_a_vet_that_complains_fails_the_check(tmp_path: Path) -> None:
    doubtful = 'package calc\n\nimport "fmt"\n\nfunc One() int { fmt.Printf("%d\\n", "x"); return 1 }\n'
    result = Checkout(tmp_path, BASE).check({"calc/calc.go": doubtful}, ["make", "vet", "test"])
    assert not result.ok, result
