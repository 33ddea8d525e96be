"""Runs a conversation: tell the agent what is new, read its reply, execute its commands, until none is left.

Everything that happens is a step of the journal, and the loop looks at nothing else: killed at any instant
and started again, it says nothing twice and launches nothing twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from segue.domain.errors import NeedsHuman
from segue.domain.job import Mode
from segue.domain.results import LaunchOutput, R, StepFacts, StepResult, read_as
from segue.domain.run import StepState
from segue.features.bridge.commands import AgentCommand, Remind, Subagent, serialise
from segue.features.bridge.context import ConversationContext, launch_agent, notify_people
from segue.features.bridge.events import BridgeCommand, BridgeReminder, BridgeSkipped, BridgeTurn
from segue.features.bridge.execute import execute
from segue.features.bridge.grammar import ParsedReply, parse_reply
from segue.features.bridge.prompts import conversation_prompt
from segue.features.bridge.relay_client import list_actions
from segue.features.bridge.results import NewsItem, PastTurn, collect_news, write_history
from segue.features.bridge.steps import (
    CommandOutput,
    MessageOutput,
    ReminderInput,
    ReminderOutput,
    ReplyOutput,
    SayOutput,
)
from segue.flow.agents import ChosenAgent, OverBudget
from segue.flow.launch import LaunchRequest
from segue.ports import Agent

_SKIPS_KEPT = 100
_ENDED = (StepState.DONE, StepState.FAILED)


class Conversation(Struct):
    """One conversation in progress."""

    context: ConversationContext
    agent: Agent
    workspace: Path
    wait_reminders: bool = False
    """True if it continues until its last reminder has been sent."""
    turn: int = 0
    _tasks: dict[str, asyncio.Task[Any]] = field(default_factory=dict)
    _awaited: set[str] = field(default_factory=set)
    """The commands that must end before the next follow-up."""
    _reminders: set[str] = field(default_factory=set)
    _inbox_empty: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there was no message to take, so that one sent earlier is not overlooked."""

    async def run(self) -> str:
        """Continue until nothing is left to do; return the agent's last reply."""
        try:
            await self._replay()
            self._start("inbox", self._read_inbox())
            while True:
                news = collect_news(self.context.journal.steps())
                if any(item.loud for item in news) and not self._awaited:
                    await self._take_turn(self.turn + 1, news)
                elif self._inbox_empty.is_set() and self._is_idle():
                    return self._output(f"turn/{self.turn}/read", ReplyOutput).text if self.turn else ""
                else:
                    await self._wait()
        except NeedsHuman:
            await self._finish_subagents()
            raise
        finally:
            await self._cancel_tasks()

    def next_reminder(self) -> float | None:
        """Return when the first unsent reminder is due."""
        journal = self.context.journal
        unsent = [s for s in journal.steps("turn/") if journal.state(f"{s.key}/due") not in _ENDED]
        results = [
            CommandOutput.read(step.output) for step in unsent if _is_command(step.key) and step.output
        ]
        return min((float(one.facts["due"]) for one in results if one.status == "set"), default=None)

    async def _replay(self) -> None:
        """Go through the turns in the journal, and do now what they left undone."""
        while self.context.journal.state(f"turn/{self.turn + 1}/say") is not None:
            await self._take_turn(self.turn + 1, [])

    async def _take_turn(self, number: int, news: list[NewsItem]) -> None:
        """Tell the agent what is new and start the commands of its reply."""
        key = f"turn/{number}"
        reply = await self._ask(key, number, news)
        self.turn = number
        for index, command in enumerate(await self._parse(key, reply), 1):
            await self._start_command(f"{key}/command/{index}", command)

    async def _ask(self, key: str, number: int, news: list[NewsItem]) -> str:
        self._check_rounds(number, news)
        words = SayOutput(
            tuple(item.id for item in news),
            "\n\n".join(item.text for item in news if item.kind == "message"),
            "\n".join(item.text for item in news if item.kind == "result"),
        )
        if self.context.journal.state(f"{key}/say") is None:
            if number == 1 or not self.agent.can.follow_up:
                actions = await list_actions(self.context.settings)
                words = msgspec.structs.replace(words, actions=self.context.journal.redact(actions))
            await self.context.emit(BridgeTurn(number, words.items), key)
        say = (await self.context.journal.record(f"{key}/say", StepResult(True, words))).output
        try:
            by = ChosenAgent(self.agent, self.context.journal.run.spec.model)
            request = self._make_launch(key, number, say)
            result = await launch_agent(self.context, key, "turn", by, request, again=True)
        except OverBudget as error:
            raise self._needs_human(error.reason.replace("limits.", "bridge.")) from None
        if not result.ok:
            failure = result.output.failure
            raise self._needs_human(f"the agent failed: {failure.message if failure else 'it gave no reply'}")
        return result.output.text

    def _make_launch(self, key: str, number: int, say: SayOutput) -> LaunchRequest:
        settings, run = self.context.settings, self.context.journal.run
        remembers = self.agent.can.follow_up
        prompt = conversation_prompt(
            say.messages,
            say.results,
            first=number == 1,
            so_far="" if remembers or number == 1 else self._history(number),
            request="" if remembers or number == 1 else self._request(),
            actions=say.actions,
            repos=[entry if isinstance(entry, str) else entry.repo for entry in settings.allow_repos],
            nonce=f"{run.id} {key}",
        )
        return LaunchRequest(
            prompt,
            Mode.EDIT,
            self.workspace,
            session=self._session_before(number) if remembers else None,
        )

    def _session_before(self, number: int) -> str | None:
        """Return the session of the previous reply."""
        steps = self.context.journal.steps(f"turn/{number - 1}/launch/")
        done = [step for step in steps if step.state is StepState.DONE]
        return read_as(LaunchOutput, done[-1].output).session if done else None

    def _history(self, number: int) -> str:
        """Return the conversation for an agent that does not remember it."""
        says = [self._output(f"turn/{turn}/say", SayOutput) for turn in range(1, number)]
        replies = [self._output(f"turn/{turn}/read", ReplyOutput).text for turn in range(1, number)]
        turns = zip(says, replies, strict=True)
        return write_history([PastTurn(say.messages, say.results, reply) for say, reply in turns])

    def _request(self) -> str:
        """Return what the user asked for first, which is never shortened."""
        return self._output("turn/1/say", SayOutput).messages

    def _output(self, key: str, kind: type[R]) -> R:
        """Return what a step stored; an empty value when it has not ended."""
        found = self.context.journal.recorded(key, kind)
        return found.output if found else kind()

    def _check_rounds(self, number: int, news: list[NewsItem]) -> None:
        """Stop when the agent has had too many turns since a person last said something."""
        known = self.context.journal.state(f"turn/{number}/say") is not None
        if known or any(item.kind == "message" for item in news):
            return
        rounds = 0
        for turn in range(number - 1, 0, -1):
            rounds += 1
            if self._output(f"turn/{turn}/say", SayOutput).messages:
                break
        limit = self.context.settings.rounds
        if rounds >= limit:
            raise self._needs_human(f"the limit of {limit} rounds (bridge.rounds) is reached")

    def _needs_human(self, reason: str) -> NeedsHuman:
        return NeedsHuman(
            f"The conversation stopped: {reason}.",
            kept="Everything said and done so far is kept.",
            hint=f"Fix it or raise the limit, then: segue bridge resume {self.context.journal.run.id}",
        )

    async def _parse(self, key: str, reply: str) -> tuple[AgentCommand, ...]:
        """Parse a reply once: neither the clock nor the settings may change its commands later."""
        known = self.context.journal.recorded(f"{key}/read", ReplyOutput)
        if known is not None:
            now, lines = datetime.fromtimestamp(known.output.now, UTC), known.output.lines
            return parse_reply("\n".join(lines), now=now, limit=len(lines)).commands
        now = datetime.now(UTC)
        parsed = parse_reply(reply, now=now, limit=self.context.settings.commands)
        await self._record_reply(key, reply, parsed, now)
        return parsed.commands

    async def _record_reply(self, key: str, reply: str, parsed: ParsedReply, now: datetime) -> None:
        lines = [serialise(command) for command in parsed.commands]
        for index, line in enumerate(lines, 1):
            await self.context.emit(BridgeCommand(f"{key}/command/{index}", line), key)
        skipped = tuple(parsed.skipped[:_SKIPS_KEPT])
        for one in skipped:
            await self.context.emit(BridgeSkipped(one.line, one.text, one.reason), key)
        output = ReplyOutput(now.timestamp(), reply, tuple(lines), skipped, len(parsed.skipped))
        await self.context.journal.record(f"{key}/read", StepResult(True, output))

    async def _start_command(self, key: str, command: AgentCommand) -> None:
        """Start a command, unless the journal knows its result; a reminder is recorded at once."""
        if isinstance(command, Remind):
            await execute(self.context, key, command)
            self._reminders.add(key)
            self._start(key, self._remind(key))
        elif self.context.journal.state(key) not in _ENDED:
            wanted = command.wait if isinstance(command, Subagent) else True
            if self.context.settings.wait if wanted is None else wanted:
                self._awaited.add(key)
            self._start(key, execute(self.context, key, command))

    async def _remind(self, key: str) -> None:
        """Wait until a reminder is due, also across restarts, then notify people; `run` tells the agent."""
        output = CommandOutput.read(next(s.output for s in self.context.journal.steps(key) if s.key == key))
        if output.status != "set":
            return
        due, message = float(output.facts["due"]), str(output.facts.get("message", ""))
        journal = self.context.journal
        await journal.sleep(f"{key}/wait", due)

        async def send(_token: str) -> StepResult[ReminderOutput]:
            problems = await notify_people(self.context.app, "reminder", "Reminder", message)
            await self.context.emit(BridgeReminder(key, due, message, told=True), key)
            return StepResult(True, ReminderOutput(tuple(problems)))

        facts = StepFacts(phase="due", input=ReminderInput(message))
        await journal.step(f"{key}/due", ReminderOutput, send, facts=facts)

    async def _read_inbox(self) -> None:
        """Take the next message of a person or service as a step, so that none is lost."""
        steps = self.context.journal.steps("inbox/")
        taken = sum(step.state is not StepState.STARTED for step in steps)
        self._inbox_empty.clear()
        key = f"inbox/{taken + 1}"
        facts = StepFacts(phase="inbox")
        await self.context.journal.step(key, MessageOutput, self._take_message, facts=facts)

    async def _take_message(self, _token: str) -> StepResult[MessageOutput]:
        payload = await self.context.journal.wait("message", timeout=0)
        if payload is None:
            self._inbox_empty.set()
            payload = await self.context.journal.wait("message")
        assert payload is not None, "there is no time limit"
        message = read_as(MessageOutput, payload)
        if message.kind == "webhook":
            message = msgspec.structs.replace(message, known=self._is_own_subagent(message.agent_id))
        return StepResult(True, message)

    def _is_own_subagent(self, agent_id: str) -> bool:
        """Return whether this conversation launched the agent: then its command reports the end in full."""
        steps = [step for step in self.context.journal.steps("turn/") if _is_command(step.key)]
        ended = (CommandOutput.read(step.output).facts.get("agent_id") for step in steps if step.output)
        return agent_id in self.context.started or agent_id in ended

    def _start(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[key] = asyncio.create_task(work)

    def _is_idle(self) -> bool:
        """Return whether there is nothing left to wait for."""
        waiting = {key for key in self._tasks if key != "inbox"}
        return not (waiting if self.wait_reminders else waiting - self._reminders)

    async def _wait(self) -> None:
        """Wait until something happens; a failure in a task is raised here."""
        empty = asyncio.create_task(self._inbox_empty.wait()) if not self._inbox_empty.is_set() else None
        watched = {*self._tasks.values(), *([empty] if empty else [])}
        done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        if empty:
            empty.cancel()
        for key in [key for key, task in self._tasks.items() if task in done]:
            self._awaited.discard(key)
            self._tasks.pop(key).result()
            if key == "inbox":
                self._start("inbox", self._read_inbox())

    async def _finish_subagents(self) -> None:
        """Let running subagents finish: they are paid for."""
        work = [task for key, task in self._tasks.items() if key != "inbox" and key not in self._reminders]
        await asyncio.gather(*work, return_exceptions=True)

    async def _cancel_tasks(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()


def _is_command(key: str) -> bool:
    """Return whether a step is the result of a command: `turn/2/command/1`."""
    parts = key.split("/")
    return len(parts) == 4 and parts[2] == "command"
