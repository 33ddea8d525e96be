"""Independent: tests by somebody who never saw the work; the work must pass them."""

from __future__ import annotations

from msgspec.structs import replace

from segue.domain.task import TaskKind
from segue.flow.context import RunContext
from segue.flow.exam import collect_exam, take_tests
from segue.flow.phases.check import check
from segue.flow.state import PhaseEnd, TaskState


async def independent(context: RunContext, state: TaskState) -> PhaseEnd:
    """Let the checks run the independent tests too."""
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
    return await check(context, state)
