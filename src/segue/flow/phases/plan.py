"""The plan phase: a plan in words, and proof that nothing was changed meanwhile."""

from __future__ import annotations

from segue.domain.event import EventType
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Mode
from segue.domain.outcome import Outcome
from segue.domain.task import Task
from segue.domain.verdict import Action, Result, Verdict
from segue.domain.workspace import Snapshot
from segue.flow.attempts import Try, attempts
from segue.flow.context import Kit
from segue.flow.evidence import verdict_of
from segue.flow.launch import Conclude, Conclusion, Launch, launched, seen_before
from segue.flow.phases.execute import start_of
from segue.flow.state import Carried, PhaseEnd
from segue.ports import StepResult
from segue.prompts.task import plan_prompt

_NO_PLAN = "The agent ended without a plan."


async def plan(kit: Kit, task: Task, carried: Carried) -> PhaseEnd:
    """Let the agent plan the task."""

    async def attempt(now: Try) -> StepResult:
        prompt = plan_prompt(task, kit.redact(kit.source.context(task)), now.feedback)
        launch = Launch(task, "plan", now.number, prompt, Mode.PLAN, start_of(kit, carried), now.player)
        return await launched(kit, launch, _only_thought(kit, task, carried))

    number, result = await attempts(kit, task, "plan", attempt)
    carried.launches += number
    carried.plan = str(result.output["text"])
    return PhaseEnd(result.ok, "" if result.ok else result.output["verdict"]["reason"])


def _only_thought(kit: Kit, task: Task, carried: Carried) -> Conclude:
    async def conclude(outcome: Outcome) -> Conclusion:
        edited = await edited_meanwhile(kit, task, carried.base, outcome)
        if edited is not None:
            return edited
        failure = outcome.failure
        if failure is None and not outcome.text.strip():
            failure = Failure(FailureKind.NO_RESULT, _NO_PLAN)
        return Conclusion(verdict_of(failure, changed=False), failure, {"changed": False})

    return conclude


async def tree_before(kit: Kit, key: str, known: Snapshot | None = None) -> Snapshot:
    """The work tree before an agent looks at it: as it is now, or as it was when the launch was begun.

    `known` is what a cloud agent starts from, far from any work tree.
    """
    seen = seen_before(kit, key).get("tree")
    if seen is not None:
        return Snapshot(**seen)
    return known if known is not None and kit.cloud else await kit.workspace.snapshot()


def as_seen(tree: Snapshot) -> dict[str, dict[str, str]]:
    """What `tree_before` finds again."""
    return {"tree": {"head": tree.head, "branch": tree.branch, "dirty": tree.dirty}}


async def edited_meanwhile(kit: Kit, task: Task, before: Snapshot, outcome: Outcome) -> Conclusion | None:
    """What follows when an agent that should only think has changed something: it is undone, if it can be."""
    now = await kit.workspace.arrive(outcome.branches, before)
    if now == before:
        return None
    undone = now.head == before.head and not before.dirty and not kit.cloud
    message = f"The agent changed files in plan mode: {', '.join(now.files[:5]) or now.head[:10]}."
    if undone:
        name = f"task {task.key}" if task.key else "the plan"
        where = await kit.workspace.set_aside(f"segue: changed in plan mode by {name}")
        message += f" They were undone and kept as {where}."
        await kit.emit(EventType.NOTICE, task=task.key, text=message)
    edited = Failure(FailureKind.PLAN_EDITED, message)
    action = Action.RETRY if undone else Action.STOP
    return Conclusion(Verdict(Result.FAIL, action, message), edited, {"changed": True})
