"""Check that a judge keeps the promises of `segue.ports.Judge`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import Struct, to_builtins

from segue.domain.errors import JudgeFailed, Unavailable
from segue.domain.proof import CheckResult
from segue.domain.task import Task
from segue.domain.verdict import Action, Criterion, Evidence, Result, Verdict
from segue.ports import Judge
from segue.system.services import Services
from tests.conformance.trial import check_promises, describe_repository, expect_ready

MakeJudge = Callable[[Services], Judge]

TASK = Task(
    "1",
    "Greet",
    "Write greet.py.",
    criteria=(Criterion("FR-001", "greet() returns hello."), Criterion("FR-002", "There is a test.")),
)
"""The task that is judged; once more without criteria."""

_DIFF = (
    "diff --git a/greet.py b/greet.py\nnew file mode 100644\n--- /dev/null\n+++ b/greet.py\n@@ -0,0 +1 @@\n"
    '+def greet(): return "hello"\n'
)
_PASSED = CheckResult("pytest -q", 0, "1 passed in 0.01s\n")
_EVIDENCE = (
    Evidence(_DIFF, ("greet.py",), (_PASSED,), "I wrote greet.py."),
    Evidence(_DIFF, ("greet.py",), (_PASSED, CheckResult("mypy .", 1, "greet.py:1: error"))),
    Evidence(_DIFF, ("greet.py",), (CheckResult("nothing-like-this", None, ""),), diagnostics=("git log",)),
    Evidence(_DIFF + "+" + "ü\ud800\x00<<<end of diff>>>" * 1000, ("greet.py",), (_PASSED,)),
    Evidence("", summary="I did nothing."),
)


def check_judge(make: MakeJudge, fails: MakeJudge | None = None) -> None:
    """Raise AssertionError with every promise that the judge breaks.

    `make` builds a judge that gives a verdict of `TASK`; `fails` one that cannot, if there is one.
    """

    def begin(services: Services) -> _JudgeTrial:
        return _JudgeTrial(make(services), fails(services) if fails else None, services.repo)

    check_promises("judge", begin, (_declares, _concludes, _leaves_no_trace, _fails))


class _JudgeTrial(Struct, frozen=True):
    judge: Judge
    failing: Judge | None
    repo: Path


async def _declares(trial: _JudgeTrial) -> None:
    """It says its name, whether it judges by the checks alone or by a model, and that it is ready."""
    for name in ("by_checks", "by_model"):
        assert isinstance(getattr(trial.judge, name, False), bool), f"{name} is neither true nor false"
    expect_ready(trial.judge)


async def _concludes(trial: _JudgeTrial) -> None:
    """It concludes something about each criterion, or about the checks alone, whatever the evidence is."""
    for evidence in _EVIDENCE:
        verdict = await trial.judge.judge(TASK, evidence)
        _check_verdict(verdict)
        keys = Counter(entry.key for entry in verdict.criteria)
        assert keys.total() == len(keys), f"two entries have the same key: {sorted(keys)}"
        own = {criterion.key for criterion in TASK.criteria}
        checks = {f"check: {check.command}" for check in evidence.checks}
        assert keys.keys() <= own | checks, f"there are entries nobody asked for: {sorted(keys)}"
        assert own <= keys.keys() or keys.keys() <= checks, f"criteria are missing in {sorted(keys)}"


async def _leaves_no_trace(trial: _JudgeTrial) -> None:
    """It changes no file of the user, no commit and no branch."""
    before = await describe_repository(trial.repo)
    await trial.judge.judge(TASK, _EVIDENCE[0])
    now = await describe_repository(trial.repo)
    assert now == before, f"before: {before!r}, afterwards: {now!r}"


async def _fails(trial: _JudgeTrial) -> None:
    """Without an answer it raises JudgeFailed or Unavailable with a message, and concludes nothing."""
    if trial.failing is None:
        return
    with pytest.raises((JudgeFailed, Unavailable), match=r"\S"):
        await trial.failing.judge(TASK, _EVIDENCE[0])


def _check_verdict(verdict: Verdict) -> None:
    assert isinstance(verdict, Verdict), f"{verdict!r} is not a Verdict"
    assert (verdict.result is Result.PASS) == (verdict.action is Action.PROCEED), (
        f"a pass proceeds and nothing else does, but here {verdict.result} is followed by {verdict.action}"
    )
    unmet = [entry.key for entry in verdict.criteria if not entry.met]
    assert not unmet or verdict.result is not Result.PASS, f"it passes although these are not met: {unmet}"
    assert bool(verdict.reason.strip()), "the reason is empty"
    json.dumps(to_builtins(verdict))
