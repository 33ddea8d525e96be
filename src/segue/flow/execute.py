"""The execute phase: one launch of the agent on one task, and the evidence of what it did."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from segue.domain.errors import NeedsHuman
from segue.domain.event import EventType
from segue.domain.job import Job, Mode
from segue.domain.outcome import Outcome
from segue.domain.run import StepState
from segue.domain.task import Task
from segue.domain.workspace import Snapshot
from segue.flow.evidence import failure_of, verdict_of
from segue.flow.kit import Kit
from segue.ports import StepFacts, StepResult
from segue.prompts.execute import execute_prompt

_KEPT_TEXT = 64 * 1024
_KEPT_FILES = 200


async def execute(kit: Kit, task: Task, attempt: int, base: Snapshot, feedback: str | None) -> StepResult:
    """Run the attempt, or return what the journal knows of it."""
    key = f"task/{task.key}/execute/{attempt}"
    prompt = execute_prompt(task, kit.redact(kit.source.context(task)), feedback=feedback)

    token_used = ""

    async def work(token: str) -> StepResult:
        nonlocal token_used
        token_used = token
        await kit.emit(EventType.PROMPT, key, digest=prompt.digest, text=prompt.text, length=len(prompt.text))
        job = Job(
            token=token,
            prompt=prompt,
            workspace=kit.workspace.root,
            mode=Mode.EDIT,
            model=kit.policy.model,
            base=base.head,
            limits=kit.policy.limits,
            labels={
                "run": kit.journal.run.id,
                "task": task.key,
                "phase": "execute",
                "attempt": str(attempt),
            },
        )
        outcome = await launch(kit, job, key)
        return await _concluded(kit, base, outcome)

    facts = StepFacts(task.key, "execute", attempt, kit.agent.name, kit.policy.model)
    state = kit.journal.state(key)
    if state is None:
        refuse_over_budget(kit, task)
        kit.spent.launches += 1
    result = await kit.journal.step(key, work, facts=facts)
    if state in (None, StepState.STARTED):
        kit.spent.add_usage(result.output)
        kit.agent.forget(token_used)
    return result


def refuse_over_budget(kit: Kit, task: Task) -> None:
    """Check every cap before money is spent."""
    reason = kit.policy.budget.exceeded(kit.spent.launches, kit.spent.usage)
    if reason:
        raise NeedsHuman(
            f"Task {task.key} was not started: {reason}.",
            kept="Everything done so far is kept.",
            hint=f"Raise the limit and go on with: segue resume {kit.journal.run.id}",
        )


async def launch(kit: Kit, job: Job, key: str) -> Outcome:
    """Run the agent, pass its events on, and return how it ended."""
    outcome: Outcome | None = None
    async with aclosing(kit.agent.run(job)) as events:
        async for event in events:
            await kit.journal.emit(event, key)
            outcome = event.outcome or outcome
    assert outcome is not None, f"agent {kit.agent.name} ended without an outcome"
    return outcome


async def _concluded(kit: Kit, base: Snapshot, outcome: Outcome) -> StepResult:
    now = await kit.workspace.snapshot()
    changed = now != base
    files = await kit.workspace.files_since(base, now) if changed else ()
    failure = failure_of(outcome, changed, kit.policy.allow_no_change)
    verdict = verdict_of(failure, changed)
    output: dict[str, Any] = {
        "verdict": asdict(verdict),
        "failure": asdict(failure) if failure else None,
        "changed": changed,
        "files": list(files[:_KEPT_FILES]),
        "files_changed": len(files),
        "head": now.head,
        "branch": now.branch,
        "exit_code": outcome.exit_code,
        "session": outcome.session,
        "model": outcome.model,
        "usage": asdict(outcome.usage) if outcome.usage else None,
        "duration": round(outcome.duration, 3),
        "text": outcome.text[-_KEPT_TEXT:],
    }
    return StepResult(failure is None, output)
