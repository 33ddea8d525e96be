"""Decides again about what is recorded, under another policy; what the record lacks is said, not guessed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from segue.domain.delivery import is_feedback
from segue.domain.proof import CheckResult, CheckState, Level
from segue.domain.task import TaskKind
from segue.domain.verdict import Action, Result, Verdict
from segue.flow.actions import COUNTED, what_follows
from segue.flow.evidence import checks_verdict
from segue.flow.proving import reaches
from segue.runtime.replay.points import DecisionPoint, RunRecord

_PASSED = Verdict(Result.PASS, Action.PROCEED, "every check that counts passes")


class OtherPolicy(Struct, frozen=True):
    """What is to be different; what is None or empty stays as it was."""

    checks: tuple[str, ...] = ()
    """The checks that count: commands, or patterns of them."""
    resolutions: int | None = None
    require: Level | None = None


class Redecision(Struct, frozen=True):
    """What would have been decided, or why that cannot be said."""

    verdict: Verdict | None = None
    decision: Action | None = None
    lacks: str = ""


def count_checks(results: Sequence[CheckResult], wanted: Sequence[str]) -> tuple[CheckResult, ...]:
    """Return the checks that count; proofs of earlier tasks are no setting, so they always do."""
    return tuple(
        one for one in results if one.of or any(fnmatchcase(one.command, pattern) for pattern in wanted)
    )


def redecide(
    point: DecisionPoint, record: RunRecord, policy: OtherPolicy, limit: Callable[[], int]
) -> Redecision:
    """Return what would have followed, with the recorded answers of those who judged.

    `limit` says how often the run sends a task back where the policy does not.
    """
    if point.decision is None:
        return Redecision(lacks="the run was interrupted here, so that nothing followed yet")
    if point.phase == "end":
        return _redecide_end(point, record, policy)
    if point.phase == "check" and policy.checks:
        return _redecide_checks(point, record, policy, limit)
    return follow(point, point.verdict, record, policy, limit)


def follow(
    point: DecisionPoint, verdict: Verdict, record: RunRecord, policy: OtherPolicy, limit: Callable[[], int]
) -> Redecision:
    """Return what follows from a verdict; what the record shows of the same verdict is not computed again."""
    chooses = record.planned
    same = (verdict.result, verdict.action) == (point.verdict.result, point.verdict.action)
    if not same:
        most = policy.resolutions
        if most is None:
            most = 0 if verdict.result is Result.PASS else limit()
        return Redecision(verdict, what_follows(verdict, point.spent, most, chooses))
    decision, most = point.decision, policy.resolutions
    if most is None or verdict.result is Result.PASS:
        return Redecision(verdict, decision)
    if decision in COUNTED:
        return Redecision(verdict, Action.STOP if point.spent >= most else decision)
    broken = point.phase == "check" and _is_broken(point.checks)
    if decision is Action.STOP and not broken:  # the limit was reached, or the judge asked for it
        return Redecision(verdict, what_follows(verdict, point.spent, most, chooses))
    return Redecision(verdict, decision)


def _redecide_checks(
    point: DecisionPoint, record: RunRecord, policy: OtherPolicy, limit: Callable[[], int]
) -> Redecision:
    if not point.checks:
        return Redecision(lacks="no report of a check is recorded")
    absent = [
        pattern
        for pattern in policy.checks
        if not any(fnmatchcase(one.command, pattern) for one in point.checks if not one.of)
    ]
    if absent:
        return Redecision(lacks=f"no report of {', '.join(absent)} is recorded")
    counted = count_checks(point.checks, policy.checks)
    failed = [one for one in counted if not one.ok]
    before = [one for one in point.checks if not one.ok]
    if not failed:
        if before and record.reruns:
            return Redecision(lacks="the proofs of earlier tasks were not run again in this attempt")
        return follow(point, _PASSED if before else point.verdict, record, policy, limit)
    if _is_broken(failed):
        return Redecision(checks_verdict(counted), Action.STOP)
    if _is_contested(failed) != _is_contested(before):
        return Redecision(lacks="nobody was asked whether the task wants the changed tests")
    if _is_broken(before):  # it was not the limit that stopped it
        most = limit() if policy.resolutions is None else policy.resolutions
        verdict = checks_verdict(counted)
        return Redecision(verdict, what_follows(verdict, point.spent, most))
    return Redecision(checks_verdict(counted), follow(point, point.verdict, record, policy, limit).decision)


def _redecide_end(point: DecisionPoint, record: RunRecord, policy: OtherPolicy) -> Redecision:
    """Compare the proof of a task with another level that is required."""
    ending = point.ending
    if policy.require is None or ending is None or ending.skipped:
        return Redecision(point.verdict, point.decision)
    if not ending.done:
        if ending.reason.startswith("its proof is "):
            return Redecision(lacks="the proof of a task that is not done is not recorded")
        return Redecision(point.verdict, point.decision)
    if ending.proof is None:
        return Redecision(lacks="no proof is recorded")
    returned = is_feedback(point.task)
    kind = record.kinds.get(point.task, TaskKind.BUILD)
    independent = "independent" in record.run.spec.phases
    idle = returned and ending.commit is None
    if idle or reaches(ending.proof, policy.require, kind, returned, independent):
        return Redecision(point.verdict, Action.PROCEED)
    why = f"its proof is `{ending.proof.level}`, but `{policy.require}` would be required"
    return Redecision(Verdict(Result.FAIL, Action.STOP, why), Action.STOP)


def _is_broken(results: Sequence[CheckResult]) -> bool:
    return any(one.state is CheckState.BROKEN for one in results)


def _is_contested(failed: Sequence[CheckResult]) -> bool:
    return bool(failed) and all(one.state is CheckState.CONTESTED for one in failed)
