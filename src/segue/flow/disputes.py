"""Independent tests in the checks: laid over base and work, and judged where they and the work disagree."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from segue.domain.proof import CheckResult, CheckState, IndependentTests, Proof
from segue.domain.verdict import Criterion, Evidence, Result
from segue.flow.context import RunContext
from segue.flow.judging import ask_judges, no_verdict
from segue.flow.phase import DISPUTE
from segue.flow.state import TaskState
from segue.proof.independent import is_in

_ARE_RIGHT = (
    "The failing tests ask for what the task asks for, or for what an earlier task asked for and this one "
    "leaves as it is: the work is wrong, not the tests."
)
_HINT = (
    "The failing tests were written from the task's text by somebody else; they are not in your work tree."
)


async def lay_tests(context: RunContext, state: TaskState, command: str, tree: str) -> tuple[str, str]:
    """Return the base and the work with the independent tests that a check runs.

    The base has those of earlier tasks, which must still pass; the work has those of this task as well.
    """
    base, testing = state.base.head, context.testing
    earlier = [one.commit for one in _earlier(context, state) if command in one.commands]
    own = [one.commit for one in _own(state) if command in one.commands]
    if testing is None or not (earlier or own):
        return base, tree
    before = await testing.lay_over(base, earlier) if earlier else base
    return before, await testing.lay_over(tree, [*earlier, *own])


def dropped_tests(context: RunContext, state: TaskState) -> set[str]:
    """Return the independent tests that may fail."""
    return set(state.own_tests.dropped).union(*(proof.dropped for proof in _proofs(context, state)))


def explain_failure(context: RunContext, state: TaskState, result: CheckResult) -> CheckResult:
    """Tell the agent about tests that it cannot see."""
    if result.ok or not _independent(context, state, result.failing):
        return result
    return replace(result, reason=f"{result.reason} {_HINT}")


async def drop_wrong_tests(context: RunContext, state: TaskState, failed: Sequence[CheckResult]) -> bool:
    """Decide about independent tests that fail while nothing else does; return whether some are dropped."""
    tests = {test for result in failed for test in result.failing}
    disputed = _independent(context, state, tests)
    only = all(result.state is CheckState.FAILED and result.failing for result in failed)
    if not only or disputed != tests:
        return _withdraw_tests(state, failed)
    own = state.own_tests
    open_ones = disputed - own.upheld
    if not open_ones:
        return False
    if await _are_right(context, state, open_ones, failed):
        state.own_tests = replace(own, upheld=own.upheld | open_ones)
        return False
    state.own_tests = replace(own, dropped=own.dropped | open_ones)
    state.notes.append(
        f"independent tests were dropped, because the work contradicts them: {_some(open_ones)}"
    )
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
    idle = {test for one in state.checks for test in one.idle if is_in(test, tests.files)}
    return replace(tests, proved=tuple(sorted(proved))), tuple(sorted(dropped | idle))


async def _are_right(
    context: RunContext, state: TaskState, tests: Collection[str], failed: Sequence[CheckResult]
) -> bool:
    """Ask the judges, who see both sides; without one, only tests that passed before are believed."""
    if context.judging is None or not context.judging.decides_contests:
        return all(not is_in(test, one.files) for test in tests for one in _own(state))
    known = (*_own(state), *_earlier(context, state))
    shown = [one for one in known if any(is_in(test, one.files) for test in tests)]
    sides = [await context.workspace.diff("", one.commit) for one in shown]
    sides.append(await context.workspace.diff(state.base.head, state.tree))
    files = tuple(dict.fromkeys(path for one in shown for path in one.files))
    evidence = Evidence(context.redact("\n".join(sides)), files, tuple(failed), state.last.summary)
    question = replace(state.task, criteria=(Criterion("tests", _ARE_RIGHT),))
    found = await ask_judges(context, context.judging, state, DISPUTE, question, evidence)
    if found.failure is not None:
        raise no_verdict(context, state, found.verdict.reason)
    return found.verdict.result is Result.PASS


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
