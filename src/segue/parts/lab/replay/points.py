"""Reads from the steps of a run where something was decided about a task, and what followed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.events import Recorded, TaskStarted
from segue.domain.proof import CheckResult
from segue.domain.results import CheckOutput, EndOutput, JudgeOutput, read_as, read_launch
from segue.domain.run import Run, Step
from segue.domain.task import TaskKind
from segue.domain.verdict import Action, Result, Verdict
from segue.flow.actions import COUNTED
from segue.flow.evidence import checks_verdict
from segue.flow.judging import agree
from segue.flow.phase import DIAGNOSTIC, PHASES, REPLAN, RESOLVE, SEARCH
from segue.judges.checks import ChecksJudge

_FOLLOWS = {
    RESOLVE.name: Action.RETRY,
    SEARCH.name: Action.WEB_SEARCH,
    DIAGNOSTIC.name: Action.RUN_DIAGNOSTIC,
}
_NEXT = frozenset(phase.name for phase in PHASES.values() if phase.in_flows) - {REPLAN.name}
"""Phases that come after a decision because the task proceeds. All other steps between say nothing."""
_EDITING = frozenset(phase.name for phase in PHASES.values() if phase.edits)


class Spending(Struct, frozen=True):
    """What launches have used, as far as it is recorded; None: not all of them report it."""

    launches: int = 0
    tokens: int | None = 0
    cost_usd: float | None = 0.0
    seconds: float = 0.0

    def __add__(self, other: Spending) -> Spending:
        tokens = None if self.tokens is None or other.tokens is None else self.tokens + other.tokens
        known = self.cost_usd is not None and other.cost_usd is not None
        cost = (self.cost_usd or 0) + (other.cost_usd or 0) if known else None
        return Spending(self.launches + other.launches, tokens, cost, round(self.seconds + other.seconds, 3))


class DecisionPoint(Struct, frozen=True, kw_only=True):
    """Something that was decided about a task, with what it rested on and what followed."""

    run: str
    task: str
    step: str
    phase: str
    """`check`, `verify` or `end`."""
    verdict: Verdict
    decision: Action | None
    """What followed; None: the run ended before anything did."""
    spent: int = 0
    """How often the task was sent back before."""
    checks: tuple[CheckResult, ...] = ()
    judges: tuple[str, ...] = ()
    work: Step | None = None
    """The last launch that worked on the task."""
    ending: EndOutput | None = None
    later: Spending = Spending()
    """What was used on the task afterwards, until its end."""

    @property
    def by_checks(self) -> bool:
        """Whether the checks alone decided, so that others can be put in their place."""
        return self.judges == (ChecksJudge.name,)


class RunRecord(Struct, frozen=True):
    """What replay needs to know about one run."""

    run: Run
    points: tuple[DecisionPoint, ...]
    kinds: dict[str, TaskKind]
    planned: bool
    """Whether an agent has planned its tasks, so that the judge chooses what follows."""
    reruns: bool
    """Whether proofs of earlier tasks were run again in it."""


def read_record(run: Run, steps: Sequence[Step], started: Iterable[Recorded]) -> RunRecord:
    """Return the decisions of a run, task by task, in their order."""
    by_task: dict[str, list[Step]] = {}
    for step in steps:
        if step.task is not None:
            by_task.setdefault(step.task, []).append(step)
    points = [
        point for key, own in by_task.items() for life in _lives(own) for point in _points(run.id, key, life)
    ]
    return RunRecord(
        run,
        tuple(points),
        {event.event.task: event.event.kind for event in started if isinstance(event.event, TaskStarted)},
        any(step.key.startswith("run/outline") for step in steps),
        any(check.of for point in points for check in point.checks),
    )


def _lives(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Part the steps of a task: after its end, or from another base, it is begun again."""
    life: list[Step] = []
    for step in steps:
        if step.phase == "base" and life:
            yield life
            life = []
        life.append(step)
        if step.phase == "end":
            yield life
            life = []
    if life:
        yield life


