"""One judgement: evidence is gathered, then a judge or an agent in the role `verify` says what it shows."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from segue.domain.criterion import CriterionVerdict
from segue.domain.event import EventType
from segue.domain.evidence import CheckResult, Evidence
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Mode
from segue.domain.outcome import Outcome
from segue.domain.task import Task
from segue.domain.verdict import Action, Result, Verdict, without_secrets
from segue.flow.attempts import Try, attempts
from segue.flow.context import Kit, Verifying
from segue.flow.errors import check_failed
from segue.flow.evidence import verdict_of as verdict_after
from segue.flow.launch import Conclusion, Launch, launched, recorded, seen_before
from segue.flow.phases.plan import as_seen, edited_meanwhile, tree_before
from segue.flow.state import Carried
from segue.judges.answer import UnusableAnswer, read_answer
from segue.judges.verdict import verdict_of
from segue.ports import Judge, StepFacts, StepResult
from segue.prompts.judge import criteria_of, judge_prompt

_KEPT_OUTPUT = 32 * 1024


async def judged(
    kit: Kit, verifying: Verifying, task: Task, carried: Carried, first: int
) -> tuple[int, StepResult]:
    """Judge the task as it stands; returns the last number used and what was concluded."""
    if verifying.judge is not None:
        return first, await _by_judge(kit, verifying, verifying.judge, task, carried, first)
    return await _by_agent(kit, verifying, task, carried, first)


async def _by_judge(
    kit: Kit, verifying: Verifying, judge: Judge, task: Task, carried: Carried, number: int
) -> StepResult:
    key = f"task/{task.key}/verify/{number}"

    async def work(_token: str) -> StepResult:
        evidence = await _evidence(kit, verifying, task, carried, key)
        verdict = without_secrets(await judge.judge(task, evidence), kit.redact)
        checks = [asdict(check) for check in evidence.checks]
        await kit.emit(EventType.VERDICT, key, task=task.key, **asdict(verdict), checks=checks)
        output = {"verdict": asdict(verdict), "checks": checks, "failure": None}
        return StepResult(verdict.result is Result.PASS, output)

    facts = StepFacts(task.key, "verify", number, judge.name, build_phase=task.build_phase)
    return await kit.journal.step(key, work, facts=facts)


async def _by_agent(
    kit: Kit, verifying: Verifying, task: Task, carried: Carried, first: int
) -> tuple[int, StepResult]:
    """An agent looks at the same evidence, standing in the work; a malformed answer is asked for again."""
    keys = [criterion.key for criterion in criteria_of(task)]
    diagnostics = kit.building.diagnostics if kit.building else None

    async def attempt(now: Try) -> StepResult:
        key = f"task/{task.key}/verify/{now.number}"
        known = await recorded(kit, key)
        if known is not None:
            return known
        evidence = await _evidence(kit, verifying, task, carried, key)
        checks = {"checks": [asdict(check) for check in evidence.checks]}
        tree = await tree_before(kit, key, carried.now)

        async def conclude(outcome: Outcome) -> Conclusion:
            edited = await edited_meanwhile(kit, task, tree, outcome)
            if edited is not None:
                return edited
            failure = outcome.failure
            if failure is None:
                try:
                    answer = read_answer(outcome.text, keys, diagnostics is not None)
                    verdict = without_secrets(verdict_of(answer, evidence), kit.redact)
                    return Conclusion(verdict, None, checks)
                except UnusableAnswer as problem:
                    failure = Failure(FailureKind.NO_RESULT, f"The verdict cannot be used: {problem}")
            return Conclusion(verdict_after(failure, changed=False), failure, checks)

        prompt = judge_prompt(task, evidence, diagnostics=diagnostics, complaint=now.feedback)
        seen = {**as_seen(tree), **checks}
        async with kit.workspace.checkout(carried.head) as folder:
            launch = Launch(
                task,
                "verify",
                now.number,
                prompt,
                Mode.ASK,
                carried.head,
                now.player,
                folder=folder,
                seen=seen,
            )
            return await launched(kit, launch, conclude)

    return await attempts(kit, task, "verify", attempt, first, least=2)


async def _evidence(kit: Kit, verifying: Verifying, task: Task, carried: Carried, key: str) -> Evidence:
    """The diff since the task began, what the checks say, and the agent's own words."""
    diff = await kit.workspace.diff(carried.base.head, carried.head)
    files = await kit.workspace.files_since(carried.base, carried.now)
    seen = seen_before(kit, key).get("checks")
    checks = await _checks(kit, verifying, task, carried, key) if seen is None else _again(seen)
    context = kit.redact(kit.source.context(task)) if kit.building else ""
    return Evidence(kit.redact(diff), files, tuple(checks), carried.summary, context)


def _again(seen: list[dict[str, Any]]) -> list[CheckResult]:
    """What the agent that is judging was told: its quotes are looked up in that."""
    return [CheckResult(**check) for check in seen]


async def _checks(
    kit: Kit, verifying: Verifying, task: Task, carried: Carried, key: str
) -> list[CheckResult]:
    commands = (*verifying.checks, *verifying.smoke.get(task.build_phase or "", ()))
    checks: list[CheckResult] = []
    if commands or verifying.examine:
        async with kit.workspace.checkout(carried.head) as folder:
            for argv in commands:
                began = time.monotonic()
                code, output = await verifying.run_check(argv, folder)
                checks.append(CheckResult(kit.redact(" ".join(argv)), code, output[-_KEPT_OUTPUT:]))
                await _checked(kit, task, key, checks[-1], time.monotonic() - began)
            began = time.monotonic()
            examined = await verifying.examine(folder) if verifying.examine else None
        if examined is not None:
            await _checked(kit, task, key, examined.check, time.monotonic() - began, examined.found)
            checks += [examined.check] if examined.decides else []
    return checks


async def _checked(
    kit: Kit, task: Task, key: str, check: CheckResult, seconds: float, found: dict[str, Any] | None = None
) -> None:
    """Store what a check said, and as an error what it complained about."""
    known = {"task": task.key, "build_phase": task.build_phase, "seconds": round(seconds, 3)}
    facts = {**known, "found": found}
    await kit.emit(EventType.CHECK, key, **asdict(check), **facts)
    if check.exit_code not in (0, None):
        errors = [item for item in (found or {}).get("findings", ()) if item.get("level") == "error"]
        await check_failed(kit, task, key, check, [str(item["message"]) for item in errors])


def verdict_in(result: StepResult) -> Verdict:
    """The verdict a verify step has written down."""
    data = result.output["verdict"]
    criteria = tuple(CriterionVerdict(**item) for item in data["criteria"])
    told = {"request": data.get("request", ""), "caveats": tuple(data.get("caveats", ()))}
    return Verdict(Result(data["result"]), Action(data["action"]), data["reason"], criteria, **told)
