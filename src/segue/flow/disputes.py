"""Disputes about tests: independent ones that the work contradicts, and old ones that the agent changed."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from segue.domain.amounts import list_some
from segue.domain.events import NoticeGiven
from segue.domain.proof import CheckResult, CheckState, HowSettled, IndependentTests, Proof
from segue.domain.same import keeps_behaviour
from segue.domain.task import Task
from segue.domain.text import cut_text
from segue.domain.verdict import (
    CONTESTED,
    Action,
    Criterion,
    CriterionVerdict,
    Evidence,
    Result,
    Verdict,
)
from segue.flow.context import RunContext
from segue.flow.evidence import describe_change
from segue.flow.exam import ask_again
from segue.flow.judging import ask_judge, no_verdict
from segue.flow.phase import CONTEST, DISPUTE
from segue.flow.state import TaskState
from segue.prompts.exam import MoreTests
from segue.prompts.judge import contested_text
from segue.proof.exam import find_failing, is_given
from segue.proof.independent import is_in, without_lines

_ARE_RIGHT = (
    "The failing tests ask for what the task asks for, or for what an earlier task asked for and this one "
    "leaves as it is: the work is wrong, not the tests."
)
_HINT = (
    "The failing tests were written from the task's text by somebody else; they are not in your work tree."
)


_LOST = "independent tests are not on this machine, or were deleted, and did not run"


async def lay_tests(context: RunContext, state: TaskState, command: str, tree: str) -> tuple[str, str]:
    """Return the base and the work with the independent tests that a check runs.

    The base has those of earlier tasks, which must still pass; the work has those of this task as well.
    """
    base, testing = state.base.head, context.testing
    wanted = (_earlier(context, state), _own(state))
    earlier, own = ([one.commit for one in several if command in one.commands] for several in wanted)
    if testing is None or not (earlier or own):
        return base, tree
    lost = {commit for commit in (*earlier, *own) if not await testing.has(commit)}
    if lost and _LOST not in state.notes:
        state.notes.append(_LOST)
    earlier, own = ([one for one in several if one not in lost] for several in (earlier, own))
    # A file that is dropped as a whole would stop what runs all files at once.
    dropped = dropped_tests(context, state)
    before = await testing.lay_over(base, earlier, dropped) if earlier else base
    return before, await testing.lay_over(tree, [*earlier, *own], dropped)


def dropped_tests(context: RunContext, state: TaskState) -> set[str]:
    """Return the independent tests that may fail."""
    return set(state.own_tests.dropped).union(*(proof.dropped for proof in _proofs(context, state)))


async def explain_failure(context: RunContext, state: TaskState, result: CheckResult) -> CheckResult:
    """Tell what happened with tests that the agent cannot see, and none of their lines."""
    testing, failing = context.testing, _independent(context, state, result.failing)
    if testing is None or not failing:
        return result
    known = (*_own(state), *_earlier(context, state))
    shown = [one.commit for one in known if any(is_in(test, one.files) for test in failing)]
    source = "\n".join([await testing.show(commit) for commit in shown if await testing.has(commit)])
    reason = result.reason if result.ok else f"{result.reason} {_HINT}"
    return replace(result, reason=reason, output=without_lines(result.output, source))


async def drop_wrong_tests(context: RunContext, state: TaskState, failed: Sequence[CheckResult]) -> bool:
    """Decide about independent tests that fail while nothing else does; return whether some are dropped."""
    if await _replace_unnamed(context, state, failed):
        return True
    tests = {test for result in failed for test in result.failing}
    disputed = _independent(context, state, tests)
    only = all(result.state is CheckState.FAILED and result.failing for result in failed)
    if not only or disputed != tests:
        disputed = await _fail_alone(context, state)
        if not disputed:
            return _withdraw_tests(state, failed)
    own = state.own_tests
    open_ones = disputed - own.upheld
    is_last = state.resolutions >= context.policy.resolutions or state.tree == own.told_at
    if not open_ones or (is_last and not has_judges(context)):
        return _set_aside(context, state, disputed)
    if await _are_right(context, state, open_ones, failed):
        state.own_tests = replace(own, upheld=own.upheld | open_ones, told_at=state.tree)
        return False
    state.own_tests = replace(own, dropped=own.dropped | open_ones)
    state.notes.append(
        f"independent tests were dropped, because a judge found that they ask for something else: "
        f"{_some(open_ones)}"
    )
    return True


async def _fail_alone(context: RunContext, state: TaskState) -> set[str]:
    """Return the independent tests of the task that the work fails whatever else runs.

    Nothing is tried where something else failed without them, too.
    """
    own, failing = state.own_tests, set[str]()
    if own.tests is None or state.tree != own.passed_without:
        return failing
    words = words_of(context, state.task)
    names = await context.checking.sealer().describe_result(state.base.head, state.tree)
    for argv in context.checking.commands:
        if shlex.join(argv) not in own.tests.commands:
            continue
        _, tree = await lay_tests(context, state, shlex.join(argv), state.tree)
        ended = await context.checking.sealer().run_twice(argv, state.base.head, tree, own.tests.files)
        if ended is not None:
            failing |= find_failing(*ended, own.tests.files, words, names)[0].keys()
    return failing - own.dropped


async def _replace_unnamed(context: RunContext, state: TaskState, failed: Sequence[CheckResult]) -> bool:
    """Drop tests that fail for want of a name that the task does not give; ask for others with those it has.

    Returns whether some were dropped.
    """
    task = state.task
    words = f"{words_of(context, task)}\n{context.redact(context.source.context(task))}"
    own = state.own_tests
    lacking = {test: name for result in failed for test, name in result.unnamed if test not in own.dropped}
    if not lacking:
        return False
    made = await context.checking.sealer().describe_result(state.base.head, state.tree)
    found = {test: name for test, name in lacking.items() if not is_given(name, words, made)}
    if not found:
        return False
    state.own_tests = replace(own, dropped=own.dropped | found.keys())
    names = tuple(dict.fromkeys(found.values()))
    state.notes.append(
        f"independent tests were dropped, because they use names that the task does not give "
        f"({list_some(names, 5)}): {_some(found)}"
    )
    await ask_again(context, state, MoreTests(unnamed=names))
    return True


def unseen_files(state: TaskState) -> tuple[str, ...]:
    """Return the files with the independent tests of the task."""
    return tuple(path for one in _own(state) for path in one.files)


def own_failures(state: TaskState, failed: Sequence[CheckResult]) -> set[str]:
    """Return the independent tests of the task that fail."""
    files = unseen_files(state)
    return {test for result in failed for test in result.failing if is_in(test, files)}


def _set_aside(context: RunContext, state: TaskState, tests: set[str]) -> bool:
    """Continue without tests that the work still contradicts, where nobody can decide who is right.

    They stay on the record, and cap the level (`conclude_changes`).
    """
    own = state.own_tests
    if has_judges(context) or any(not is_in(test, one.files) for test in tests for one in _own(state)):
        return False
    state.own_tests = replace(own, dropped=own.dropped | tests, contradicted=own.contradicted | tests)
    return True


def _withdraw_tests(state: TaskState, failed: Sequence[CheckResult]) -> bool:
    """Give the tests up if the checks were content without them and cannot be run, or break, with them."""
    if state.own_tests.tests is None or state.tree != state.own_tests.passed_without:
        return False
    state.own_tests = replace(state.own_tests, tests=None)
    why = failed[0].reason or failed[0].command
    state.notes.append(
        f"the independent tests were dropped, because the checks cannot be run with them: {why}"
    )
    return True


def conclude_tests(state: TaskState) -> tuple[IndependentTests | None, tuple[str, ...]]:
    """Return what the independent tests of the task have shown, and those that show nothing."""
    tests, dropped = state.own_tests.tests, state.own_tests.dropped
    if tests is None:
        return None, tuple(sorted(dropped))
    proved = {test for one in state.checks for test in one.proved if is_in(test, tests.files)}
    keeps = keeps_behaviour(f"{state.task.title}\n{state.task.text}")  # then tests passed before, too
    vain = [test for one in state.checks for test in (*(() if keeps else one.idle), *one.lucky)]
    idle = {test for test in vain if is_in(test, tests.files)}
    if lucky := {test for one in state.checks for test in one.lucky}:
        state.notes.append(f"independent tests pass whatever the work does: {_some(lucky)}")
    return replace(tests, proved=tuple(sorted(proved))), tuple(sorted(dropped | idle))


async def _are_right(
    context: RunContext, state: TaskState, tests: Collection[str], failed: Sequence[CheckResult]
) -> bool:
    """Ask the judges, who see both sides; without one, the tests are right until the agent has answered."""
    if context.judging is None or not has_judges(context):
        return True
    known = (*_own(state), *_earlier(context, state))
    shown = [one for one in known if any(is_in(test, one.files) for test in tests)]
    testing = context.testing
    sides = [await testing.show(one.commit) for one in shown if testing is not None]
    sides.append(await context.workspace.diff(state.base.head, state.tree))
    files = tuple(dict.fromkeys(path for one in shown for path in one.files))
    evidence = Evidence(context.redact("\n".join(sides)), files, tuple(failed), state.last.summary)
    question = replace(state.task, criteria=(Criterion(_TESTS, _ARE_RIGHT),))
    found = await ask_judge(context, context.judging, state, DISPUTE, question, evidence)
    if found.failure is not None:
        raise no_verdict(context, state, found.verdict.reason)
    # That the checks fail, which makes the whole no pass, is what the question is about.
    return any(one.key == _TESTS and one.met for one in found.verdict.criteria)


_TESTS = "tests"
_ASKED_FOR = "The task asks for these tests or control files to be changed in this way."
_SAID = 160


def has_judges(context: RunContext) -> bool:
    """Return whether somebody can decide who is right."""
    return context.judging is not None and context.judging.decides_contests


def words_of(context: RunContext, task: Task) -> str:
    """Return what a task says, for those who compare it with what was changed."""
    return context.redact("\n".join((task.title, task.text, *(one.text for one in task.criteria))))


async def let_judges_settle(
    context: RunContext, state: TaskState, results: tuple[CheckResult, ...]
) -> tuple[CheckResult, ...]:
    """Let the judges, who see both versions, decide about changed tests that nothing else has settled."""
    disputed = [one for one in results if one.ok and one.contested]
    if context.judging is None or not has_judges(context) or not disputed:
        return results
    if any(not one.ok for one in results):
        return results
    question = replace(state.task, criteria=(Criterion(CONTESTED, _ASKED_FOR),))
    texts = [contested_text(one) for result in disputed for one in result.contested]
    files = tuple(one.path for result in disputed for one in result.contested)
    evidence = Evidence(context.redact("\n".join(texts)), files, (), state.last.summary)
    found = await ask_judge(context, context.judging, state, CONTEST, question, evidence)
    if found.failure is not None:
        raise no_verdict(context, state, found.verdict.reason)
    asked = found.verdict.result is Result.PASS
    text = "Changed tests were found to be what the task asks for" if asked else "Changed tests were refused"
    await context.emit(NoticeGiven(f"{text}: {', '.join(files[:5])}.", task=state.task.key))
    return tuple(_judge_changes(one, asked) if one in disputed else one for one in results)


def _judge_changes(result: CheckResult, asked: bool) -> CheckResult:
    if not asked:
        tests = list_changes(result)
        reason = f"A judge found that the task does not ask for these changes of tests: {'; '.join(tests)}"
        return replace(result, state=CheckState.CONTESTED, reason=reason)
    why = "A judge saw both versions and found that the task asks for it."
    changed = [
        replace(one, how=HowSettled.JUDGED, why=why) if one.how is HowSettled.UNSETTLED else one
        for one in result.changed_tests
    ]
    return replace(result, changed_tests=tuple(changed), contested=())


def list_changes(result: CheckResult) -> list[str]:
    """Return where old tests were changed although nothing asks for it."""
    return [
        f"{one.path}:{one.line}" if one.line else one.path
        for one in result.changed_tests
        if one.how is HowSettled.UNSETTLED
    ]


def name_changed_tests(state: TaskState, results: Sequence[CheckResult] | None = None) -> Verdict | None:
    """Return what to tell the agent about old tests that it changed unasked; None: nothing (any more)."""
    if state.told_of_tests:
        return None
    criteria, reasons = [], []
    for result in state.checks if results is None else results:
        open_ones = [one for one in result.changed_tests if one.how is HowSettled.UNSETTLED]
        for place, one in zip(list_changes(result), open_ones, strict=True):
            text = f"{place} was changed although the task does not ask for it: put it back or say why."
            criteria.append(CriterionVerdict(f"old test: {one.test or place}", False, f"{text} {one.why}"))
            reasons.append(f"{place} {describe_change(one.why)} although the task does not ask for it")
    if not criteria:
        return None
    return Verdict(Result.PARTIAL, Action.RETRY, "; ".join(dict.fromkeys(reasons)), tuple(criteria))


def conclude_changes(context: RunContext, state: TaskState) -> tuple[CheckResult, ...]:
    """Return the checks with what the agent says about tests that nothing settles, and with their cap."""
    said = cut_text(" ".join(context.redact(state.last.summary).split()), _SAID)
    results = list(state.checks)
    for at, result in enumerate(results):
        if state.told_of_tests and said and list_changes(result):
            changed = [
                replace(one, why=f"{one.why} The agent says: “{said}”")
                if one.how is HowSettled.UNSETTLED
                else one
                for one in result.changed_tests
            ]
            results[at] = replace(result, changed_tests=tuple(changed))
        tests = state.own_tests.tests
        if state.own_tests.contradicted and (tests is None or result.command in tests.commands):
            cap = f"independent tests contradict the work: {_some(state.own_tests.contradicted)}"
            results[at] = replace(results[at], cap=results[at].cap or cap)
    return tuple(results)


def _independent(context: RunContext, state: TaskState, tests: Collection[str]) -> set[str]:
    files = [path for one in (*_own(state), *_earlier(context, state)) for path in one.files]
    return {test for test in tests if is_in(test, files)} if files else set()


def _own(state: TaskState) -> tuple[IndependentTests, ...]:
    return (state.own_tests.tests,) if state.own_tests.tests is not None else ()


def _earlier(context: RunContext, state: TaskState) -> list[IndependentTests]:
    return [one.independent for one in _proofs(context, state) if one.independent is not None]


def _proofs(context: RunContext, state: TaskState) -> list[Proof]:
    others = (task for task in context.view.tasks.values() if task.key != state.task.key)
    return [task.proof for task in others if task.proof is not None]


def _some(tests: Collection[str]) -> str:
    listed = sorted(tests)
    return ", ".join(listed[:5]) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")
