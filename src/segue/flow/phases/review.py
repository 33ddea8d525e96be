"""Review: a reviewer looks, the agent addresses what it found, until nothing is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import asdict

from segue.domain.errors import Unfinished
from segue.domain.events import NoticeGiven, Reviewed, ReviewerRan
from segue.domain.job import Mode
from segue.domain.results import ReviewOutput, StepFacts, StepResult
from segue.domain.verdict import Finding, ReviewerCall
from segue.flow.commit import commit_phase
from segue.flow.context import Reviewing, RunContext
from segue.flow.evidence import changes_since, start_of
from segue.flow.launch import LaunchRequest
from segue.flow.phase import ADDRESS, REVIEW
from segue.flow.state import PhaseEnd, TaskState
from segue.ports import ReviewSubject
from segue.prompts.task import address_prompt


async def review(context: RunContext, state: TaskState) -> PhaseEnd:
    """Review and address; without a reviewer there is nothing to do."""
    if context.reviewing is None:
        return PhaseEnd(True)
    rounds = _Rounds(context, context.reviewing, state)
    try:
        ended = await rounds.run()
    except Unfinished:
        await rounds.finish()
        raise
    await rounds.finish()
    return ended


class _Rounds:
    """The rounds of one task: review 1, address 1, review 2, …"""

    def __init__(self, context: RunContext, reviewing: Reviewing, state: TaskState) -> None:
        self._context = context
        self._reviewing = reviewing
        self._state = state
        self._reviewed = False

    async def run(self) -> PhaseEnd:
        """Go through the rounds."""
        before: set[tuple[str, str, str]] | None = None
        for number in range(self._reviewing.max_rounds + 1):
            found = await self._review()
            if found.failure:
                return await self._skip(found)
            seen = {finding.sameness for finding in found.findings}
            if not found.findings:
                return PhaseEnd(True)
            if seen == before:
                return await self._remain(found.findings, "the last round changed nothing about them")
            if number == self._reviewing.max_rounds:
                break
            before = seen
            addressed = await self._address(number + 1, found.findings)
            if not addressed.ok:
                return addressed
        return await self._remain(found.findings, f"after {self._reviewing.max_rounds} rounds")

    async def finish(self) -> None:
        """End the reviewer's session for this task; a problem with that is only reported."""
        warning = await self._reviewing.reviewer.finish(self._subject(""))
        await self._tell_calls()
        if warning:
            await self._context.emit(NoticeGiven(warning, task=self._state.task.key))

    def _subject(self, token: str) -> ReviewSubject:
        state = self._state
        root = self._context.workspace.root
        return ReviewSubject(root, state.base.head, state.head, state.task.key, token)

    async def _review(self) -> ReviewOutput:
        """Review once; a reviewer that fails is asked once more if the policy says so."""
        found = await self._review_once(self._reviewing.on_failure == "fail")
        if not found.failure or self._reviewing.on_failure != "retry_once":
            return found
        return await self._review_once(is_last=True)

    async def _review_once(self, is_last: bool) -> ReviewOutput:
        """Review as a step of the journal; the last one that fails has no outcome, so it can be repeated."""
        state, task = self._state, self._state.task.key
        number = state.count(REVIEW.name)
        again, self._reviewed = self._reviewed, True
        key = f"{self._state.folder}/{REVIEW.name}/{number}"

        async def work(token: str) -> StepResult[ReviewOutput]:
            subject = self._subject(token)
            said = await self._reviewing.reviewer.review(subject, again=again)
            await self._tell_calls(key)
            output = ReviewOutput(
                said.findings,
                said.failure,
                said.needs_human,
                self._context.redact(said.output),
            )
            event = Reviewed(task, number, len(said.findings), said.failure)
            await self._context.emit(event, key)
            if said.needs_human or (said.failure and is_last):
                raise self._unfinished(said.failure)
            return StepResult(not said.failure, output)

        facts = StepFacts(task, REVIEW.name, number, self._reviewing.reviewer.name)
        return (await self._context.journal.step(key, ReviewOutput, work, facts=facts)).output

    async def _tell_calls(self, key: str | None = None) -> None:
        """Record what the reviewer called since the last time, if it offers `take_calls`."""
        take: Callable[[], Sequence[ReviewerCall]] = getattr(self._reviewing.reviewer, "take_calls", tuple)
        for call in take():
            await self._context.emit(ReviewerRan(self._state.task.key, **asdict(call)), key)

    def _unfinished(self, failure: str) -> Unfinished:
        """Return the error for a review that did not take place, which says nothing about the work."""
        task, message = self._state.task.key, self._say(failure)
        return Unfinished(
            f"Task {task} needs a human: {message}",
            reason=message,
            kept="The agent's work is kept; on resume only the review is repeated.",
            hint='Repair the reviewer, or do without it (review.on_review_failure = "skip"), then: '
            f"segue resume {self._context.journal.run.id}   Decide yourself: segue task accept {task}",
        )

    def _say(self, failure: str) -> str:
        return f"The reviewer {self._reviewing.reviewer.name} failed: {failure}"

    async def _skip(self, found: ReviewOutput) -> PhaseEnd:
        message = self._say(found.failure)
        await self._context.emit(NoticeGiven(f"{message} (review skipped)", task=self._state.task.key))
        return PhaseEnd(True, "review skipped")

    async def _remain(self, findings: Sequence[Finding], why: str) -> PhaseEnd:
        self._state.remaining = len(findings)
        message = f"{len(findings)} review findings remain: {why}."
        await self._context.emit(NoticeGiven(message, task=self._state.task.key))
        return PhaseEnd(self._reviewing.on_remaining == "warn", message)

    async def _address(self, number: int, findings: Sequence[Finding]) -> PhaseEnd:
        context, state = self._context, self._state
        state.demanded += [f"{finding.rule}: {finding.message}" for finding in findings]
        attempts = context.attempts(ADDRESS, state)
        async for attempt in attempts:
            write = partial(address_prompt, state.task, findings, attempt.feedback, cloud=context.cloud)
            start = start_of(context, state)
            request = LaunchRequest(write, Mode.EDIT, context.workspace.root, start)
            async with attempt.launch(request) as outcome:
                attempt.output = await changes_since(
                    context, state, attempt.key, outcome, allow_no_change=True
                )
        result = attempts.result
        if not result.ok:
            return PhaseEnd(False, result.output.verdict.reason)
        state.take(result.output)
        return await commit_phase(context, state, f"address-review-{number}")
