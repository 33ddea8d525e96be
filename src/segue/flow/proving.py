"""From everything that was seen of a task to its proof, and whether that is enough."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from segue.domain.amounts import list_some
from segue.domain.delivery import is_feedback
from segue.domain.proof import CheckResult, CheckState, Level, Proof, Seal
from segue.domain.same import keeps_behaviour
from segue.domain.task import TaskKind
from segue.flow.commit import hook_checks
from segue.flow.context import RunContext
from segue.flow.disputes import conclude_tests, words_of
from segue.flow.ratchet import breaks_earlier, count_holding
from segue.flow.state import PhaseEnd, TaskState
from segue.proof.scope import Scope

_NO_TEST = "no test fails without the change"
_HIGHEST = {TaskKind.DOCS: Level.CHECKED, TaskKind.TEST_FIRST: Level.TESTED}
"""The strongest proof that a kind of task allows, where that is less than others."""
_LISTED = 5


async def prove(context: RunContext, state: TaskState) -> Proof:
    """Return how well the task is proven."""
    scope = await measure_change(context, state)
    independent, dropped = conclude_tests(state)
    unseen = independent is not None and bool(independent.proved)
    idle = scope.is_empty and state.task.kind is TaskKind.VERIFY_ONLY
    level, reasons = level_of(
        state.checks, unseen=unseen, inert=bool(scope.untestable), mute=scope.is_comment, idle=idle
    )
    if state.task.kind is TaskKind.VERIFY_ONLY and not level.proven:
        reasons.insert(0, "the task names no command that could be run to verify it")
    again, held = count_holding(context, state)
    if breaks_earlier(context, state):  # something that worked is broken, which `checked` denies
        level = Level.CHANGED
    if held < again:
        reasons.insert(0, f"{again - held} proofs of earlier tasks no longer hold")
    bare = tuple(replace(check, output="", contested=()) for check in state.checks)
    return Proof(
        level=level,
        reasons=(*reasons, *state.notes),
        checks=(*bare, *hook_checks(state)),
        tree=state.tree,
        base=state.base.head,
        mutants=count_mutants(state.checks),
        independent=independent,
        dropped=dropped,
        held=(again, held) if again else None,
        judged=state.judged,
        untestable="" if level.proven else name_untestable(state.checks, scope),
    )


async def measure_change(context: RunContext, state: TaskState) -> Scope:
    """Return what was changed; where no checks ran, there is nothing to compare it for."""
    if not state.checks or not state.tree:
        return Scope()
    commands, sealer = context.checking.commands, context.checking.sealer()
    tested = {path for check in state.checks for path in check.tested}
    return await sealer.measure_scope(state.base.head, state.tree, commands, tested)


def name_untestable(checks: Sequence[CheckResult], scope: Scope) -> str:
    """Return why no test could tell the work; empty: one could, or old tests were changed."""
    return "" if any(check.unsettled for check in checks) else scope.untestable


def level_of(
    checks: Sequence[CheckResult],
    *,
    unseen: bool = False,
    inert: bool = False,
    mute: bool = False,
    idle: bool = False,
) -> tuple[Level, list[str]]:
    """Return the level that checks have shown, and why it is not higher.

    `unseen`: tests that the agent never saw pass, and did not before. `inert`: nothing was changed that a
    program could run. `mute`: only comments were, which can tell a check to be silent. `idle`: nothing was
    changed at all, so there is no change to exercise. A scenario is a test like others: the agent can read
    it.
    """
    own = [check for check in checks if not check.of]
    weak = list(dict.fromkeys(weakness for check in own for weakness in check.weaknesses))
    said = [check for check in own if check.state is not CheckState.NOTHING and not _is_mute(check)]
    if rejecting := [check.cap for check in own if check.state is CheckState.NOTHING and check.cap]:
        return Level.CHANGED, [*rejecting, *weak]
    if not said:
        nothing = [] if any(check.known for check in own) else ["there is nothing to check yet"]
        return Level.CHANGED, [*(nothing if checks else ["no checks ran"]), *weak]
    sealed = [check for check in said if check.seal is not Seal.NONE]
    looking = [check for check in sealed or said if idle or _looks(check, inert)]
    if mute and looking:
        return Level.CHANGED, ["only comments were changed, and a check may be silent because of them", *weak]
    if off := [one.test for check in own for one in check.unsettled if one.off]:
        return Level.CHANGED, [f"old tests fail, and were switched off: {list_some(off, _LISTED)}", *weak]
    if not looking:
        return Level.CHANGED, ["no check is known to exercise the change", *weak]
    if not sealed:
        return Level.CHANGED, ["the agent could touch what the checks rely on", *weak]
    caps = list_caps(sealed)
    settled = not any(check.unsettled for check in sealed)
    if settled and any(check.proving and not (check.cap or check.blunt) for check in looking):
        return (Level.INDEPENDENT if unseen else Level.TESTED), [*caps, *weak]
    return Level.CHECKED, [*(caps or [_NO_TEST]), *weak]


def _looks(check: CheckResult, inert: bool) -> bool:
    # What sabotage of code shows says nothing about a change that is not code.
    return bool(check.proving or check.repaired) if inert else check.exercises


def _is_mute(check: CheckResult) -> bool:
    """Return whether it is a scenario that passed before as it does now."""
    return check.scenario and not check.proved


def list_caps(checks: Sequence[CheckResult]) -> list[str]:
    """Return why checks take a task no further than `checked`, in words; empty: nothing keeps it there."""
    found: dict[str, None] = {}
    for check in checks:
        if check.cap:
            found[check.cap] = None
        if check.unsettled:
            places = [f"{one.path}:{one.line}" if one.line else one.path for one in check.unsettled]
            found[f"tests that were there before were changed: {list_some(places, _LISTED)}"] = None
        if check.blunt:
            found[f"the tests cannot tell right from wrong: {check.blunt}"] = None
        if check.proved and not check.proving:
            found[f"the tests that prove it are flaky: {list_some(check.proved, _LISTED)}"] = None
    return list(found)


def is_enough(context: RunContext, state: TaskState, proof: Proof) -> PhaseEnd:
    """Return whether a proof reaches the level that is required."""
    required = context.policy.require
    returned = is_feedback(state.task.key)
    if required is None or (returned and state.head == state.base.head):
        return PhaseEnd(True, proof=proof)
    same = keeps_behaviour(words_of(context, state.task))
    if reaches(proof, required, state.task.kind, returned, same):
        return PhaseEnd(True, proof=proof)
    why = proof.untestable or (proof.reasons[0] if proof.reasons else "")
    said = f"its proof is `{proof.level}`, but `{required}` is required"
    return PhaseEnd(False, f"{said}: {why}" if why else said, proof=proof)


def reaches(
    proof: Proof, required: Level, kind: TaskKind, returned: bool = False, same: bool = False
) -> bool:
    """Return whether a proof is as strong as is required of a task of this kind.

    `returned`: the task came from a pull request; `same`: it asks for other code that does the same. What has
    nothing to test, or nothing new, reaches what it can.
    """
    if proof.is_accepted or (proof.untestable and (proof.judged or kind is TaskKind.DOCS)):
        return True
    highest = Level.CHECKED if returned or same else _HIGHEST.get(kind, required)
    return proof.level.rank >= min(required.rank, highest.rank)


def count_mutants(checks: Sequence[CheckResult]) -> tuple[int, int] | None:
    """Return how many mutants checks tried, and how many they noticed; None: none were tried."""
    counts = [check.mutants for check in checks if check.mutants is not None and not check.of]
    return (sum(one[0] for one in counts), sum(one[1] for one in counts)) if counts else None