def _points(run: str, task: str, life: Sequence[Step]) -> Iterator[DecisionPoint]:
    later = _spent_after(life)
    spent, at = 0, 0
    work: Step | None = None
    for phase, group in groupby(life, key=lambda step: step.phase):
        own = list(group)
        at += len(own)
        if phase in _EDITING:
            work = next((step for step in reversed(own) if step.ended is not None), work)
            continue
        for number, part in enumerate([own] if phase == "verify" else [[step] for step in own], 1):
            end = at if phase == "verify" else at - len(own) + number
            point = _read_point(run, task, part, life[end:])
            if point is None:
                continue
            yield replace(point, spent=spent, work=work, later=later[end])
            spent += point.decision in COUNTED


def _read_point(run: str, task: str, steps: Sequence[Step], rest: Sequence[Step]) -> DecisionPoint | None:
    """Read one decision; None: these steps decide nothing."""
    step = steps[-1]
    if step.ended is None:
        return None
    if step.phase == "check":
        checks = read_as(CheckOutput, step.output).checks
        passed = all(check.ok for check in checks)
        verdict = (
            Verdict(Result.PASS, Action.PROCEED, "all checks pass") if passed else checks_verdict(checks)
        )
        decision = Action.PROCEED if passed else _what_followed(rest)
        return DecisionPoint(
            run=run, task=task, step=step.key, phase="check", verdict=verdict, decision=decision,
            checks=checks,
        )  # fmt: skip
    if step.phase == "verify":
        return _read_verdict(run, task, steps, rest)
    if step.phase == "end":
        ending = read_as(EndOutput, step.output)
        result = Result.PASS if ending.done else Result.FAIL
        decision = Action.PROCEED if ending.done else Action.STOP
        return DecisionPoint(
            run=run, task=task, step=step.key, phase="end", decision=decision, ending=ending,
            verdict=Verdict(result, decision, ending.reason),
        )  # fmt: skip
    return None


def _read_verdict(run: str, task: str, steps: Sequence[Step], rest: Sequence[Step]) -> DecisionPoint | None:
    """Read what those who judge said: of a panel, all; answers that could not be used say nothing."""
    read = [(step, read_as(JudgeOutput, step.output)) for step in steps if "verdict" in step.output]
    said = [(step.agent or "judge", output) for step, output in read if output.failure is None]
    if not said:
        return None
    verdicts = [(name, output.verdict) for name, output in said]
    verdict = verdicts[0][1] if len(verdicts) == 1 else agree(verdicts)
    passed = verdict.result is Result.PASS
    return DecisionPoint(
        run=run,
        task=task,
        step=steps[-1].key,
        phase="verify",
        verdict=verdict,
        decision=Action.PROCEED if passed else _what_followed(rest),
        checks=said[-1][1].checks,
        judges=tuple(name for name, _ in said),
    )


def _what_followed(rest: Sequence[Step]) -> Action | None:
    """Return what followed a verdict that was not PASS, as the next steps show."""
    for step in rest:
        if step.phase in _FOLLOWS:
            return _FOLLOWS[step.phase]
        if step.phase == "end":
            ending = read_as(EndOutput, step.output)
            if ending.skipped:
                return Action.SKIP
            if ending.replanned:
                return Action.MODIFY_PLAN
            return Action.PROCEED if ending.done else Action.STOP
        if step.phase in _NEXT:
            return Action.PROCEED
    return None


def _spent_after(life: Sequence[Step]) -> list[Spending]:
    """Return for each place between the steps what the launches after it have used."""
    found = [Spending()]
    for step in reversed(life):
        found.append(found[-1] + _spending(step))
    return found[::-1]


def _spending(step: Step) -> Spending:
    """Return what one step has used, if it is a launch."""
    output = read_launch(step.input, step.output)
    if output is None:
        return Spending()
    usage = output.usage
    return Spending(
        1, usage.tokens if usage else None, usage.cost_usd if usage else None, round(output.duration, 3)
    )
