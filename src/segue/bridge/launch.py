"""Launches an agent as a journalled step: checks the budget before it, records the reply after it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from segue.bridge.context import ConversationContext
from segue.domain.event import Event, EventType
from segue.domain.failure import FailureKind
from segue.domain.job import Job, Mode
from segue.domain.outcome import Outcome
from segue.domain.prompt import Prompt
from segue.domain.run import StepState
from segue.ports import Agent, StepFacts, StepResult

KEPT_TEXT = 256 * 1024
_PIECE = 16 * 1024
"""A piece of text this long or longer may have been cut within a line."""

_PARKS = 5
_LIMITS = (FailureKind.USAGE_LIMIT, FailureKind.RATE_LIMIT)

After = Callable[[Outcome], Awaitable[dict[str, Any]]]
"""Work to do after the agent, in the same step; its facts are stored with the outcome."""


class OverBudget(Exception):
    """A limit forbids the launch."""


@dataclass(frozen=True, slots=True)
class AgentLaunch:
    """A launch to make, and its key in the journal."""

    key: str
    phase: str
    agent: Agent
    prompt: Prompt
    workspace: Path
    mode: Mode = Mode.EDIT
    model: str | None = None
    session: str | None = None
    base: str | None = None


async def launch_agent(
    context: ConversationContext, launch: AgentLaunch, after: After | None = None, *, again: bool = False
) -> StepResult:
    """Launch the agent; launch it again after an interruption and after a usage limit has passed.

    `again`: retry a failure that was recorded earlier.
    """
    attempt = parks = 0
    while True:
        attempt += 1
        key = f"{launch.key}/launch/{attempt}"
        before = context.journal.state(key)
        result = await _attempt(context, launch, key, attempt, after)
        failure = result.output.get("failure") or {}
        if result.ok or not failure:
            return result
        until = failure.get("until")
        if failure["kind"] == FailureKind.INTERRUPTED or (again and before is StepState.FAILED):
            continue
        if failure["kind"] not in _LIMITS or until is None or parks >= _PARKS:
            return result
        parks += 1
        if until > time.time():
            await context.emit(EventType.RUN_PARKED, task=launch.key, until=until)
        await context.journal.sleep(f"{launch.key}/park/{attempt}", until)


async def _attempt(
    context: ConversationContext, launch: AgentLaunch, key: str, attempt: int, after: After | None
) -> StepResult:
    used = ""

    async def work(token: str) -> StepResult:
        nonlocal used
        used = token
        text = launch.prompt.text
        await context.emit(EventType.PROMPT, key, digest=launch.prompt.digest, text=text, length=len(text))
        outcome, said, facts = await _run(context, launch, key, token)
        more = await after(outcome) if after else {}
        return StepResult(outcome.failure is None, _make_output(context, outcome, said) | facts | more)

    state = context.journal.state(key)
    if state is None:
        if reason := context.check_budget():
            raise OverBudget(reason)
        context.used.launches += 1
    facts = StepFacts(phase=launch.phase, attempt=attempt, agent=launch.agent.name, model=launch.model)
    result = await context.journal.step(key, work, facts=facts)
    if state in (None, StepState.STARTED):
        context.used.add(result.output)
        launch.agent.forget(used)
    return result


async def _run(
    context: ConversationContext, launch: AgentLaunch, key: str, token: str
) -> tuple[Outcome, str, dict[str, Any]]:
    """Run the agent and store its events; return its outcome, all it said, and a cloud agent's address."""
    labels = {"run": context.journal.run.id, "task": launch.key, "phase": launch.phase}
    job = Job(
        token=token,
        prompt=launch.prompt,
        workspace=launch.workspace,
        mode=launch.mode,
        model=launch.model,
        session=launch.session,
        base=launch.base,
        limits=context.app.loaded.settings.limits.launch(),
        labels={**labels, "attempt": key.rpartition("/")[2]},
    )
    said, facts, outcome = _Transcript(), dict[str, Any](), None
    async with aclosing(launch.agent.run(job)) as events:
        async for event in events:
            await context.journal.emit(event, key)
            said.add(event)
            facts |= {name: event.data[name] for name in ("agent_id", "url") if event.data.get(name)}
            context.started.update(filter(None, [facts.get("agent_id")]))
            outcome = event.outcome or outcome
    assert outcome is not None, f"agent {launch.agent.name} ended without an outcome"
    return outcome, said.text(outcome.text), facts


class _Transcript:
    """Everything an agent says in a turn; messages are separated, the pieces of a long one are joined."""

    def __init__(self) -> None:
        self._text = ""
        self._cut = False

    def add(self, event: Event) -> None:
        if event.type is not EventType.AGENT_TEXT:
            return
        piece = str(event.data.get("text", ""))
        between = "" if self._cut or not self._text else "\n\n"
        self._text = f"{self._text}{between}{piece}"[-2 * KEPT_TEXT :]
        self._cut = len(piece) >= _PIECE

    def text(self, last: str) -> str:
        """Return everything, including the last message."""
        return self._text if self._text.strip().endswith(last.strip()) else f"{self._text}\n\n{last}"


def _make_output(context: ConversationContext, outcome: Outcome, said: str) -> dict[str, Any]:
    return {
        "failure": asdict(outcome.failure) if outcome.failure else None,
        "text": _cut(said if context.settings.reads == "turn" else outcome.text),
        "session": outcome.session,
        "model": outcome.model,
        "usage": asdict(outcome.usage) if outcome.usage else None,
        "duration": round(outcome.duration, 3),
        "branches": list(outcome.branches),
    }


def _cut(text: str) -> str:
    """Return the end of a long text, beginning with a whole line: half a line could look like a command."""
    if len(text) <= KEPT_TEXT:
        return text
    return text[-KEPT_TEXT:].partition("\n")[2]
