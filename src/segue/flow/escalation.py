"""Escalation by proof: who makes the next attempt when checks or a judge refuse the work.

A limit or an outage is another matter: there, the next agent that can work takes over (`launch.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from segue.domain.events import AgentChosen
from segue.domain.outcome import FailureKind
from segue.domain.results import LaunchOutput, RungOutput, StepFacts, StepResult, read_as
from segue.domain.run import Step
from segue.domain.task import Task
from segue.domain.text import keep_start
from segue.flow.phase import EXECUTE, RESOLVE

if TYPE_CHECKING:
    from segue.flow.context import RunContext
    from segue.flow.state import TaskState

RUNG = "rung"
"""The step that knows with whom a task begins."""
_WORKERS = (EXECUTE.name, RESOLVE.name)
_LONGEST_REASON = 600


async def begin_rung(context: RunContext, state: TaskState) -> None:
    """Choose with whom a task begins, and write down why."""
    ladder, key = context.ladder(state.task), f"{state.folder}/{RUNG}"
    known = context.journal.recorded(key, RungOutput)
    if known is None and ladder:
        result, facts = StepResult(True, RungOutput()), StepFacts(state.task.key, RUNG)
        known = await context.journal.record(key, result, facts)
    state.tried = list(known.output.tried) if known is not None else []
    if known is None or not ladder:
        return
    state.rung = min(known.output.rung, len(ladder) - 1)
    if not any(step.phase in _WORKERS for step in context.journal.steps(f"{state.folder}/")):
        why = "earlier attempts failed" if state.tried else "the first of the chain"
        name = ladder[state.rung].name
        await context.emit(AgentChosen(state.task.key, state.task.kind, name, why, state.rung))


async def escalate(context: RunContext, state: TaskState, reason: str) -> None:
    """Let the next stronger agent make the next attempt, because the work was refused."""
    ladder = context.ladder(state.task)
    if not ladder:
        return
    before = ladder[min(state.rung, len(ladder) - 1)]
    name = _last_worker(context.journal.steps(f"{state.folder}/")) or before.name
    state.tried.append(_describe(name, reason, state.last.summary))
    top = state.rung + 1 >= len(ladder)
    state.rung = min(state.rung + 1, len(ladder) - 1)
    if context.journal.state(f"{state.folder}/{RESOLVE.name}/{state.next_number(RESOLVE.name)}") is None:
        why = keep_start(context.redact(reason), _LONGEST_REASON)
        said = f"{why} (nobody stronger is left)" if top else why
        event = AgentChosen(state.task.key, state.task.kind, ladder[state.rung].name, said, state.rung, name)
        await context.emit(event)


def next_rung(context: RunContext, task: Task, steps: Sequence[Step], reason: str) -> RungOutput:
    """Return with whom a failed task begins again: somebody stronger, if it was refused or stuck."""
    ladder = [by.name for by in context.ladder(task)]
    launches = [step for step in steps if step.phase in _WORKERS and step.output]
    known = next((read_as(RungOutput, step.output) for step in steps if step.phase == RUNG), RungOutput())
    if not launches:
        return known
    last = read_as(LaunchOutput, launches[-1].output)
    is_stuck = last.failure is not None and last.failure.kind is FailureKind.STUCK
    if not (ladder or is_stuck):
        return known
    name = _last_worker(launches)
    rung = ladder.index(name) if name in ladder else known.rung
    tried = (*known.tried, _describe(name, reason, last.text))
    higher = rung + (last.failure is None or is_stuck)
    return RungOutput(max(0, min(higher, len(ladder) - 1)), tried)


def _last_worker(steps: Sequence[Step]) -> str:
    for step in reversed(steps):
        if step.phase in _WORKERS and step.agent:
            return f"{step.agent}:{step.model}" if step.model else step.agent
    return ""


def _describe(agent: str, reason: str, said: str) -> str:
    """Return what somebody tried and why it was refused, in a few lines."""
    last = said.strip().split("\n\n")[-1] if said.strip() else ""
    lines = [f"- {agent}: {keep_start(reason, _LONGEST_REASON)}"]
    return "\n".join([*lines, *([f"  It said: {keep_start(last, _LONGEST_REASON)}"] if last else [])])
