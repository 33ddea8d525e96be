"""What sealed checks say about honest work, and about work that is not done."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from segue.domain.proof import CheckState, HowSettled, Seal
from segue.domain.task import TaskKind
from segue.proof.execute import SealOptions, find_program
from tests.isolation.means import NAMED_IN_FILES
from tests.patience import unhurried
from tests.proof.projects import PYTEST, UNITTEST, Checkout, Files, find_unsettled, needs_sandbox

pytestmark = needs_sandbox

HEADER = "import unittest\n\nimport shop\n\n\nclass ShopTest(unittest.TestCase):\n"
TOTAL = "    def test_total(self):\n        self.assertEqual(shop.total([1, 2]), 3)\n"
BASE: Files = {
    "shop.py": "def total(prices):\n    return sum(prices)\n",
    "tests/__init__.py": "",
    "tests/test_shop.py": HEADER + TOTAL,
}
TEST = "tests.test_shop.ShopTest.test_total"
MEAN = "\n\ndef mean(prices):\n    return total(prices) / len(prices)\n"
WITH_MEAN = f"{BASE['shop.py']}{MEAN}"
MEAN_TESTS = """import unittest

from shop import mean


class MeanTest(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([1, 3]), 2)

    def test_trivial(self):
        self.assertTrue(True)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Checkout:
    """A small project with one test."""
    return Checkout(tmp_path, BASE)


def test_a_new_function_with_a_test_is_proved_and_an_idle_test_is_named(shop: Checkout) -> None:
    result = shop.check({"shop.py": WITH_MEAN, "tests/test_mean.py": MEAN_TESTS}, UNITTEST)
    assert result.state is CheckState.PASSED, result
    assert result.proved == ("tests.test_mean.MeanTest.test_mean",)
    assert result.idle == ("tests.test_mean.MeanTest.test_trivial",)
    assert result.noticed is True
    assert result.runner == "unittest"


def test_a_change_that_no_test_exercises_is_not_noticed(shop: Checkout) -> None:
    result = shop.check({"shop.py": WITH_MEAN}, UNITTEST)
    assert result.state is CheckState.PASSED
    assert result.noticed is False
    assert not result.proved


@pytest.mark.thorough
def test_a_change_in_words_only_is_not_shown_to_be_exercised(shop: Checkout) -> None:
    result = shop.check({"README.md": "# Shop\n"}, UNITTEST)
    assert result.state is CheckState.PASSED
    assert result.noticed is None
    assert result.weaknesses == ("not shown that the checks exercise the change",)


def test_a_broken_test_is_named_with_its_message(shop: Checkout) -> None:
    result = shop.check({"shop.py": "def total(prices):\n    return 42\n"}, UNITTEST)
    assert result.state is CheckState.FAILED
    assert result.broken == (TEST,)
    assert "42 != 3" in result.output
    assert TEST in result.reason


@pytest.mark.thorough
def test_a_test_that_was_changed_unasked_is_unsettled_with_both_versions(shop: Checkout) -> None:
    changed = str(BASE["tests/test_shop.py"]).replace(", 3)", ", 300)")
    result = shop.check(
        {"shop.py": "def total(prices):\n    return 100 * sum(prices)\n", "tests/test_shop.py": changed},
        UNITTEST,
    )
    assert result.state is CheckState.PASSED
    assert [(one.path, one.line, one.test) for one in result.changed_tests] == [
        ("tests/test_shop.py", 8, TEST)
    ]
    assert find_unsettled(result)
    (one,) = result.contested
    assert one.path == "tests/test_shop.py"
    assert one.before == BASE["tests/test_shop.py"]
    assert one.after == changed
    assert one.tests == (TEST,)


