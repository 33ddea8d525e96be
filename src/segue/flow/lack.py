"""Tell the agent once what the proof of its work lacks, where the project has tests to show more."""

from __future__ import annotations

from segue.domain.amounts import list_some
from segue.domain.delivery import is_feedback
from segue.domain.events import NoticeGiven
from segue.domain.proof import CheckResult, CheckState, Level
from segue.domain.results import LackOutput, StepFacts, StepResult
from segue.domain.same import keeps_behaviour
from segue.domain.task import TaskKind
from segue.domain.verdict import Action, CriterionVerdict, Result, Verdict
from segue.flow.commit import send_back
from segue.flow.context import RunContext
from segue.flow.disputes import words_of
from segue.flow.phase import CHECK, CONTEST, DISPUTE, EXAM, INDEPENDENT, LACK
from segue.flow.phases.check import check, expected_red
from segue.flow.proving import level_of, list_caps, measure_change, name_untestable
from segue.flow.state import PhaseEnd, TaskState
from segue.proof.scope import Scope

_ADD_ONE = "No test fails without your change. Add one that does, and that would notice a wrong result."
_SETTLE = "Put back what they asserted, unless the task asks for the change; test new behaviour by new tests."
_SHARPEN = "Make the tests notice that. Wrong versions of the changed lines that pass: "
_LISTED = 5


async def check_and_ask(context: RunContext, state: TaskState) -> PhaseEnd:
    """Run the checks; send the agent back once if its work is shown less well than it could be.

    Whatever it reaches then counts.
    """
    ended = await check(context, state)
    if not ended.ok or not _may_ask(context, state):
        return ended
    lack = await _name_lack(context, state)
    if not lack:
        return ended
    before = state.tree
    unmet = CriterionVerdict("proof", False, lack)
    verdict = Verdict(Result.PARTIAL, Action.RETRY, "The work is not shown well enough.", (unmet,))
    sent = await send_back(context, state, verdict, label="proof")
    if not sent.ok:
        # The work was good enough without this launch; only what it left behind is looked at.
        state.now = await context.workspace.arrive((), state.now)
        state.checked = await context.workspace.tree(state.now) == before
    return await check(context, state)


def _may_ask(context: RunContext, state: TaskState) -> bool:
    """Return whether more can be expected of the task, and may be asked for."""
    # Whoever was told of changed tests has been sent back already.
    is_first = state.start.round == 1 and not (is_feedback(state.task.key) or state.told_of_tests)
    has_tests = any(check.runner and not (check.scenario or check.of) for check in state.checks)
    disputed = any(check.state is CheckState.CONTESTED for check in state.checks)
    # It has answered for the old tests that it changed; no new test lifts their cap.
    disputed |= state.told_of_tests and any(check.unsettled for check in state.checks)
    may_resolve = state.resolutions < context.policy.resolutions
    if state.task.kind is not TaskKind.BUILD or not (is_first and has_tests and may_resolve) or disputed:
        return False
    return not expected_red(context, state)


async def _name_lack(context: RunContext, state: TaskState) -> str:
    """Return what the proof lacks, as decided once; empty: nothing, or it is too late to ask."""
    key = f"{state.folder}/{LACK.name}"
    known = context.journal.recorded(key, LackOutput)
    if known is not None:
        return known.output.text
    beside = (INDEPENDENT.name, EXAM.name)  # the exam may be written meanwhile
    phases = [step.phase for step in context.journal.steps(f"{state.folder}/")]
    last = next(phase for phase in reversed(phases) if phase not in beside)
    if last not in (CHECK.name, CONTEST.name, DISPUTE.name, LACK.name):
        return ""  # the task went on before it could be asked, under an earlier version
    scope = await measure_change(context, state)
    lack = "" if _is_shown(context, state, scope) else describe_lack(state.checks)
    if not lack or name_untestable(state.checks, scope):
        return ""

    async def work(_token: str) -> StepResult[LackOutput]:
        if context.launcher.budgets.exceeded(context.view, state.task.key) is not None:
            return StepResult(True, LackOutput())
        text = f"Task {state.task.key} is sent back once for a stronger proof: {lack}"
        await context.emit(NoticeGiven(context.redact(text), task=state.task.key), key)
        return StepResult(True, LackOutput(lack))

    facts = StepFacts(state.task.key, LACK.name, build_phase=state.task.build_phase)
    return (await context.journal.step(key, LackOutput, work, facts=facts)).output.text


def _is_shown(context: RunContext, state: TaskState, scope: Scope) -> bool:
    """Return whether behaviour must be the same, or code is, and nothing is broken where tests look."""
    level, _ = level_of(state.checks)
    settled = not any(check.cap or check.unsettled for check in state.checks)
    if not settled or level.rank < Level.CHECKED.rank:
        return False
    return scope.keeps_code or keeps_behaviour(words_of(context, state.task))


def describe_lack(checks: tuple[CheckResult, ...]) -> str:
    """Return what an agent must do for a stronger proof; empty: tests prove the work."""
    level, _ = level_of(checks)
    if level.rank >= Level.TESTED.rank:
        return ""
    own = [check for check in checks if not check.of]
    said = [] if any(check.proved for check in own) else [_ADD_ONE]
    said += [f"{cap[:1].upper()}{cap[1:]}." for cap in list_caps(own)]
    if any(check.unsettled for check in own):
        said.append(_SETTLE)
    if survivors := [one for check in own for one in check.survivors]:
        said.append(_SHARPEN + list_some(survivors, _LISTED))
    return " ".join(said) or _ADD_ONE
