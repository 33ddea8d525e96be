"""What sealed checks say about rarer projects and tasks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from segue.domain.proof import CheckState, Seal
from segue.domain.task import TaskKind
from segue.proof.execute import SealOptions
from tests.isolation.means import NAMED_IN_FILES
from tests.patience import unhurried
from tests.proof.projects import PYTEST, UNITTEST, Checkout, Files, find_unsettled, needs_sandbox
from tests.proof.shop import BASE, HEADER, TEST, TOTAL, shop

__all__ = ["shop"]
pytestmark = needs_sandbox


def test_a_change_in_words_only_is_not_shown_to_be_exercised(shop: Checkout) -> None:
    result = shop.check({"README.md": "# Shop\n"}, UNITTEST)
    assert result.state is CheckState.PASSED
    assert result.noticed is None
    assert result.weaknesses == ("not shown that the checks exercise the change",)


def test_a_snapshot_that_was_removed_unasked_is_unsettled(tmp_path: Path) -> None:
    test = (
        "from pathlib import Path\nimport unittest\nimport shop\n\n\nclass T(unittest.TestCase):\n"
        "    def test_it(self):\n"
        "        file, text = Path(__file__).parent / 'snapshot.txt', shop.text()\n"
        "        if not file.exists():\n            file.write_text(text)\n"
        "        self.assertEqual(file.read_text(), text)\n"
    )
    base = {"shop.py": "def text():\n    raise NotImplementedError\n", "tests/__init__.py": ""}
    project = Checkout(tmp_path, {**base, "tests/test_it.py": test, "tests/snapshot.txt": "right"})
    wrong = project.check(
        {"shop.py": "def text():\n    return 'wrong'\n", "tests/snapshot.txt": None}, UNITTEST
    )
    assert find_unsettled(wrong) == ["tests/snapshot.txt"]
    right = project.check({"shop.py": "def text():\n    return 'right'\n"}, UNITTEST)
    assert right.proved == ("tests.test_it.T.test_it",)


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("    def test_new(self):\n        self.assertTrue(shop.total)\n", "pass already"),
        ("    def test_new(self):\n        self.assertTrue(\n", "syntax error"),
    ],
    ids=["passes already", "is no Python"],
)
def test_a_test_first_task_needs_a_test_that_fails_for_the_right_reason(
    shop: Checkout, test: str, words: str
) -> None:
    result = shop.check({"tests/test_new.py": HEADER + test}, UNITTEST, TaskKind.TEST_FIRST)
    assert result.state is CheckState.FAILED
    assert words in result.reason


def test_a_young_project_has_nothing_to_check_until_it_has_tests(tmp_path: Path) -> None:
    project = Checkout(tmp_path, {"README.md": "# Shop\n"})
    first = project.check({"shop/__init__.py": ""}, PYTEST)
    assert first.state is CheckState.NOTHING, first
    assert first.ok
    project.advance()
    work: Files = {
        "shop/rates.py": "def double(n):\n    return 2 * n\n",
        "conftest.py": "import pytest\n\n\n@pytest.fixture\ndef number():\n    return 4\n",
        "tests/test_rates.py": "from shop.rates import double\n\n\n"
        "def test_double(number):\n    assert double(number) == 8\n",
    }
    result = project.check(work, PYTEST)
    assert result.state is CheckState.PASSED, result
    assert result.noticed is True
    assert result.proved == ("tests/test_rates.py::test_double",)
    forged = "import pytest\n\n\n@pytest.fixture(autouse=True)\ndef nothing(monkeypatch):\n    pass\n\n\n"
    forged += "pytest.Function.runtest = lambda self: None\n"
    wrong = {**work, "conftest.py": forged, "shop/rates.py": "def double(n):\n    return 1\n"}
    assert project.check(wrong, PYTEST).state in (CheckState.REFUTED, CheckState.FAILED)


def test_a_red_test_that_is_skipped_is_unsettled(tmp_path: Path) -> None:
    red = HEADER + "    def test_mean(self):\n        self.assertEqual(shop.mean([1, 3]), 2)\n"
    project = Checkout(tmp_path, {**BASE, "tests/test_mean.py": red})
    skipped = red.replace("    def", "    @unittest.skip('later')\n    def")
    result = project.check({"tests/test_mean.py": skipped}, UNITTEST)
    assert find_unsettled(result) == ["tests/test_mean.py"]


@NAMED_IN_FILES
def test_a_makefile_that_replaces_pythonpath_reports_by_junit(tmp_path: Path) -> None:
    base: Files = {
        "lib/shop.py": BASE["shop.py"],
        "tests/test_shop.py": "import shop\n\n\ndef test_total():\n    assert shop.total([1]) == 1\n",
        "Makefile": f"test:\n\tPYTHONPATH=lib {' '.join(PYTEST)}\n",
    }
    project = Checkout(tmp_path, base)
    work = {"lib/shop.py": "def total(prices):\n    return sum(prices, 0)\n", "Makefile": "test:\n\ttrue\n"}
    result = project.check(work, ("make", "test"))
    assert result.state is CheckState.PASSED, result
    assert result.runner == "pytest (JUnit)"
    assert result.changed == ("Makefile",)
    wrong = project.check({**work, "lib/shop.py": "def total(prices):\n    return 9\n"}, ("make", "test"))
    assert not wrong.ok


def test_a_command_that_writes_junit_is_judged_by_its_tests(tmp_path: Path) -> None:
    script = """import sys
