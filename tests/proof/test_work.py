"""What sealed checks say about honest work, and about work that is not done."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest

from segue.domain.proof import CheckState, HowSettled
from segue.domain.task import TaskKind
from segue.proof.execute import SealOptions, find_program
from tests.proof.projects import UNITTEST, Checkout, Files, find_unsettled, needs_sandbox
from tests.proof.shop import BASE, HEADER, MEAN_TESTS, TEST, TOTAL, WITH_MEAN, shop

__all__ = ["shop"]
pytestmark = needs_sandbox


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


def test_a_broken_test_is_named_with_its_message(shop: Checkout) -> None:
    result = shop.check({"shop.py": "def total(prices):\n    return 42\n"}, UNITTEST)
    assert result.state is CheckState.FAILED
    assert result.broken == (TEST,)
    assert "42 != 3" in result.output
    assert TEST in result.reason


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


def test_a_first_commit_has_no_base(tmp_path: Path) -> None:
    project = Checkout(tmp_path, {})
    result = project.check(BASE, UNITTEST)
    assert result.state is CheckState.PASSED, result
    assert result.noticed is True


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


def test_a_new_module_may_have_the_name_of_one_in_the_standard_library(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, {"app.py": "def size():\n    return 1\n", "test_app.py": TEST_SIZE})
    result = checkout.check(
        {
            "profile/__init__.py": "",
            "profile/forms.py": "def double(n):\n    return n * 2\n",
            "app.py": "from profile.forms import double\n\ndef size():\n    return double(1) - 1\n",
            "test_forms.py": "from profile import forms\n\ndef test_it():\n    assert forms.double(2) == 4\n",
        }
    )
    assert result.state is CheckState.PASSED, result
    assert result.proved == ("test_forms.py::test_it",)
    assert any("profile/forms.py" in said for said in result.weaknesses)


def test_a_test_may_use_the_cache_of_pytest(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path, {"app.py": "def size():\n    raise NotImplementedError\n"})
    test = "import app\n\ndef test_it(cache):\n    cache.set('a/b', 1)\n    assert app.size() == 2\n"
    result = checkout.check({"app.py": "def size():\n    return 2\n", "test_app.py": test})
    assert result.proved == ("test_app.py::test_it",), result


TEST_SIZE = "from app import size\n\ndef test_size():\n    assert size() == 1\n"
