"""All must agree: a check that failed is a criterion not met, whatever the model says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.proof import CheckResult
from segue.domain.verdict import Action, CriterionVerdict, Result, Verdict
from segue.judges.checks import combine, result_of

MET = CriterionVerdict("FR-001", True, "return 404")
UNMET = CriterionVerdict("FR-002", False, "no test")
GOOD = CheckResult("pytest -q", 0, "2 passed")
BAD = CheckResult("mypy .", 1, "app.py:1: error\n")
NOT_RUN = CheckResult("make e2e", None, "")

verdicts = st.lists(st.sampled_from([MET, UNMET]), max_size=3).map(
    lambda found: Verdict(result_of(found), Action.PROCEED, "said", tuple(found))
)
checks = st.lists(st.sampled_from([GOOD, BAD, NOT_RUN]), max_size=4)


def test_checks_that_passed_change_nothing() -> None:
    verdict = Verdict(Result.PASS, Action.PROCEED, "all", (MET,))
    assert combine(verdict, [GOOD]) is verdict


@pytest.mark.parametrize(
    ("check", "said"), [(BAD, "ended with exit code 1\napp.py:1: error"), (NOT_RUN, "was not run")]
)
def test_a_failed_check_turns_a_pass(check: CheckResult, said: str) -> None:
    verdict = combine(Verdict(Result.PASS, Action.PROCEED, "all", (MET,)), [GOOD, check])
    assert (verdict.result, verdict.action) == (Result.PARTIAL, Action.RETRY)
    assert verdict.criteria[-1] == CriterionVerdict(f"check: {check.command}", False, said)
    assert f"check: {check.command}" in verdict.reason
    assert "all" not in verdict.reason.split()


def test_what_the_model_missed_is_kept_beside_the_check() -> None:
    verdict = combine(Verdict(Result.FAIL, Action.STOP, "Not met: FR-002 (no test)", (UNMET,)), [BAD])
    assert verdict.reason == "Not met: FR-002 (no test); check: mypy . ended with exit code 1"
    assert (verdict.result, verdict.action) == (Result.FAIL, Action.STOP)


@given(verdicts, checks)
def test_pass_needs_every_criterion_and_every_check(verdict: Verdict, found: list[CheckResult]) -> None:
    together = combine(verdict, found)
    all_hold = bool(verdict.criteria) and all(criterion.met for criterion in verdict.criteria)
    assert (together.result is Result.PASS) == (all_hold and all(check.exit_code == 0 for check in found))
    assert combine(together, found) == together
