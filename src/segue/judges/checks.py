"""Check commands as judges: whatever a model concludes, a check that failed is a criterion not met."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from segue.domain.options import Options
from segue.domain.proof import CheckResult, CheckState
from segue.domain.task import Task
from segue.domain.verdict import Action, CriterionVerdict, Evidence, Result, Verdict
from segue.ports import Problem
from segue.system.services import Services

_KEPT = 2000
"""Characters of a failed check to report: its end, where programs say what failed."""

_NOTHING = "no check is configured for {}: nothing shows it is done; set `checks`, or `smoke` for its phase"


class ChecksJudge:
    """Judges by the check commands alone."""

    name = "checks"
    by_checks = True

    def __init__(self, options: Options, services: Services) -> None:
        """It needs neither: what it judges by is in the evidence."""

    def check(self) -> list[Problem]:
        """Report nothing: that there are checks is seen to before a run starts."""
        return []

    async def judge(self, task: Task, evidence: Evidence) -> Verdict:
        """Return PASS if every check passed."""
        met = tuple(
            CriterionVerdict(f"check: {check.command}", True, check.reason or "passed")
            for check in evidence.checks
            if check.ok
        )
        if not evidence.checks:
            return Verdict(Result.FAIL, Action.STOP, _NOTHING.format(task.build_phase or "this task"))
        failed = len(met) < len(evidence.checks)
        said = Verdict(result_of(met), Action.PROCEED, "checks failed" if failed else "all checks pass", met)
        return combine(said, evidence.checks)


def combine(verdict: Verdict, checks: Iterable[CheckResult]) -> Verdict:
    """Add an unmet criterion to the verdict for every check that failed; what is contested is up to judges.

    Combining twice gives the same as combining once.
    """
    known = {criterion.key for criterion in verdict.criteria if not criterion.met}
    failed = [_unmet(check) for check in checks if not check.ok and check.state is not CheckState.CONTESTED]
    added = [criterion for criterion in failed if criterion.key not in known]
    if not added:
        return verdict
    criteria = (*verdict.criteria, *added)
    words = [verdict.reason] if verdict.result is not Result.PASS else []
    words += [" ".join((one.key, one.evidence.partition("\n")[0])) for one in added]
    action = Action.RETRY if verdict.action is Action.PROCEED else verdict.action
    return Verdict(result_of(criteria), action, "; ".join(words), criteria)


def result_of(criteria: Sequence[CriterionVerdict]) -> Result:
    """Return PASS if all criteria are met, PARTIAL if some are, FAIL if none is or there are none."""
    held = [criterion.met for criterion in criteria]
    if not any(held):
        return Result.FAIL
    return Result.PASS if all(held) else Result.PARTIAL


def _unmet(check: CheckResult) -> CriterionVerdict:
    ended = check.reason or f"ended with exit code {check.exit_code}"
    if check.exit_code is None:
        ended = check.reason or "was not run"
    return CriterionVerdict(f"check: {check.command}", False, f"{ended}\n{check.output[-_KEPT:]}".strip())