def test_a_renamed_test_asserts_the_same(shop: Checkout) -> None:
    renamed = str(BASE["tests/test_shop.py"]).replace("test_total", "test_sum")
    result = shop.check({"tests/test_shop.py": renamed}, UNITTEST)
    assert result.state is CheckState.PASSED, result
    assert [(one.test, one.how) for one in result.changed_tests] == [(TEST, HowSettled.MECHANICAL)]


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_failure_that_is_known_does_not_count(tmp_path: Path) -> None:
    failing = HEADER + TOTAL + "    def test_later(self):\n        self.fail('later')\n"
    base = {**BASE, "tests/test_shop.py": failing}
    change = {"shop.py": "def total(prices):\n    return sum(list(prices))\n"}
    strict = Checkout(tmp_path, base)
    assert strict.check(change, UNITTEST).state is CheckState.FAILED
    strict.options = SealOptions(known_failures=("*.test_later",), timeout=300)
    result = strict.check(change, UNITTEST)
    assert result.state is CheckState.PASSED, result
    assert result.failing == ("tests.test_shop.ShopTest.test_later",)


@pytest.mark.thorough
def test_a_test_first_task_ends_with_a_red_test_that_the_next_task_turns_green(shop: Checkout) -> None:
    red = shop.check({"tests/test_mean.py": MEAN_TESTS}, UNITTEST, TaskKind.TEST_FIRST)
    assert red.state is CheckState.PASSED, red
    assert red.proved == ("tests/test_mean.py",)
    shop.advance()
    other = shop.check({"README.md": "# Shop\n"}, UNITTEST, expected_red=red.proved)
    assert other.state is CheckState.PASSED, other
    green = shop.check({"shop.py": WITH_MEAN}, UNITTEST, expected_red=red.proved)
    assert green.state is CheckState.PASSED
    assert green.proved == ("tests.test_mean.MeanTest.test_mean",)
    silenced = shop.check({"tests/test_mean.py": None}, UNITTEST, expected_red=red.proved)
    assert set(find_unsettled(silenced)) == {"tests/test_mean.py"}


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_new_tests_may_need_a_new_conftest(tmp_path: Path) -> None:
    test = "import shop\n\n\ndef test_a():\n    assert shop.total([1]) == 1\n"
    work: Files = {
        "shop.py": WITH_MEAN,
        "conftest.py": "import pytest\n\n\n@pytest.fixture\ndef prices():\n    return [1, 3]\n",
        "test_b.py": "import shop\n\n\ndef test_b(prices):\n    assert shop.mean(prices) == 2\n",
    }
    result = Checkout(tmp_path, {"shop.py": BASE["shop.py"], "test_a.py": test}).check(work)
    assert result.state is CheckState.PASSED, result
    assert result.proved == ("test_b.py::test_b",)
    assert result.weaknesses == ("the tests need control files that the agent wrote: conftest.py",)


@pytest.mark.thorough
def test_a_module_that_is_skipped_and_options_that_stop_early_do_no_harm(tmp_path: Path) -> None:
    base: Files = {
        "shop.py": BASE["shop.py"],
        "test_a.py": "import shop\n\n\ndef test_a():\n    assert shop.total([1]) == 1\n",
        "test_b.py": "import pytest\n\npytestmark = pytest.mark.skip\n\n\ndef test_b():\n    pass\n",
    }
    work = {"shop.py": "def total(prices):\n    return sum(prices, 0)\n"}
    result = Checkout(tmp_path, base).check(work, (*PYTEST, "-x", "-k", "test"))
    assert result.state is CheckState.PASSED, result
    assert result.noticed is True


@pytest.mark.thorough
def test_a_red_test_that_is_skipped_is_unsettled(tmp_path: Path) -> None:
    red = HEADER + "    def test_mean(self):\n        self.assertEqual(shop.mean([1, 3]), 2)\n"
    project = Checkout(tmp_path, {**BASE, "tests/test_mean.py": red})
    skipped = red.replace("    def", "    @unittest.skip('later')\n    def")
    result = project.check({"tests/test_mean.py": skipped}, UNITTEST)
    assert find_unsettled(result) == ["tests/test_mean.py"]


