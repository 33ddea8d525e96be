"""The review phase: a reviewer looks, the agent addresses what it found, until nothing is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from segue.domain.event import EventType
from segue.domain.finding import DismissReason, Finding, Severity
from segue.domain.job import Mode
from segue.domain.task import Task
from segue.flow.attempts import Try, attempts
from segue.flow.commit import committed_phase
from segue.flow.context import Kit, Reviewing
from segue.flow.launch import Launch, launched
from segue.flow.phases.execute import edited, start_of
from segue.flow.state import Carried, PhaseEnd
from segue.ports import ReviewSubject, StepFacts, StepResult
from segue.prompts.task import address_prompt


async def review(kit: Kit, task: Task, carried: Carried) -> PhaseEnd:
    """Review and address; without a reviewer there is nothing to do."""
    if kit.reviewing is None:
        return PhaseEnd(True)
    rounds = _Rounds(kit, kit.reviewing, task, carried)
    ended = await rounds.carry()
    await rounds.finish()
    return ended


class _Rounds:
    """The rounds of one task: review 1, address 1, review 2, …"""

    def __init__(self, kit: Kit, reviewing: Reviewing, task: Task, carried: Carried) -> None:
        self._kit = kit
        self._reviewing = reviewing
        self._task = task
        self._carried = carried
        self._reviews = self._launches = 0

    async def carry(self) -> PhaseEnd:
        """Go through the rounds."""
        before: set[tuple[str, str, str]] | None = None
        for number in range(self._reviewing.max_rounds + 1):
            result = await self._review()
            if not result.ok:
                return await self._failed(result.output)
            findings = [_finding(data) for data in result.output["findings"]]
            seen = {finding.sameness for finding in findings}
            if not findings:
                return PhaseEnd(True)
            if seen == before:
                return await self._remain(findings, "the last round changed nothing about them")
            if number == self._reviewing.max_rounds:
                break
            before = seen
            addressed = await self._address(number + 1, findings)
            if not addressed.ok:
                return addressed
        return await self._remain(findings, f"after {self._reviewing.max_rounds} rounds")

    async def finish(self) -> None:
        """End the reviewer's session for this task; what goes wrong there is only told."""
        warning = await self._reviewing.reviewer.finish(self._subject(""))
        if warning:
            await self._kit.emit(EventType.NOTICE, task=self._task.key, text=warning)

    def _subject(self, token: str) -> ReviewSubject:
        kit, carried = self._kit, self._carried
        return ReviewSubject(kit.workspace.root, carried.base.head, carried.head, self._task.key, token)

    async def _review(self) -> StepResult:
        """One review; a reviewer that fails is asked once more if the policy says so."""
        result = await self._review_once()
        if result.ok or result.output["needs_human"] or self._reviewing.on_failure != "retry_once":
            return result
        return await self._review_once()

    async def _review_once(self) -> StepResult:
        self._reviews += 1
        number, key = self._reviews, f"task/{self._task.key}/review/{self._reviews}"

        async def work(token: str) -> StepResult:
            subject = self._subject(token)
            said = await self._reviewing.reviewer.review(subject, again=number > 1)
            kept, dismissed = self._reviewing.triage(said.findings)
            if dismissed:
                await self._reviewing.reviewer.dismiss(subject, dismissed)
            output = {
                "findings": [finding.as_json() for finding in kept],
                "dismissed": [_dismissal(finding, reason) for finding, reason in dismissed],
                "failure": said.failure,
                "needs_human": said.needs_human,
                "output": self._kit.redact(said.output),
            }
            counts = {"findings": len(kept), "dismissed": len(dismissed), "failure": said.failure}
            await self._kit.emit(EventType.REVIEW, key, task=self._task.key, round=number, **counts)
            return StepResult(not said.failure, output)

        facts = StepFacts(self._task.key, "review", number, self._reviewing.reviewer.name)
        return await self._kit.journal.step(key, work, facts=facts)

    async def _failed(self, output: dict[str, Any]) -> PhaseEnd:
        message = f"The reviewer {self._reviewing.reviewer.name} failed: {output['failure']}"
        if output["needs_human"] or self._reviewing.on_failure != "skip":
            return PhaseEnd(False, message)
        await self._kit.emit(EventType.NOTICE, task=self._task.key, text=f"{message} (review skipped)")
        return PhaseEnd(True, "review skipped")

    async def _remain(self, findings: Sequence[Finding], why: str) -> PhaseEnd:
        self._carried.remaining = len(findings)
        message = f"{len(findings)} review findings remain: {why}."
        await self._kit.emit(EventType.NOTICE, task=self._task.key, text=message)
        return PhaseEnd(self._reviewing.on_remaining == "warn", message)

    async def _address(self, number: int, findings: Sequence[Finding]) -> PhaseEnd:
        kit, task, carried = self._kit, self._task, self._carried

        async def attempt(now: Try) -> StepResult:
            prompt = address_prompt(task, findings, now.feedback, cloud=kit.cloud)
            base = start_of(kit, carried)
            launch = Launch(task, "address", now.number, prompt, Mode.EDIT, base, now.player)
            return await launched(kit, launch, edited(kit, carried, allow_no_change=True))

        last, result = await attempts(kit, task, "address", attempt, first=self._launches + 1)
        carried.launches += last - self._launches
        self._launches = last
        if not result.ok:
            return PhaseEnd(False, result.output["verdict"]["reason"])
        carried.arrived(result.output)
        return await committed_phase(kit, task, carried, f"address-review-findings,-round-{number}")


def _dismissal(finding: Finding, reason: DismissReason) -> dict[str, Any]:
    return {**finding.as_json(), "reason": reason}


def _finding(data: dict[str, Any]) -> Finding:
    return Finding(**{**data, "severity": Severity(data["severity"])})
