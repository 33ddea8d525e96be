"""From everything that was seen of a task to its proof, and whether that is enough."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from segue.domain.delivery import is_feedback
from segue.domain.proof import CheckResult, CheckState, Level, Proof, Seal
from segue.domain.task import TaskKind
from segue.flow.commit import hook_checks
from segue.flow.context import RunContext
from segue.flow.disputes import conclude_tests
from segue.flow.state import PhaseEnd, TaskState

_HIGHEST = {TaskKind.DOCS: Level.CHECKED, TaskKind.TEST_FIRST: Level.TESTED}
"""The strongest proof that a kind of task allows, where that is less than others."""


def prove(context: RunContext, state: TaskState, mutants: tuple[int, int] | None) -> Proof:
    """Return how well the task is proven; of its `mutants`, so many were tried and noticed."""
    level, reasons = level_of(state.checks, judged=state.judged)
    independent, dropped = conclude_tests(state)
    if independent is not None and independent.proved and level is Level.TESTED:
        level = Level.INDEPENDENT
    if state.task.kind is TaskKind.VERIFY_ONLY and not level.proven:
        reasons.insert(0, "the task names no command that could be run to verify it")
    again, held = _hold(context, state)
    if again and held < again:
        reasons.insert(0, f"{again - held} proofs of earlier tasks no longer hold")
    elif again and level.rank >= _before_held(context.policy.independent).rank:
        level = Level.HELD
    bare = tuple(replace(check, output="", contested=()) for check in state.checks)
    bare += hook_checks(state)
    return Proof(
        level=level,
        reasons=(*reasons, *state.notes),
        checks=bare,
        tree=state.tree,
        base=state.base.head,
        mutants=mutants,
        independent=independent,
        dropped=dropped,
        held=(again, held) if again else None,
    )


def _before_held(independent: bool) -> Level:
    """Return the level that a task needs before it can be `held`."""
    return Level.INDEPENDENT if independent else Level.TESTED


def _hold(context: RunContext, state: TaskState) -> tuple[int, int]:
    """Return how many proofs of earlier tasks were run again now, and how many still hold."""
    again = [check for check in state.checks if check.of]
    ran, holding = len(again), sum(check.ok for check in again)
    if not any(check.passed or check.proved for check in state.checks if not check.scenario):
        return ran, holding
    gone = {test for check in state.checks for test in (*check.failing, *check.broken)}
    gone |= {test for check in state.checks for one in check.contested for test in one.tests}
    earlier = [
        {test for check in task.proof.checks if not check.scenario for test in check.proved}
        for task in context.view.tasks.values()
        if task.key != state.task.key and task.kind is not TaskKind.TEST_FIRST and task.proof is not None
    ]
    proofs = [tests for tests in earlier if tests]
    return ran + len(proofs), holding + sum(not tests & gone for tests in proofs)


def level_of(checks: Sequence[CheckResult], *, judged: bool) -> tuple[Level, list[str]]:
    """Return the level that checks and judges have shown, and why it is not higher."""
    own = [check for check in checks if not check.of]
    reasons = list(dict.fromkeys(weakness for check in own for weakness in check.weaknesses))
    if any(check.scenario and check.proved for check in own):
        return Level.INDEPENDENT, reasons
    least = Level.JUDGED if judged else Level.CHANGED
    said = [check for check in own if check.state is not CheckState.NOTHING and not check.scenario]
    if not said:
        nothing = [] if any(check.known for check in own) else ["there is nothing to check yet"]
        return least, [*(nothing if checks else ["no checks ran"]), *reasons]
    sealed = [check for check in said if check.seal is not Seal.NONE]
    if not any(check.exercises for check in sealed or said):
        return least, ["no check is known to exercise the change", *reasons]
    if not sealed:
        return least, ["the agent could touch what the checks rely on", *reasons]
    if any(check.proved for check in sealed):
        return Level.TESTED, reasons
    return Level.CHECKED, ["no test failed before and passes now", *reasons]


def is_enough(context: RunContext, state: TaskState, proof: Proof) -> PhaseEnd:
    """Return whether a proof reaches the level that is required."""
    required = context.policy.require
    returned = is_feedback(state.task.key)
    if required is None or (returned and state.head == state.base.head):
        return PhaseEnd(True)
    if reaches(proof, required, state.task.kind, returned, context.policy.independent):
        return PhaseEnd(True)
    why = f": {proof.reasons[0]}" if proof.reasons else ""
    return PhaseEnd(False, f"its proof is `{proof.level}`, but `{required}` is required{why}")


def reaches(proof: Proof, required: Level, kind: TaskKind, returned: bool, independent: bool) -> bool:
    """Return whether a proof is as strong as is required of a task of this kind.

    `returned`: the task came from a pull request. `independent`: the run asks for independent tests.
    """
    # There is nothing to hold before the first proof.
    aim = _before_held(independent) if required is Level.HELD and proof.held is None else required
    highest = Level.CHECKED if returned else _HIGHEST.get(kind, aim)
    return proof.level.rank >= min(aim.rank, highest.rank)


async def score_mutants(_context: RunContext, state: TaskState) -> tuple[int, int] | None:
    """Return how many mutants were tried against the tests that prove a task, and how many were noticed."""
    counts = [check.mutants for check in state.checks if check.mutants is not None and not check.of]
    return (sum(one[0] for one in counts), sum(one[1] for one in counts)) if counts else None