def test_a_first_commit_has_no_base(tmp_path: Path) -> None:
    project = Checkout(tmp_path, {})
    result = project.check(BASE, UNITTEST)
    assert result.state is CheckState.PASSED, result
    assert result.noticed is True


@NAMED_IN_FILES
@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_command_without_a_known_runner_goes_by_its_exit_code(tmp_path: Path) -> None:
    base: Files = {"greet.sh": "echo Hi\n", "check.sh": '#!/bin/sh\n[ "$(sh greet.sh)" = Hello ]\n'}
    project = Checkout(tmp_path, base)
    right = project.check({"greet.sh": "echo Hello\n"}, ("./check.sh",))
    assert right.state is CheckState.PASSED, right
    assert right.proved == ("./check.sh",)
    assert right.noticed is True
    wrong = project.check({"greet.sh": "echo Bye\n"}, ("./check.sh",))
    assert wrong.state is CheckState.FAILED
    edited = project.check({"greet.sh": "echo Bye\n", "check.sh": "#!/bin/sh\n"}, ("./check.sh",))
    assert find_unsettled(edited) == ["check.sh"]


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_an_ignored_file_is_there_as_it_was_before_the_agent(tmp_path: Path) -> None:
    base = {**BASE, ".gitignore": "settings.txt\n"}
    base["tests/test_shop.py"] = (
        f"{HEADER}    def test_it(self):\n        self.assertEqual(open('settings.txt').read(), 'a')\n"
    )
    project = Checkout(tmp_path, base)
    (project.root / "settings.txt").write_text("a")
    project.prepare()
    (project.root / "settings.txt").write_text("b")
    assert project.check({"README.md": "x"}, UNITTEST).state is CheckState.PASSED


def test_the_network_is_closed_but_loopback_works(tmp_path: Path) -> None:
    test = """import socket
import unittest


class T(unittest.TestCase):
    def test_loopback(self):
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
            pass

    def test_elsewhere(self):
        with self.assertRaises(OSError):
            socket.create_connection(("192.0.2.1", 80), timeout=5)
"""
    project = Checkout(tmp_path, {"tests/__init__.py": "", "tests/test_net.py": test})
    assert project.check({"README.md": "x"}, UNITTEST).passed == 2


def test_nothing_is_left_behind(shop: Checkout) -> None:
    sleeper = "[sys.executable, '-c', 'import time; time.sleep(61.25)']"
    leaving = f"import subprocess, sys\nsubprocess.Popen({sleeper}, start_new_session=True)\n"
    shop.check({"shop.py": f"{leaving}{BASE['shop.py']}"}, UNITTEST)
    assert not list((shop.scratch / "runs").iterdir())
    assert shop.git("status", "--porcelain") == ""
    assert not any("61.25" in " ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"]))


@pytest.mark.thorough
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


def test_a_missing_program_breaks_the_check(shop: Checkout) -> None:
    result = shop.check({"README.md": "x"}, ("no-such-program", "x"))
    assert result.state is CheckState.BROKEN
    assert "no-such-program" in result.reason
    assert find_program(("no-such-program",), shop.root) is None
    assert find_program(("git",), shop.root) is not None


def test_a_setup_that_fails_breaks_the_check(tmp_path: Path) -> None:
    project = Checkout(
        tmp_path, BASE, SealOptions(setup=(("sh", "-c", "echo no disk; exit 3"),), timeout=300)
    )
    result = project.check({"README.md": "x"}, UNITTEST)
    assert result.state is CheckState.BROKEN
    assert "no disk" in result.output


def test_a_check_that_is_cancelled_leaves_nothing(shop: Checkout) -> None:
    head = shop.commit({"shop.py": "import time\ntime.sleep(61.5)\n"})

    async def cancel() -> None:
        task = asyncio.create_task(shop.sealer().check(UNITTEST, shop.base, head))
        runs = shop.scratch / "runs"
        while not any("61.5" in path.read_text() for path in runs.glob("*/tree/shop.py")):
            await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert not list((shop.scratch / "runs").iterdir())
