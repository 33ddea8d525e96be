"""A failure that was there before rejects the change, or has nothing to do with it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from segue.proof.report import CaseResult, Reason, Report, TestOutcome
from segue.proof.runs import Observed, Runs
from segue.proof.still_red import find_rejection

UNWRITTEN = "raise NotImplementedError"
BEFORE = f"def discount(amount, percent):\n    {UNWRITTEN}\n\n\ndef tax(n):\n    {UNWRITTEN}\n"
RIGHT = BEFORE.replace(UNWRITTEN, "return amount - amount * percent / 100", 1)
WRONG = BEFORE.replace(UNWRITTEN, "return 42", 1)
CASES: dict[str, tuple[str, str, bool]] = {
    "it compares": ("sys.exit(discount(200, 10) != 180)", WRONG, True),
    "it asserts": ("assert discount(200, 10) == 180", WRONG, True),
    "it asserts twice": ("assert discount(0, 0) == 42\nassert discount(200, 10) == 180", WRONG, False),
    "the next task's function is missing": (
        "assert discount(200, 10) == 180\nassert tax(5) == 1",
        RIGHT,
        False,
    ),
    "the result is not looked at": ("discount(200, 10)\ntax(5)", RIGHT, False),
    "another command is missing": (
        "assert discount(200, 10) == 180\nsys.exit('report: command not found')",
        RIGHT,
        False,
    ),
    "the year, and the result": ("assert discount(200, 10) == 180\nsys.exit('it is not 1999')", RIGHT, False),
}
"""A scenario, what the task makes of the product, and whether the scenario rejects that."""


@pytest.mark.parametrize("name", CASES)
def test_a_red_scenario_rejects_the_result_or_something_else(tmp_path: Path, name: str) -> None:
    scenario, after, rejects = CASES[name]
    (tmp_path / "scenario.py").write_text(f"import sys\nfrom shop import discount, tax\n{scenario}\n")

    def start(text: str) -> Observed:
        (tmp_path / "shop.py").write_text(text)
        argv = [sys.executable, "-SB", "scenario.py"]
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
        return Observed(done.returncode, output=done.stdout + done.stderr)

    async def run(broken: Mapping[str, bytes]) -> Observed:
        return start(broken["shop.py"].decode())

    now = start(after)
    runs = Runs(start(BEFORE), now, now, command="scenario")
    found = asyncio.run(find_rejection(runs, ["scenario"], {"shop.py": (BEFORE, after)}, run))
    assert bool(found) is rejects, found


def test_a_red_test_that_waits_for_more_does_not_reject() -> None:
    def seen(message: str, reason: Reason) -> Observed:
        case = CaseResult("t.py::test", TestOutcome.FAILED, "t.py", reason, message)
        return Observed(1, Report({case.id: case}))

    async def run(_broken: Mapping[str, bytes]) -> Observed:
        return after

    before = seen("NotImplementedError", Reason.UNFINISHED)
    for message, reason, rejects in (
        ("assert 42 == 180", Reason.ASSERTION, True),
        ("NotImplementedError in tax", Reason.UNFINISHED, False),
        ("AttributeError: tax", Reason.MISSING, False),
    ):
        after = seen(message, reason)
        files = {"shop.py": (BEFORE, WRONG)}
        found = asyncio.run(find_rejection(Runs(before, after, after), ["t.py::test"], files, run))
        assert bool(found) is rejects, message
