"""A run whose three tasks ended in three ways: proven, failed, accepted by a person."""

from __future__ import annotations

import msgspec

from segue.domain.events import CheckRun, Event, Tampered, TaskEnded, VerdictGiven, event_data
from segue.domain.proof import (
    CheckResult,
    CheckState,
    Contested,
    IndependentTests,
    Level,
    Proof,
    Seal,
    Tampering,
)
from segue.domain.task import Task
from segue.domain.verdict import Action, Criterion, CriterionVerdict, Result
from tests.reports.dataset import Written, WrittenRun

RUN = "20261115-024657-97ec"
PYTEST = CheckResult(
    "pytest -q",
    0,
    "12 passed",
    CheckState.PASSED,
    runner="pytest",
    passed=12,
    proved=("tests/test_login.py::test_right_password",),
    contested=(Contested("tests/test_old.py", "assert 1", "assert 2", ("tests/test_old.py::test_one",)),),
    noticed=True,
    seal=Seal.WEAK,
    weaknesses=("The runner's plug-ins come from the work tree.",),
    changed=("tests/test_old.py",),
)
FAILED = CheckResult(
    "make lint", 1, "", CheckState.FAILED, reason="Line 3 is too long.", failing=("a.py::lint",)
)
PROOF = Proof(
    level=Level.TESTED,
    reasons=("No tests were written by somebody else.",),
    checks=(msgspec.structs.replace(PYTEST, contested=()),),
    tree="b" * 40,
    base="a" * 40,
    independent=IndependentTests(
        commit="d" * 40, files=("t.py",), commands=("pytest -q",), by="codex", proved=("t.py::test_in",)
    ),
    mutants=(8, 7),
    held=(3, 3),
)
TASKS = (
    Task("T001", "Log in", "Log in.", criteria=(Criterion("US1/AC1", "A user with a password gets in."),)),
    Task("T002", "Log out", "Log out.", criteria=(Criterion("US1/AC2", "A user can log out."),)),
)


def record(run: WrittenRun, event: Event, step: str | None = None) -> None:
    run.event(step, event.type, **event_data(event))


def write_proofs(address: str) -> str:
    """Write the run and return its id."""
    data = Written()
    titles = {"tT001": "Log in", "tT002": "Log out", "tT003": "Choose a colour", "tT004": "Deploy"}
    run = data.run(RUN, "needs_human", kind="feature", **titles)
    usage = {"input_tokens": 1000, "output_tokens": 234, "cost_usd": 0.5}
    run.on("T001").execute(1, usage=usage).verify(1, "PASS")
    met = (CriterionVerdict("US1/AC1", True, "def log_in(password):\n    return True"),)
    record(run, VerdictGiven("T001", Result.PASS, Action.PROCEED, "met", met), "task/T001/verify/1")
    record(run, CheckRun("T001", "pytest -q", 0, "out", result=PYTEST), "task/T001/check/1")
    run.step("contest")
    asked = (CriterionVerdict("contested", True, "it says so"),)
    record(run, VerdictGiven("T001", Result.PASS, Action.PROCEED, "yes", asked), "task/T001/contest/1")
    found = (Tampering("ticks", "The agent ticked T002; the tick was taken back.", "tasks.md"),)
    record(run, Tampered("T001", found), "task/T001/execute/1")
    finding = {"id": "1", "file": "a.py", "line": 3, "severity": "warning", "rule": "E1", "message": "Bad."}
    run.step("review", findings=[finding])
    run.event("task/T001/review/1", "review", task="T001", round=1, findings=1)
    record(run, TaskEnded("T001", True, "done", 1, "c" * 40, 1, "main", proof=PROOF))
    run.on("T002").execute()
    missing = (CriterionVerdict("US1/AC2", False, "nothing logs out"),)
    record(run, VerdictGiven("T002", Result.FAIL, Action.RETRY, "missing", missing), "task/T002/verify/1")
    for number, result in ((1, PYTEST), (2, FAILED)):
        step = f"task/T002/check/{number}"
        record(run, CheckRun("T002", result.command, result.exit_code, "out", result=result), step)
    record(run, TaskEnded("T002", False, "checks failed: make lint", 1))
    run.on("T003").execute().end(True, "accepted by a person")
    data.write(address)
    return RUN
