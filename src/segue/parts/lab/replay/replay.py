"""Replays runs: what would have been decided under another judge or policy, and what that would have saved.

Each task is replayed as it was recorded. Where its decision differs for the first time, what came later is
no longer known: what was recorded of it would not have been launched as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from segue.domain.errors import JudgeFailed, SegueError, UsageError
from segue.domain.events import Event, TaskStarted
from segue.domain.options import Options
from segue.domain.run import Run
from segue.domain.task import Task
from segue.domain.verdict import Action, Evidence, Verdict, without_secrets
from segue.flow.judging import agree
from segue.judges.checks import ChecksJudge
from segue.parts.lab.replay.decide import (
    OtherPolicy,
    RecordedEvidence,
    RecordLacks,
    Redecision,
    count_checks,
    follow,
    redecide,
)
from segue.parts.lab.replay.points import DecisionPoint, RunRecord, Spending, read_record
from segue.ports import Judge
from segue.runtime.app import App
from segue.runtime.plan import most_resolutions
from segue.runtime.sources import load_run_app
from segue.system.patience import outlast
from segue.system.process.processes import Processes

if TYPE_CHECKING:
    from segue.store.store import Store


class ReplayedDecision(Struct, frozen=True, kw_only=True):
    """One recorded decision, and what it would have been."""

    point: DecisionPoint
    now: Redecision
    reached: bool = True
    """Whether the task would have come here: no decision before it differs."""
    ends: bool = False
    """Whether nothing more would have been launched for the task after it."""

    @property
    def differs(self) -> bool:
        """Whether something else would have followed."""
        return not self.now.lacks and self.now.decision is not self.point.decision

    @property
    def counts(self) -> bool:
        """Whether it is the first decision of its task that differs."""
        return self.reached and self.differs

    def to_json(self) -> dict[str, Any]:
        """Return it as `segue replay --json` prints it."""
        point, now = self.point, self.now
        cost = {"less": msgspec.to_builtins(point.later), "more_launches": 0 if self.ends else None}
        return {
            "run": point.run,
            "task": point.task,
            "step": point.step,
            "phase": point.phase,
            "recorded": _describe(point.verdict, point.decision),
            "replayed": _describe(now.verdict, now.decision) if now.verdict else None,
            "lacks": now.lacks or None,
            "reached": self.reached,
            "differs": self.differs,
            **(cost if self.counts else {}),
        }


def _describe(verdict: Verdict, decision: Action | None) -> dict[str, Any]:
    return {"result": verdict.result, "decision": decision, "reason": verdict.reason}


class Replay(Struct, frozen=True):
    """Everything that was decided again."""

    runs: int
    decisions: tuple[ReplayedDecision, ...]

    @property
    def differences(self) -> list[ReplayedDecision]:
        """The first different decision of each task."""
        return [one for one in self.decisions if one.counts]

    @property
    def undecided(self) -> list[ReplayedDecision]:
        """Those for which the record lacks something."""
        return [one for one in self.decisions if one.now.lacks]

    @property
    def less(self) -> Spending:
        """What was launched after the first different decision of each task."""
        return sum((one.point.later for one in self.differences), Spending())

    @property
    def more(self) -> int:
        """How many tasks would have continued in a way that nobody has recorded."""
        return sum(not one.ends for one in self.differences)

    def to_json(self) -> dict[str, Any]:
        """Return it as `segue replay --json` prints it."""
        return {
            "runs": self.runs,
            "decisions": len(self.decisions),
            "differ": len(self.differences),
            "undecided": len(self.undecided),
            "less": msgspec.to_builtins(self.less),
            "more_launches": None if self.more else 0,
            "tasks_with_more": self.more,
            "rows": [one.to_json() for one in self.decisions],
        }


async def replay_runs(
    store: Store, app: App, runs: Sequence[Run], judges: Sequence[Judge], policy: OtherPolicy
) -> Replay:
    """Decide again about everything that is recorded of some runs. Nothing is written or launched."""
    records = [
        read_record(run, store.steps(run.id), store.events(run.id, kinds=(TaskStarted,))) for run in runs
    ]
    _refuse_unused(records, judges, policy)
    decisions: list[ReplayedDecision] = []
    for record in records:
        decisions += await _RunReplay(store, app, record, judges, policy).replay()
    return Replay(len(runs), tuple(decisions))


class _RunReplay:
    """The replay of one run."""

    def __init__(
        self, store: Store, app: App, record: RunRecord, judges: Sequence[Judge], policy: OtherPolicy
    ) -> None:
        self._store, self._app, self._record = store, app, record
        self._judges, self._policy = judges, policy
        self._limit: Callable[[], int] = cache(self._read_limit)
        self._evidence = cache(self._read_evidence)

    async def replay(self) -> list[ReplayedDecision]:
        """Return every decision of the run that the options are about, with what it would have been."""
        found: list[ReplayedDecision] = []
        left: set[str] = set()
        for point in self._record.points:
            if not self._concerns(point):
                continue
            now = await self._again(point)
            one = ReplayedDecision(point=point, now=now, reached=point.task not in left)
            if one.counts:
                one = replace(one, ends=self._ends(one))
                left.add(point.task)
            found.append(one)
        return found

    def _concerns(self, point: DecisionPoint) -> bool:
        policy = self._policy
        if point.phase == "end":
            return policy.require is not None
        if policy.resolutions is not None:
            return True
        if point.phase == "check":
            return bool(policy.checks)
        return bool(self._judges) or (bool(policy.checks) and point.by_checks)

    async def _again(self, point: DecisionPoint) -> Redecision:
        own = point.by_checks and bool(self._policy.checks)
        if point.phase != "verify" or not (self._judges or own):
            return redecide(point, self._record, self._policy, self._limit)
        checks = point.checks
        if self._policy.checks:
            checks = count_checks(checks, self._policy.checks)
        try:
            verdict = await self._judge(replace(point, checks=checks))
        except RecordLacks as lack:
            return Redecision(lacks=str(lack))
        except JudgeFailed as error:
            return Redecision(lacks=f"the judge gave no usable answer: {error.message}")
        return follow(point, verdict, self._record, self._policy, self._limit)

    async def _judge(self, point: DecisionPoint) -> Verdict:
        """Ask those who judge; the recorded checks are all that `checks` looks at."""
        judges = self._judges or (ChecksJudge(Options(), self._app.services(Processes())),)
        task, evidence = Task(point.task, point.task, ""), Evidence("", (), point.checks)
        if not all(getattr(judge, "by_checks", False) for judge in judges):
            task, evidence = self._evidence().gather(point)
        redact, patience = self._app.redactor().text, self._app.loaded.settings.limits.patience

        async def keep_quiet(_event: Event) -> None:
            return

        said = []
        for judge in judges:
            found = await outlast(partial(judge.judge, task, evidence), patience, keep_quiet)
            said.append((judge.name, without_secrets(found, redact)))
        return said[0][1] if len(said) == 1 else agree(said)

    def _ends(self, one: ReplayedDecision) -> bool:
        """Return whether the task would have ended: it is stopped or skipped, or nobody else looks at it."""
        if one.now.decision in (Action.STOP, Action.SKIP):
            return True
        if one.now.decision is not Action.PROCEED:
            return False
        phases = self._record.run.spec.phases
        return one.point.phase in phases and phases[-1] == one.point.phase

    def _read_limit(self) -> int:
        """Return how often the run sends a task back, by its settings as they are now."""
        settings = load_run_app(self._app, self._record.run).loaded.settings
        return most_resolutions(settings, self._record.planned)

    def _read_evidence(self) -> RecordedEvidence:
        try:
            return RecordedEvidence(self._store, self._app, self._record)
        except (SegueError, OSError, ValueError) as error:
            raise RecordLacks(f"the source cannot be read any more: {error}") from error


def _refuse_unused(records: Sequence[RunRecord], judges: Sequence[Judge], policy: OtherPolicy) -> None:
    """Refuse options that no recorded decision is about."""
    points = [point for record in records for point in record.points]
    if judges and not any(point.phase == "verify" for point in points):
        raise _idle("--judge", "nobody has judged in these runs")
    if policy.checks:
        known = dict.fromkeys(one.command for point in points for one in point.checks if not one.of)
        for pattern in policy.checks:
            if not any(fnmatchcase(command, pattern) for command in known):
                listed = ", ".join(list(known)[:10]) or "none"
                raise _idle(f"--checks {pattern}", f"no such check is recorded (recorded: {listed})")
    if policy.resolutions is not None and all(point.phase == "end" for point in points):
        raise _idle("--policy limits.resolutions", "these runs have no checks and no verdicts")
    if policy.require is not None and not any(point.phase == "end" for point in points):
        raise _idle("--policy require", "no task of these runs has ended")


def _idle(option: str, why: str) -> UsageError:
    return UsageError(f"{option} has no effect: {why}.", hint="Leave it out, or name other runs")
