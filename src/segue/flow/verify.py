"""The verify phase: a judge looks at the evidence; what is missing goes back to the agent, a few times."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from segue.domain.criterion import CriterionVerdict
from segue.domain.event import EventType
from segue.domain.evidence import CheckResult, Evidence
from segue.domain.job import Mode
from segue.domain.task import Task
from segue.domain.verdict import Action, Result, Verdict
from segue.flow.attempts import attempts
from segue.flow.carried import Carried, PhaseEnd
from segue.flow.commit import committed_phase
from segue.flow.execute import edited, start_of
from segue.flow.kit import Kit, Verifying
from segue.flow.launch import Launch, launched
from segue.ports import StepFacts, StepResult
from segue.prompts.resolve import resolve_prompt

_KEPT_OUTPUT = 32 * 1024


async def verify(kit: Kit, task: Task, carried: Carried) -> PhaseEnd:
    """Judge the task; send it back with exactly what is missing while that is allowed."""
    verifying = kit.verifying
    if verifying is None:
        return PhaseEnd(True)
    launches = 0
    for number in range(1, verifying.resolutions + 2):
        verdict = await _judged(kit, verifying, task, carried, number)
        carried.verdict = verdict
        if verdict.result is Result.PASS:
            return PhaseEnd(True)
        if number > verifying.resolutions:
            break
        launches, ended = await _resolve(kit, task, carried, verdict, number, launches)
        if not ended.ok:
            return ended
    return PhaseEnd(False, f"verification failed: {verdict.reason}")


async def _judged(kit: Kit, verifying: Verifying, task: Task, carried: Carried, number: int) -> Verdict:
    key = f"task/{task.key}/verify/{number}"

    async def work(_token: str) -> StepResult:
        evidence = await _evidence(kit, verifying, carried)
        verdict = await verifying.judge.judge(task, evidence)
        checks = [asdict(check) for check in evidence.checks]
        await kit.emit(EventType.VERDICT, key, task=task.key, **asdict(verdict), checks=checks)
        return StepResult(verdict.result is Result.PASS, {"verdict": asdict(verdict), "checks": checks})

    facts = StepFacts(task.key, "verify", number, verifying.judge.name)
    result = await kit.journal.step(key, work, facts=facts)
    return _verdict(result.output["verdict"])


async def _evidence(kit: Kit, verifying: Verifying, carried: Carried) -> Evidence:
    """The diff since the task began, what the checks say, and the agent's own words."""
    diff = await kit.workspace.diff(carried.base.head, carried.head)
    files = await kit.workspace.files_since(carried.base, carried.now)
    checks: list[CheckResult] = []
    if verifying.checks:
        async with kit.workspace.checkout(carried.head) as folder:
            for argv in verifying.checks:
                code, output = await verifying.run_check(argv, folder)
                checks.append(CheckResult(" ".join(argv), code, output[-_KEPT_OUTPUT:]))
    return Evidence(kit.redact(diff), files, tuple(checks), carried.summary)


async def _resolve(
    kit: Kit, task: Task, carried: Carried, verdict: Verdict, number: int, launches: int
) -> tuple[int, PhaseEnd]:
    """Send the agent back, in the same conversation where it has one, on the same branch."""
    session = carried.session if kit.agent.can.follow_up else None

    async def attempt(count: int, feedback: str | None) -> StepResult:
        context = kit.redact(kit.source.context(task))
        prompt = resolve_prompt(task, context, verdict, feedback, cloud=kit.agent.can.cloud)
        launch = Launch(task, "resolve", count, prompt, Mode.EDIT, start_of(kit, carried), session)
        return await launched(kit, launch, edited(kit, carried, allow_no_change=True))

    last, result = await attempts(kit, task, "resolve", attempt, first=launches + 1)
    carried.launches += last - launches
    if not result.ok:
        return last, PhaseEnd(False, result.output["verdict"]["reason"])
    carried.arrived(result.output)
    return last, await committed_phase(kit, task, carried, f"mend-what-was-missing,-round-{number}")


def _verdict(data: dict[str, Any]) -> Verdict:
    criteria = tuple(CriterionVerdict(**item) for item in data["criteria"])
    return Verdict(Result(data["result"]), Action(data["action"]), data["reason"], criteria)
