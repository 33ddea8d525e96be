"""Kill a run at one durable system call of each of six flows; tests/slow/crash tries more of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.flows import FLOWS
from tests.crash.points import compiler
from tests.crash.trial import try_fault

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler is installed")


@pytest.mark.parametrize(
    ("flow", "fault", "at"),
    [
        ("execute", "all killed, state file deleted", 180),
        ("plan", "all killed", 180),
        ("spec", "segue killed", 180),
        ("build", "all killed", 180),
        ("worktree", "segue killed", 180),
        ("lanes", "all killed", 180),
    ],
)
def test_a_killed_run_resumes(flow: str, fault: str, at: int, tmp_path: Path) -> None:
    trial = try_fault(FLOWS[flow], tmp_path / "place", "", at, fault)
    assert trial.crash.hit, "the run ended before the call"
    assert not trial.problems, str(trial)
