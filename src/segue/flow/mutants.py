"""Mutants of a task's changed lines: how many of them its checks notice, as supporting evidence."""

from __future__ import annotations

import shlex

from segue.domain.results import MutantOutput, StepResult
from segue.domain.task import TaskKind
from segue.flow.context import RunContext
from segue.flow.independent import lay_tests
from segue.flow.phase import Phase
from segue.flow.state import TaskState
from segue.ports import StepFacts

MUTANTS = Phase("mutants", "Try mutants", within=("check",))


async def score_mutants(context: RunContext, state: TaskState) -> None:
    """Try mutants of what the task changed, once its checks are content; note what they did not notice."""
    try_out, most = context.checking.try_mutants, context.policy.mutants
    passed = {one.command for one in state.checks if one.ok and one.runner and not (one.of or one.failing)}
    commands = [argv for argv in context.checking.commands if shlex.join(argv) in passed]
    if try_out is None or not most or not commands or state.task.kind is not TaskKind.BUILD:
        return
    key = f"{state.folder}/{MUTANTS.name}/{state.tree[:12]}"

    async def work(_token: str) -> StepResult[MutantOutput]:
        _, head = await lay_tests(context, state, shlex.join(commands[0]), state.tree)
        found = await try_out(commands, state.base.head, head, most)
        return StepResult(True, MutantOutput(*(found or (0, 0))))

    facts = StepFacts(state.task.key, MUTANTS.name, build_phase=state.task.build_phase)
    found = (await context.journal.step(key, MutantOutput, work, facts=facts)).output
    if not found.tried:
        return
    state.mutants = (found.tried, found.noticed)
    if found.noticed < found.tried:
        missed = found.tried - found.noticed
        state.notes.append(f"{missed} of {found.tried} mutants of the changed lines were not noticed")