import shop

good = "" if shop.total([1]) == 1 else "<failure/>"
with open(sys.argv[2], "w") as file:
    file.write(f'<testsuite><testcase name="one">{good}</testcase><testcase name="two"/></testsuite>')
"""
    project = Checkout(tmp_path, {"shop.py": BASE["shop.py"], "run.py": script})
    argv = (sys.executable, "run.py", "--junitxml", "report.xml")
    wrong = project.check({"shop.py": "def total(prices):\n    return 9\n"}, argv)
    assert wrong.state is CheckState.FAILED
    assert wrong.broken == ("one",)
    right = project.check({"shop.py": "def total(prices):\n    return sum(prices, 0)\n"}, argv)
    assert (right.state, right.runner, right.passed) == (CheckState.PASSED, "JUnit", 2)


def test_an_editable_install_in_an_ignored_environment_finds_the_sealed_code(tmp_path: Path) -> None:
    base: Files = {
        ".gitignore": ".venv/\n.env.local\n",
        "src/shop/__init__.py": BASE["shop.py"],
        "tests/__init__.py": "",
        "tests/test_shop.py": HEADER + TOTAL,
    }
    project = Checkout(tmp_path, base)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=project.root, check=True)
    (site,) = project.root.glob(".venv/lib/python*/site-packages")
    (site / "shop.pth").write_text(f"{project.root}/src\n")
    project.prepare()
    argv = (".venv/bin/python", *UNITTEST[1:])
    wrong = project.check({"src/shop/__init__.py": "def total(prices):\n    return 9\n"}, argv)
    assert wrong.broken == (TEST,)
    right = project.check({"src/shop/__init__.py": "def total(prices):\n    return sum(prices, 0)\n"}, argv)
    assert right.state is CheckState.PASSED, right
    assert right.seal is Seal.SEALED
    (site / "added.py").write_text("")
    assert project.check({"README.md": "x"}, argv).seal is Seal.WEAK
    (site / "evil.pth").write_text("import sys\n")
    assert project.check({"README.md": "x"}, argv).seal is Seal.NONE


def test_a_check_that_takes_too_long_fails(shop: Checkout) -> None:
    shop.check({"README.md": "x"}, UNITTEST)
    slow = "import sys, time\nprint('about to wait', file=sys.stderr, flush=True)\ntime.sleep(600)\n"

    def check(factor: float) -> None:
        shop.options = SealOptions(timeout=3 * factor)
        result = shop.check({"shop.py": slow}, UNITTEST)
        assert result.state is CheckState.FAILED
        assert result.exit_code is None
        assert "about to wait" in result.output

    unhurried(check)
