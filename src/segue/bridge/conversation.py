"""A conversation: say what is new, read the reply, carry out its commands, until none is left.

Everything that happens is a step of the journal, and the loop looks at nothing else: killed at any instant
and started again, it says nothing twice and launches nothing twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from segue.bridge.commands import Command, Remind, Subagent, serialise
from segue.bridge.desk import Desk
from segue.bridge.execute import execute
from segue.bridge.grammar import Reading, read
from segue.bridge.launch import Launch, OverBudget, launched
from segue.bridge.people import tell_people
from segue.bridge.results import Item, news
from segue.domain.errors import NeedsHuman
from segue.domain.event import EventType
from segue.domain.job import Mode
from segue.domain.run import StepState
from segue.ports import Agent, StepFacts, StepResult
from segue.prompts.bridge import conversation_prompt

_SKIPS_KEPT = 100
_SO_FAR = 64 * 1024


@dataclass(slots=True)
class Conversation:
    """One conversation that is being carried on."""

    desk: Desk
    agent: Agent
    workspace: Path
    wait_reminders: bool = False
    """Whether it goes on until its last reminder was sent."""
    turn: int = 0
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _held_up: set[str] = field(default_factory=set)
    """Commands whose end the next follow-up waits for."""
    _reminders: set[str] = field(default_factory=set)
    _looked: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there was no message to take: one that was sent before is not overlooked."""

    async def carry_on(self) -> str:
        """Go on until nothing is left to be done; the last thing the agent said."""
        try:
            await self._replay()
            self._start("inbox", self._inbox())
            while True:
                fresh = news(self.desk.journal.steps())
                if any(item.loud for item in fresh) and not self._held_up:
                    await self._take_turn(self.turn + 1, fresh)
                elif self._looked.is_set() and self._idle():
                    return self._last_said()
                else:
                    await self._something()
        except NeedsHuman:
            await self._let_finish()
            raise
        finally:
            await self._end_tasks()

    def next_reminder(self) -> float | None:
        """When the first reminder that was not sent is due."""
        journal = self.desk.journal
        open_ones = [
            s.output
            for s in journal.steps("turn/")
            if s.output.get("status") == "set" and not _sent(journal, s.key)
        ]
        return min((float(output["due"]) for output in open_ones), default=None)

    async def _replay(self) -> None:
        """Go through the turns that the journal knows; what they left undone is done now."""
        while self.desk.journal.state(f"turn/{self.turn + 1}/say") is not None:
            await self._take_turn(self.turn + 1, [])

    async def _take_turn(self, number: int, fresh: list[Item]) -> None:
        """Say what is new and have the reply carried out."""
        key = f"turn/{number}"
        said = await self._said(key, number, fresh)
        self.turn = number
        for index, command in enumerate(await self._read(key, said), 1):
            await self._carry_out(f"{key}/command/{index}", command)

    async def _said(self, key: str, number: int, fresh: list[Item]) -> str:
        self._refuse_too_many(number, fresh)
        words = {
            "items": [item.id for item in fresh],
            "messages": "\n\n".join(item.text for item in fresh if item.kind == "message"),
            "results": "\n".join(item.text for item in fresh if item.kind == "result"),
        }
        if self.desk.journal.state(f"{key}/say") is None:
            await self.desk.emit(EventType.BRIDGE_TURN, key, turn=number, items=words["items"])
        say = (await self.desk.journal.record(f"{key}/say", StepResult(True, words))).output
        try:
            result = await launched(self.desk, self._launch(key, number, say), again=True)
        except OverBudget as error:
            raise self._stopped(str(error)) from None
        if not result.ok:
            failure = result.output.get("failure") or {}
            raise self._stopped(f"the agent failed: {failure.get('message', 'it gave no reply')}")
        return str(result.output.get("text", ""))

    def _launch(self, key: str, number: int, say: dict[str, Any]) -> Launch:
        settings, run = self.desk.settings, self.desk.journal.run
        remembers = self.agent.can.follow_up
        prompt = conversation_prompt(
            say["messages"],
            say["results"],
            first=number == 1,
            so_far="" if remembers or number == 1 else self._so_far(number),
            repos=[entry if isinstance(entry, str) else entry.repo for entry in settings.allow_repos],
            keywords=settings.extensions,
            nonce=f"{run.id} {key}",
        )
        session = self._session(number) if remembers else None
        mode = Mode(settings.mode)
        return Launch(key, "turn", self.agent, prompt, self.workspace, mode, run.spec.model, session)

    def _session(self, number: int) -> str | None:
        """The session of the reply before this one."""
        before = [
            s for s in self.desk.journal.steps(f"turn/{number - 1}/launch/") if s.state is StepState.DONE
        ]
        return before[-1].output.get("session") if before else None

    def _so_far(self, number: int) -> str:
        """The conversation for an agent that does not remember it; its end, when it is long."""
        parts = []
        for turn in range(1, number):
            say = self._output(f"turn/{turn}/say")
            reply = self._output(f"turn/{turn}/read").get("text", "")
            parts += [f"The user:\n{say['messages']}"] if say.get("messages") else []
            parts += [f"The bridge:\n{say['results']}"] if say.get("results") else []
            parts.append(f"You:\n{reply}")
        return "\n\n".join(parts)[-_SO_FAR:]

    def _last_said(self) -> str:
        return str(self._output(f"turn/{self.turn}/read").get("text", "")) if self.turn else ""

    def _output(self, key: str) -> dict[str, Any]:
        return next((s.output for s in self.desk.journal.steps(key) if s.key == key), {})

    def _refuse_too_many(self, number: int, fresh: list[Item]) -> None:
        """Count the turns since a person has said something."""
        if self.desk.journal.state(f"turn/{number}/say") is not None or any(
            i.kind == "message" for i in fresh
        ):
            return
        rounds = 0
        for turn in range(number - 1, 0, -1):
            rounds += 1
            if self._output(f"turn/{turn}/say").get("messages"):
                break
        if rounds >= self.desk.settings.rounds:
            raise self._stopped(f"the cap of {self.desk.settings.rounds} rounds (bridge.rounds) is used up")

    def _stopped(self, reason: str) -> NeedsHuman:
        return NeedsHuman(
            f"The conversation stopped: {reason}.",
            kept="Everything said and done so far is kept.",
            hint=f"Mend it or raise the limit, then: segue bridge resume {self.desk.journal.run.id}",
        )

    async def _read(self, key: str, said: str) -> tuple[Command, ...]:
        """The commands of a reply. They are read once: neither clock nor settings may change them later."""
        known = self._output(f"{key}/read")
        if known:
            now = datetime.fromtimestamp(known["now"], UTC)
            lines, words = known["lines"], known["keywords"]
            return read("\n".join(lines), now=now, zone=UTC, limit=len(lines), keywords=words).commands
        settings, now = self.desk.settings, datetime.now(UTC)
        reading = read(
            said,
            now=now,
            zone=ZoneInfo(settings.time_zone),
            in_fences=settings.in_fences,
            limit=settings.commands,
            keywords=settings.extensions,
        )
        await self._write_down(key, said, reading, now)
        return reading.commands

    async def _write_down(self, key: str, said: str, reading: Reading, now: datetime) -> None:
        lines = [serialise(command) for command in reading.commands]
        for index, line in enumerate(lines, 1):
            await self.desk.emit(EventType.BRIDGE_COMMAND, key, command=f"{key}/command/{index}", line=line)
        for skipped in reading.skipped[:_SKIPS_KEPT]:
            await self.desk.emit(EventType.BRIDGE_SKIPPED, key, **asdict(skipped))
        output = {
            "now": now.timestamp(),
            "text": said,
            "lines": lines,
            "keywords": list(self.desk.settings.extensions),
            "skipped": [asdict(skipped) for skipped in reading.skipped[:_SKIPS_KEPT]],
            "skipped_count": len(reading.skipped),
        }
        await self.desk.journal.record(f"{key}/read", StepResult(True, output))

    async def _carry_out(self, key: str, command: Command) -> None:
        """Begin a command, unless the journal knows its end; a reminder is written down at once."""
        if isinstance(command, Remind):
            await execute(self.desk, key, command)
            self._reminders.add(key)
            self._start(key, self._remind(key))
        elif self.desk.journal.state(key) not in (StepState.DONE, StepState.FAILED):
            if not isinstance(command, Subagent) or self._waits(command):
                self._held_up.add(key)
            self._start(key, self._carried_out(key, command))

    def _waits(self, command: Subagent) -> bool:
        return self.desk.settings.wait if command.wait is None else command.wait

    async def _carried_out(self, key: str, command: Command) -> None:
        await execute(self.desk, key, command)

    async def _remind(self, key: str) -> None:
        """Wait for the instant, also across restarts, then tell people; the agent is told by the loop."""
        output = self._output(key)
        if output.get("status") != "set":
            return
        due, message = float(output["due"]), str(output.get("message", ""))
        journal = self.desk.journal
        await journal.sleep(f"{key}/wait", due)

        async def tell(_token: str) -> StepResult:
            problems = await tell_people(self.desk.app, "reminder", "Reminder", message)
            await self.desk.emit(
                EventType.BRIDGE_REMINDER, key, command=key, due=due, message=message, told=True
            )
            return StepResult(True, {"problems": problems})

        await journal.step(f"{key}/due", tell, facts=StepFacts(phase="due", input={"message": message}))

    async def _inbox(self) -> None:
        """Take the next thing that people and services have sent: a step, so that nothing is lost."""
        taken = sum(step.state is not StepState.STARTED for step in self.desk.journal.steps("inbox/"))
        self._looked.clear()
        await self.desk.journal.step(f"inbox/{taken + 1}", self._take, facts=StepFacts(phase="inbox"))

    async def _take(self, _token: str) -> StepResult:
        payload = await self.desk.journal.wait("message", timeout=0)
        if payload is None:
            self._looked.set()
            payload = await self.desk.journal.wait("message")
        assert payload is not None, "there is no time limit"
        if payload.get("kind") == "webhook":
            payload = {**payload, "known": self._is_ours(str(payload.get("agent_id")))}
        return StepResult(True, payload)

    def _is_ours(self, agent_id: str) -> bool:
        """Whether a subagent of this conversation is meant: its end is told in full by who watches it."""
        ended = (s.output.get("agent_id") for s in self.desk.journal.steps("turn/"))
        return agent_id in self.desk.started or agent_id in ended

    def _start(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[key] = asyncio.create_task(work)

    def _idle(self) -> bool:
        """Whether nothing more is to be waited for."""
        waiting = {key for key in self._tasks if key != "inbox"}
        return not (waiting if self.wait_reminders else waiting - self._reminders)

    async def _something(self) -> None:
        """Wait until something has happened; what failed in a task is raised here."""
        looked = asyncio.create_task(self._looked.wait()) if not self._looked.is_set() else None
        watched = {*self._tasks.values(), *([looked] if looked else [])}
        done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        if looked:
            looked.cancel()
        for key in [key for key, task in self._tasks.items() if task in done]:
            self._held_up.discard(key)
            self._tasks.pop(key).result()
            if key == "inbox":
                self._start("inbox", self._inbox())

    async def _let_finish(self) -> None:
        """Subagents at work are paid for: nothing more is said, but they are not ended half-way."""
        work = [task for key, task in self._tasks.items() if key != "inbox" and key not in self._reminders]
        await asyncio.gather(*work, return_exceptions=True)

    async def _end_tasks(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()


def _sent(journal: Any, key: str) -> bool:
    return journal.state(f"{key}/due") in (StepState.DONE, StepState.FAILED)
