"""Independent: tests by somebody who never saw the work; the work must pass them."""

from __future__ import annotations

from msgspec.structs import replace

from segue.domain.task import TaskKind
from segue.flow.context import RunContext
from segue.flow.exam import ask_again, collect_exam, take_tests
from segue.flow.phases.check import check
from segue.flow.state import PhaseEnd, TaskState
from segue.prompts.exam import MoreTests


async def independent(context: RunContext, state: TaskState) -> PhaseEnd:
    """Let the checks run the independent tests too; let their writer tell wrong versions apart that pass."""
    if context.testing is None or state.task.kind is not TaskKind.BUILD:
        return PhaseEnd(True)
    checked = await check(context, state)
    if not checked.ok or state.own_tests.tests is not None:  # written when the work was begun first
        return checked
    written = await collect_exam(context, state)
    if not take_tests(state, written):
        state.notes.append(f"there are no independent tests: {written.why_not}")
        return PhaseEnd(True)
    state.own_tests = replace(state.own_tests, passed_without=state.tree)
    examined = await check(context, state)
    survivors = tuple(one for result in state.checks for one in result.survivors)
    repeats = state.own_tests.repeats
    if not examined.ok or not (survivors or repeats) or state.own_tests.tests is None:
        return examined
    content = state.tree
    if await ask_again(context, state, MoreTests(survivors=survivors, repeats=repeats)):
        state.own_tests = replace(state.own_tests, passed_without=content)
        examined = await check(context, state)
    if state.own_tests.repeats:
        state.notes.append("independent tests ask for nothing but examples that the agent sees")
    return examined
