"""Decides again about what is recorded, by evidence put together from the record; what it lacks is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from segue.domain.delivery import is_feedback
from segue.domain.events import ContractMade, PatchMade, PlanRevised, TaskMarked
from segue.domain.kinds import with_kinds
from segue.domain.proof import CheckResult, CheckState, Level
from segue.domain.results import LaunchOutput, read_as
from segue.domain.task import Task, TaskKind
from segue.domain.verdict import Action, Evidence, Result, Verdict
from segue.flow.actions import COUNTED, what_follows
from segue.flow.evidence import checks_verdict
from segue.flow.proving import reaches
from segue.parts.lab.replay.points import DecisionPoint, RunRecord
from segue.ports import Source
from segue.prompts.judge import criteria_of
from segue.runtime.app import App
from segue.runtime.guard import digest_tasks
from segue.runtime.plan import kind_rules
from segue.runtime.sources import load_run_app

if TYPE_CHECKING:
    from segue.store.store import Store


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
    if not (ending.done or ending.reason.startswith("its proof is ")):
        return Redecision(point.verdict, point.decision)
    if ending.proof is None:
        return Redecision(lacks="no proof is recorded")
    returned = is_feedback(point.task)
    kind = record.kinds.get(point.task, TaskKind.BUILD)
    idle = returned and ending.commit is None
    if idle or reaches(ending.proof, policy.require, kind, returned):
        return Redecision(point.verdict, Action.PROCEED)
    why = f"its proof is `{ending.proof.level}`, but `{policy.require}` would be required"
    return Redecision(Verdict(Result.FAIL, Action.STOP, why), Action.STOP)


def _is_broken(results: Sequence[CheckResult]) -> bool:
    return any(one.state is CheckState.BROKEN for one in results)


def _is_contested(failed: Sequence[CheckResult]) -> bool:
    return bool(failed) and all(one.state is CheckState.CONTESTED for one in failed)


_KINDS = (PatchMade, PlanRevised, TaskMarked, ContractMade)


class RecordLacks(Exception):
    """The record does not contain what is needed to judge again; the text says what."""


class RecordedEvidence:
    """The evidence of one run, as its journal has it."""

    def __init__(self, store: Store, app: App, record: RunRecord) -> None:
        self._record = record
        self._own = load_run_app(app, record.run)
        spec = record.run.spec
        self._source: Source = self._own.source(spec.source, Path(spec.repo), spec.source_kind)
        self._patches: dict[str, PatchMade] = {}
        self._marks: dict[str, str] = {}
        self._planned: dict[str, Task] = {}
        self._contract = ""
        for recorded in store.events(record.run.id, kinds=_KINDS):
            match recorded.event:
                case PatchMade() as patch:
                    self._patches[recorded.step or ""] = patch
                case PlanRevised() as revised:
                    self._planned |= {task.key: task for task in revised.new}
                case TaskMarked() as marked if marked.digest:
                    self._marks[marked.task] = marked.digest
                case ContractMade() as contract:
                    self._contract = contract.digest
        self._tasks = {} if record.planned else self._read_tasks()

    def _read_tasks(self) -> dict[str, Task]:
        """Return the tasks of the source that are known to be as they were."""
        tasks = with_kinds(self._source.look(), kind_rules(self._own)).tasks
        if digest_tasks(tasks) == self._contract:
            return {task.key: task for task in tasks}
        return {
            task.key: task for task in tasks if self._marks.get(task.key) == self._source.fingerprint(task)
        }

    def gather(self, point: DecisionPoint) -> tuple[Task, Evidence]:
        """Return the task and the evidence of a verdict. Raises RecordLacks."""
        task = self._task(point)
        work = point.work
        if work is None or "verdict" not in work.output:
            raise RecordLacks("no launch is recorded that worked on the task")
        left = read_as(LaunchOutput, work.output)
        if left.files_changed > len(left.files):
            raise RecordLacks(f"only {len(left.files)} of {left.files_changed} changed files are recorded")
        chooses = self._record.planned
        evidence = Evidence(
            self._diff(work.key, left),
            left.files,
            point.checks,
            left.text,
            tuple(self._own.loaded.settings.diagnostics.allow) if chooses else None,
            self._own.redactor().text(self._source.context(task)) if chooses else "",
        )
        return task, evidence

    def _diff(self, step: str, left: LaunchOutput) -> str:
        patch = self._patches.get(step)
        if patch is None:
            if left.changed:
                raise RecordLacks("the patch is not recorded")
            return ""
        if patch.cut:
            raise RecordLacks(f"the recorded patch is cut by {patch.cut} characters")
        return patch.diff

    def _task(self, point: DecisionPoint) -> Task:
        task = (self._planned if self._record.planned else self._tasks).get(point.task)
        if task is None:
            raise RecordLacks("the text of the task is not recorded, and the source has changed since")
        asked = [one.key for one in point.verdict.criteria if not one.key.startswith("check: ")]
        criteria = criteria_of(task)
        if asked and asked != [one.key for one in criteria] and not point.by_checks:
            raise RecordLacks("the criteria have changed since then")
        if any(one.of_story for one in criteria):
            raise RecordLacks("its story was judged as a whole, and the diff of a story is not recorded")
        return task
