"""One launch of an agent as a journalled step: the budget before it, what it said after it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from segue.bridge.desk import Desk
from segue.domain.event import Event, EventType
from segue.domain.failure import FailureKind
from segue.domain.job import Job, Mode
from segue.domain.outcome import Outcome
from segue.domain.prompt import Prompt
from segue.domain.run import StepState
from segue.ports import Agent, StepFacts, StepResult

KEPT_TEXT = 256 * 1024
_PIECE = 16 * 1024
"""A piece of text at least as long may have been cut within a line."""

_PARKS = 5
_LIMITS = (FailureKind.USAGE_LIMIT, FailureKind.RATE_LIMIT)

After = Callable[[Outcome], Awaitable[dict[str, Any]]]
"""What is done when the agent has ended, within the same step; its facts are stored with the outcome."""


class OverBudget(Exception):
    """A cap forbids the launch."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What is launched, and under which name in the journal."""

    key: str
    phase: str
    agent: Agent
    prompt: Prompt
    workspace: Path
    mode: Mode = Mode.EDIT
    model: str | None = None
    session: str | None = None
    base: str | None = None


async def launched(
    desk: Desk, launch: Launch, after: After | None = None, *, again: bool = False
) -> StepResult:
    """Launch until there is an end that counts: not after an interruption, nor while a limit holds.

    `again`: a failure that was written down before is tried once more.
    """
    attempt = parks = 0
    while True:
        attempt += 1
        key = f"{launch.key}/launch/{attempt}"
        before = desk.journal.state(key)
        result = await _attempt(desk, launch, key, attempt, after)
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
            await desk.emit(EventType.RUN_PARKED, task=launch.key, until=until)
        await desk.journal.sleep(f"{launch.key}/park/{attempt}", until)


async def _attempt(desk: Desk, launch: Launch, key: str, attempt: int, after: After | None) -> StepResult:
    used = ""

    async def work(token: str) -> StepResult:
        nonlocal used
        used = token
        text = launch.prompt.text
        await desk.emit(EventType.PROMPT, key, digest=launch.prompt.digest, text=text, length=len(text))
        outcome, said, facts = await _outcome(desk, launch, key, token)
        more = await after(outcome) if after else {}
        return StepResult(outcome.failure is None, _output(desk, outcome, said) | facts | more)

    state = desk.journal.state(key)
    if state is None:
        if reason := desk.over_budget():
            raise OverBudget(reason)
        desk.spent.launches += 1
    facts = StepFacts(phase=launch.phase, attempt=attempt, agent=launch.agent.name, model=launch.model)
    result = await desk.journal.step(key, work, facts=facts)
    if state in (None, StepState.STARTED):
        desk.spent.add(result.output)
        launch.agent.forget(used)
    return result


async def _outcome(desk: Desk, launch: Launch, key: str, token: str) -> tuple[Outcome, str, dict[str, Any]]:
    """Run the agent, pass its events on; how it ended, all it said, and where a cloud agent is seen."""
    labels = {"run": desk.journal.run.id, "task": launch.key, "phase": launch.phase}
    job = Job(
        token=token,
        prompt=launch.prompt,
        workspace=launch.workspace,
        mode=launch.mode,
        model=launch.model,
        session=launch.session,
        base=launch.base,
        limits=desk.app.loaded.settings.limits.launch(),
        labels={**labels, "attempt": key.rpartition("/")[2]},
    )
    said, facts, outcome = _Said(), dict[str, Any](), None
    async with aclosing(launch.agent.run(job)) as events:
        async for event in events:
            await desk.journal.emit(event, key)
            said.hear(event)
            facts |= {name: event.data[name] for name in ("agent_id", "url") if event.data.get(name)}
            desk.started.update(filter(None, [facts.get("agent_id")]))
            outcome = event.outcome or outcome
    assert outcome is not None, f"agent {launch.agent.name} ended without an outcome"
    return outcome, said.text(outcome.text), facts


class _Said:
    """All that an agent says in a turn; its messages are apart, the pieces of a long one are not."""

    def __init__(self) -> None:
        self._text = ""
        self._cut = False

    def hear(self, event: Event) -> None:
        if event.type is not EventType.AGENT_TEXT:
            return
        piece = str(event.data.get("text", ""))
        between = "" if self._cut or not self._text else "\n\n"
        self._text = f"{self._text}{between}{piece}"[-2 * KEPT_TEXT :]
        self._cut = len(piece) >= _PIECE

    def text(self, last: str) -> str:
        """Everything, the last message in any case."""
        return self._text if self._text.strip().endswith(last.strip()) else f"{self._text}\n\n{last}"


def _output(desk: Desk, outcome: Outcome, said: str) -> dict[str, Any]:
    reads = desk.settings.reads
    return {
        "failure": asdict(outcome.failure) if outcome.failure else None,
        "text": _tail(said if reads == "turn" else outcome.text),
        "session": outcome.session,
        "model": outcome.model,
        "usage": asdict(outcome.usage) if outcome.usage else None,
        "duration": round(outcome.duration, 3),
        "branches": list(outcome.branches),
    }


def _tail(text: str) -> str:
    """The end of a text that is too long, from a whole line on: half a line must not look like a start."""
    if len(text) <= KEPT_TEXT:
        return text
    return text[-KEPT_TEXT:].partition("\n")[2]
