"""From everything that was seen of a task to its proof, and whether that is enough."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from segue.domain.proof import CheckResult, CheckState, Level, Proof
from segue.domain.task import TaskKind
from segue.flow.context import RunContext
from segue.flow.state import PhaseEnd, TaskState

_HIGHEST = {TaskKind.DOCS: Level.CHECKED}
"""The strongest proof that a kind of task allows, where that is less than others."""


def prove(state: TaskState) -> Proof:
    """Return how well the task is proven."""
    level, reasons = level_of(state.checks, judged=state.judged)
    bare = tuple(msgspec.structs.replace(check, output="", contested=()) for check in state.checks)
    return Proof(
        level=level,
        reasons=tuple(reasons),
        checks=bare,
        tree=state.tree,
        base=state.base.head,
    )


def level_of(checks: Sequence[CheckResult], *, judged: bool) -> tuple[Level, list[str]]:
    """Return the level that checks and judges have shown, and why it is not higher."""
    reasons = list(dict.fromkeys(weakness for check in checks for weakness in check.weaknesses))
    least = Level.JUDGED if judged else Level.CHANGED
    said = [check for check in checks if check.state not in (CheckState.NOTHING,)]
    if not said:
        return least, ["there is nothing to check yet" if checks else "no checks ran", *reasons]
    if all(check.noticed is False for check in said):
        return least, ["no check exercises the change", *reasons]
    if any(check.proved for check in said):
        return Level.TESTED, reasons
    return Level.CHECKED, ["no test failed before and passes now", *reasons]


def is_enough(context: RunContext, state: TaskState, proof: Proof) -> PhaseEnd:
    """Return whether a proof reaches the level that is required."""
    required = context.policy.require
    if required is None:
        return PhaseEnd(True)
    wanted = min(required, _HIGHEST.get(state.task.kind, required), key=lambda level: level.rank)
    if proof.level.rank >= wanted.rank:
        return PhaseEnd(True)
    why = f": {proof.reasons[0]}" if proof.reasons else ""
    return PhaseEnd(False, f"its proof is `{proof.level}`, but `{required}` is required{why}")
