"""Check that a judge keeps the promises of `segue.ports.Judge`; run this on your own judges too.

def test_my_judge() -> None:
    check_judge(lambda services: MyJudge(MyOptions(), services))
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from segue.domain.errors import JudgeFailed, Unavailable
from segue.domain.proof import CheckResult
from segue.domain.task import Task
from segue.domain.verdict import Action, Criterion, Evidence, Result, Verdict
from segue.parts.conformance.trial import check_promises, describe_repository, expect, expect_ready
from segue.ports import Judge
from segue.system.services import Services

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

    check_promises("judge", begin, (_declares, _concludes, _judges_whole_tasks, _leaves_no_trace, _fails))


class _JudgeTrial(Struct, frozen=True):
    judge: Judge
    failing: Judge | None
    repo: Path


async def _declares(trial: _JudgeTrial) -> None:
    """It says its name, whether it judges by the checks alone or by a model, and that it is ready."""
    for name in ("by_checks", "by_model"):
        expect(isinstance(getattr(trial.judge, name, False), bool), f"{name} is neither true nor false")
    expect_ready(trial.judge)


async def _concludes(trial: _JudgeTrial) -> None:
    """It concludes something about each criterion, or about the checks alone, whatever the evidence is."""
    for evidence in _EVIDENCE:
        verdict = await _judge(trial.judge, TASK, evidence)
        _check_verdict(verdict)
        keys = Counter(entry.key for entry in verdict.criteria)
        expect(keys.total() == len(keys), f"two entries have the same key: {sorted(keys)}")
        own = {criterion.key for criterion in TASK.criteria}
        checks = {f"check: {check.command}" for check in evidence.checks}
        expect(keys.keys() <= own | checks, f"there are entries nobody asked for: {sorted(keys)}")
        expect(own <= keys.keys() or keys.keys() <= checks, f"criteria are missing in {sorted(keys)}")


async def _judges_whole_tasks(trial: _JudgeTrial) -> None:
    """It judges a task without criteria as a whole."""
    for evidence in _EVIDENCE[:2]:
        _check_verdict(await _judge(trial.judge, replace(TASK, criteria=()), evidence))


async def _leaves_no_trace(trial: _JudgeTrial) -> None:
    """It changes no file of the user, no commit and no branch."""
    before = await describe_repository(trial.repo)
    await _judge(trial.judge, TASK, _EVIDENCE[0])
    now = await describe_repository(trial.repo)
    expect(now == before, f"before: {before!r}, afterwards: {now!r}")


async def _fails(trial: _JudgeTrial) -> None:
    """Without an answer it raises JudgeFailed or Unavailable with a message, and concludes nothing."""
    if trial.failing is None:
        return
    try:
        verdict = await trial.failing.judge(TASK, _EVIDENCE[0])
    except (JudgeFailed, Unavailable) as error:
        expect(bool(str(error).strip()), "the message is empty")
    except Exception as error:
        raise AssertionError(f"it raised {type(error).__name__}: {error}") from error
    else:
        raise AssertionError(f"it concluded {verdict}")


async def _judge(judge: Judge, task: Task, evidence: Evidence) -> Verdict:
    try:
        return await judge.judge(task, evidence)
    except Exception as error:
        raise AssertionError(f"it raised {type(error).__name__}: {error}") from error


def _check_verdict(verdict: Verdict) -> None:
    expect(isinstance(verdict, Verdict), f"{verdict!r} is not a Verdict")
    expect(
        (verdict.result is Result.PASS) == (verdict.action is Action.PROCEED),
        f"a pass proceeds and nothing else does, but here {verdict.result} is followed by {verdict.action}",
    )
    unmet = [entry.key for entry in verdict.criteria if not entry.met]
    expect(not unmet or verdict.result is not Result.PASS, f"it passes although these are not met: {unmet}")
    expect(bool(verdict.reason.strip()), "the reason is empty")
    json.dumps(to_builtins(verdict))
