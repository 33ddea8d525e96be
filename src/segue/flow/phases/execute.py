"""The execute phase: the agent edits, and the work tree says whether it did."""

from __future__ import annotations

from dataclasses import replace

from segue.domain.errors import WorkspaceError
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Mode
from segue.domain.outcome import Outcome
from segue.domain.task import Task
from segue.domain.workspace import Snapshot
from segue.flow.attempts import Try, attempts
from segue.flow.commit import committed_phase
from segue.flow.context import Kit
from segue.flow.evidence import failure_of, verdict_of
from segue.flow.launch import Conclude, Conclusion, Launch, launched
from segue.flow.state import Carried, PhaseEnd
from segue.ports import StepResult
from segue.prompts.task import execute_prompt

_KEPT_FILES = 200


async def execute(kit: Kit, task: Task, carried: Carried) -> PhaseEnd:
    """Let the agent do the task."""

    async def attempt(now: Try) -> StepResult:
        context = kit.redact(kit.source.context(task))
        prompt = execute_prompt(task, context, carried.plan, now.feedback, cloud=kit.cloud)
        launch = Launch(task, "execute", now.number, prompt, Mode.EDIT, start_of(kit, carried), now.player)
        return await launched(kit, launch, edited(kit, carried, kit.policy.allow_no_change))

    number, result = await attempts(kit, task, "execute", attempt)
    carried.launches += number
    if not result.ok:
        return PhaseEnd(False, result.output["verdict"]["reason"])
    carried.arrived(result.output)
    return await committed_phase(kit, task, carried, "execute")


def start_of(kit: Kit, carried: Carried) -> str:
    """What a launch starts from: a cloud agent is given the branch, others stand on the commit."""
    return carried.base.branch if kit.cloud else carried.base.head


def edited(kit: Kit, carried: Carried, allow_no_change: bool) -> Conclude:
    """Conclude from what the agent has left, compared with what the task began with."""

    async def conclude(outcome: Outcome) -> Conclusion:
        lost: Failure | None = None
        now = carried.now
        try:
            now = await kit.workspace.arrive(outcome.branches, carried.now)
        except WorkspaceError as error:
            lost = Failure(FailureKind.BRANCH, error.message)
        changed = now != carried.base
        files = await kit.workspace.files_since(carried.base, now) if changed else ()
        claimed = replace(outcome, failure=outcome.failure or lost or strayed(kit, carried, now))
        failure = failure_of(claimed, changed, allow_no_change)
        evidence = {
            "changed": changed,
            "files": list(files[:_KEPT_FILES]),
            "files_changed": len(files),
            "head": now.head,
            "branch": now.branch,
        }
        return Conclusion(verdict_of(failure, changed), failure, evidence)

    return conclude


def strayed(kit: Kit, carried: Carried, now: Snapshot) -> Failure | None:
    """An agent that leaves the branch takes the following tasks to where nobody looks for them."""
    before = carried.base
    if now.branch == before.branch or kit.cloud:
        return None
    message = (
        f"The agent switched from branch {before.branch or before.head[:10]} "
        f"to {now.branch or now.head[:10]}."
    )
    return Failure(FailureKind.BRANCH, message)
