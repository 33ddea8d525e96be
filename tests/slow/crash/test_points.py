"""Kill a run at any durable system call, or let that fail, in every flow and on either store: `resume` works.

Each test takes some of the points: `SEGUE_CRASH_POINTS` says how many, `SEGUE_CRASH_SEED` chooses others.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.crash.faults import EVERYWHERE, FAULTS
from tests.crash.flows import FLOWS
from tests.crash.points import SEED, compiler
from tests.crash.trial import new_database, try_fault

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler is installed")
POINTS = int(os.environ.get("SEGUE_CRASH_POINTS", "2"))
AT = 180
"""A call in the second task."""


@pytest.mark.parametrize(
    ("store", "fault"), [*(("sqlite", fault) for fault in EVERYWHERE), ("postgres", "all killed")]
)
@pytest.mark.parametrize("flow", FLOWS)
def test_resume_works_after_a_kill_or_failure_at_any_durable_call(
    flow: str, store: str, fault: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("postgres_server") if store == "postgres" else ""
    total, number = 0, 0
    while number < POINTS:
        # The first trial is not killed; it tells how many calls there are.
        step = total / POINTS
        at = 1 + int(number * step + SEED * 0.618 % 1 * step) if total else 0
        with ExitStack() as stack:
            database = stack.enter_context(new_database(server, number)) if server else ""
            trial = try_fault(FLOWS[flow], tmp_path / f"{number}-{at}", database, at, fault)
        assert not trial.problems, f"{trial}\nSEGUE_CRASH_SEED={SEED}"
        if at:
            number += 1
        total = total or trial.crash.calls
        assert total, "no call was counted"


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in EVERYWHERE])
def test_resume_works_after_any_fault(fault: str, tmp_path: Path) -> None:
    """In the middle of the second task, when there is something to lose."""
    trial = try_fault(FLOWS["execute"], tmp_path / "place", "", AT, fault)
    assert not trial.problems, str(trial)
