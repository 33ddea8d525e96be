"""Reports in formats of runners that need not be installed here, from recorded output."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.proof.report import Reason, TestOutcome
from segue.proof.runners import RUNNERS, Ended, Stage, read_report
from segue.proof.runners.junit import JUNIT_FILE
from segue.proof.runners.written import read_tap

SUREFIRE = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="shop.TotalTest" tests="2" failures="1">
  <properties><property name="java.version" value="17"/></properties>
  <testcase name="adds" classname="shop.TotalTest" time="0.01"/>
  <testcase name="rounds" classname="shop.TotalTest" time="0.01">
    <failure message="expected: &lt;2&gt; but was: &lt;3&gt;" type="x.AssertionFailedError">x</failure>
  </testcase>
</testsuite>
"""
TRX = """<?xml version="1.0" encoding="utf-8"?>
<TestRun id="1" xmlns="http://microsoft.com/schemas/VisualStudio/TeamTest/2010">
  <Results>
    <UnitTestResult testName="Shop.Tests.Adds" outcome="Passed" />
    <UnitTestResult testName="Shop.Tests.Later" outcome="NotExecuted" />
    <UnitTestResult testName="Shop.Tests.Rounds" outcome="Failed">
      <Output><ErrorInfo><Message>Assert.Equal() Failure: Values differ</Message></ErrorInfo></Output>
    </UnitTestResult>
  </Results>
</TestRun>
"""
CTEST = """Start testing: Nov 18 06:40 UTC
----------------------------------------------------------
1/2 Testing: adds
1/2 Test: adds
Command: "/project/out/adds"
Output:
----------------------------------------------------------
<end of output>
Test time =   0.00 sec
----------------------------------------------------------
Test Passed.
"adds" end time: Nov 18 06:40 UTC

2/2 Testing: rounds
2/2 Test: rounds
Command: "/project/out/rounds"
Output:
----------------------------------------------------------
2 is not 3
<end of output>
Test time =   0.00 sec
----------------------------------------------------------
Test Failed.
"""
PASSED, FAILED, SKIPPED = TestOutcome.PASSED, TestOutcome.FAILED, TestOutcome.SKIPPED


def stage(tmp_path: Path) -> Stage:
    for name in ("tree", "hooks", "reports"):
        (tmp_path / name).mkdir()
    tree = tmp_path / "tree"
    return Stage(("check",), tree, tree, tmp_path / "hooks", tmp_path / "reports", "stoken", ())


@pytest.mark.parametrize(
    ("runner", "file", "text", "expected"),
    [
        (
            "JUnit",
            "target/surefire-reports/TEST-shop.TotalTest.xml",
            SUREFIRE,
            {"shop.TotalTest::adds": PASSED, "shop.TotalTest::rounds": FAILED},
        ),
        (
            "JUnit",
            "build/test-results/test/TEST-shop.TotalTest.xml",
            SUREFIRE,
            {"shop.TotalTest::adds": PASSED, "shop.TotalTest::rounds": FAILED},
        ),
        (
            "dotnet test",
            "tests/TestResults/a.trx",
            TRX,
            {"Shop.Tests.Adds": PASSED, "Shop.Tests.Later": SKIPPED, "Shop.Tests.Rounds": FAILED},
        ),
        ("ctest", "out/Testing/Temporary/LastTest.log", CTEST, {"adds": PASSED, "rounds": FAILED}),
    ],
)
def test_what_a_runner_writes_is_found(
    tmp_path: Path, runner: str, file: str, text: str, expected: dict[str, TestOutcome]
) -> None:
    place = stage(tmp_path)
    [one] = [one for one in (*RUNNERS, JUNIT_FILE) if one.name == runner]
    earlier = place.tree / f"old/{Path(file).name}"
    earlier.parent.mkdir()
    earlier.write_text(text.replace("adds", "before"))
    one.arm(place)
    (place.tree / file).parent.mkdir(parents=True)
    (place.tree / file).write_text(text)
    report = read_report((one,), place, Ended(1, "", ""))
    assert report is not None
    assert report.runners == (runner,)
    assert {key: case.outcome for key, case in report.tests.items()} == expected
    assert {case.reason for case in report.tests.values()} == {None, Reason.ASSERTION}


def test_tap_is_read_when_all_of_it_fits_together() -> None:
    said = (
        "1..3\nok 1 adds\nnot ok 2 subtracts\n# (in test file test/sub.bats, line 3)\n#   `sub 3 2' failed\n"
    )
    said += "ok 3 divides # skip later\n"
    report = read_tap(said, 1)
    assert report is not None
    assert {key: case.outcome for key, case in report.tests.items()} == {
        "adds": PASSED,
        "subtracts": FAILED,
        "divides": SKIPPED,
    }
    assert report.tests["subtracts"].file == "test/sub.bats"
    assert read_tap(said, 0) is None  # an exit code that says something else
    assert read_tap(said.replace("1..3", "1..4"), 1) is None  # a test that did not run
    assert read_tap("ok then\n", 0) is None  # words
