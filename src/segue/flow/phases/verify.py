"""The verify phase: a judge looks at the evidence, and its verdict decides what follows, a few times."""

from __future__ import annotations

from segue.domain.job import Mode
from segue.domain.task import Task
from segue.domain.verdict import Action, Result, Verdict
from segue.flow.actions import ACTIONS, COUNTED
from segue.flow.attempts import Try, attempts
from segue.flow.commit import committed_phase
from segue.flow.context import Kit, Verifying
from segue.flow.judging import judged, verdict_in
from segue.flow.launch import Launch, launched
from segue.flow.phases.execute import edited, start_of
from segue.flow.resolution import Resolution, Round
from segue.flow.state import Carried, PhaseEnd
from segue.ports import StepResult
from segue.prompts.task import resolve_prompt


async def verify(kit: Kit, task: Task, carried: Carried) -> PhaseEnd:
    """Judge the task; while that is allowed, do what the verdict asks for and send the agent back."""
    if kit.verifying is None:
        return PhaseEnd(True)
    return await _Rounds(kit, kit.verifying, task, carried).carry()


class _Rounds:
    """The rounds of one task: verify, act, resolve, verify again."""

    def __init__(self, kit: Kit, verifying: Verifying, task: Task, carried: Carried) -> None:
        self._kit = kit
        self._verifying = verifying
        self._task = task
        self._carried = carried
        self._judgements = self._launches = self._resolutions = 0

    async def carry(self) -> PhaseEnd:
        """Go through the rounds."""
        while True:
            last, result = await judged(
                self._kit, self._verifying, self._task, self._carried, self._judgements + 1
            )
            if self._verifying.judge is None:
                self._carried.launches += last - self._judgements
            self._judgements = last
            if result.output["failure"]:
                return PhaseEnd(False, f"no verdict: {result.output['verdict']['reason']}")
            verdict = self._carried.verdict = verdict_in(result)
            if verdict.result is Result.PASS:
                return PhaseEnd(True)
            ended = await self._act(verdict)
            if ended is not None:
                return ended

    async def _act(self, verdict: Verdict) -> PhaseEnd | None:
        """Do what the verdict asks for; the end of the phase, or None to judge again."""
        if verdict.action is Action.STOP:
            return PhaseEnd(False, f"verification failed: {verdict.reason}")
        wished = verdict.action if self._kit.building else Action.RETRY
        action = wished if wished in ACTIONS else Action.RETRY
        if action in COUNTED:
            self._resolutions += 1
            if self._resolutions > self._verifying.resolutions:
                return PhaseEnd(False, f"verification failed: {verdict.reason}")
        resolution = await self._resolution(action, verdict)
        if resolution.end is not None:
            return resolution.end
        ended = await self._resolve(verdict, resolution.notes)
        return None if ended.ok else ended

    async def _resolution(self, action: Action, verdict: Verdict) -> Resolution:
        building = self._kit.building
        if building is None:
            return Resolution()
        now = Round(self._kit, building, self._task, self._carried, verdict, self._resolutions)
        return await ACTIONS[action](now)

    async def _resolve(self, verdict: Verdict, notes: str) -> PhaseEnd:
        """Send the agent back, in the same conversation where it has one, on the same branch."""
        kit, task, carried = self._kit, self._task, self._carried

        async def attempt(now: Try) -> StepResult:
            context = kit.redact(kit.source.context(task))
            prompt = resolve_prompt(
                task, context, verdict, now.feedback, cloud=kit.cloud, notes=kit.redact(notes)
            )
            session = carried.session_for(now.player)
            base = start_of(kit, carried)
            launch = Launch(task, "resolve", now.number, prompt, Mode.EDIT, base, now.player, session)
            return await launched(kit, launch, edited(kit, carried, allow_no_change=True))

        last, result = await attempts(kit, task, "resolve", attempt, first=self._launches + 1)
        carried.launches += last - self._launches
        self._launches = last
        if not result.ok:
            return PhaseEnd(False, result.output["verdict"]["reason"])
        carried.arrived(result.output)
        return await committed_phase(kit, task, carried, f"mend-what-was-missing,-round-{self._resolutions}")
