"""The execute phase: the agent edits, and the work tree says whether it did."""

from __future__ import annotations

from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Mode
from segue.domain.outcome import Outcome
from segue.domain.task import Task
from segue.domain.workspace import Snapshot
from segue.flow.attempts import attempts
from segue.flow.carried import Carried, PhaseEnd
from segue.flow.commit import committed_phase
from segue.flow.evidence import failure_of, verdict_of
from segue.flow.kit import Kit
from segue.flow.launch import Conclude, Conclusion, Launch, launched
from segue.ports import StepResult
from segue.prompts.execute import execute_prompt

_KEPT_FILES = 200


async def execute(kit: Kit, task: Task, carried: Carried) -> PhaseEnd:
    """Let the agent do the task."""

    async def attempt(number: int, feedback: str | None) -> StepResult:
        context = kit.redact(kit.source.context(task))
        prompt = execute_prompt(task, context, plan=carried.plan, feedback=feedback)
        launch = Launch(task, "execute", number, prompt, Mode.EDIT, carried.base.head)
        return await launched(kit, launch, edited(kit, carried.base))

    number, result = await attempts(kit, task, "execute", attempt)
    carried.launches += number
    if not result.ok:
        return PhaseEnd(False, result.output["verdict"]["reason"])
    carried.head = result.output["head"]
    return await committed_phase(kit, task, carried, "execute")


def edited(kit: Kit, base: Snapshot) -> Conclude:
    """Conclude from what the work tree looks like now, compared with the base."""

    async def conclude(outcome: Outcome) -> Conclusion:
        now = await kit.workspace.snapshot()
        changed = now != base
        files = await kit.workspace.files_since(base, now) if changed else ()
        failure = failure_of(outcome, changed, kit.policy.allow_no_change) or strayed(base, now)
        evidence = {
            "changed": changed,
            "files": list(files[:_KEPT_FILES]),
            "files_changed": len(files),
            "head": now.head,
            "branch": now.branch,
        }
        return Conclusion(verdict_of(failure, changed), failure, evidence)

    return conclude


def strayed(base: Snapshot, now: Snapshot) -> Failure | None:
    """An agent that leaves the branch takes the following tasks to where nobody looks for them."""
    if now.branch == base.branch:
        return None
    message = (
        f"The agent switched from branch {base.branch or base.head[:10]} to {now.branch or now.head[:10]}."
    )
    return Failure(FailureKind.BRANCH, message)
