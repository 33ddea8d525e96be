"""Launches the agents of a conversation: one for each turn, and the subagents it asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from segue.domain.answer import LONGEST_ANSWER, AnswerText, is_too_long
from segue.domain.events import AgentStarted, AgentText, Event
from segue.domain.failure import Failure, FailureKind
from segue.domain.outcome import Outcome
from segue.domain.results import LaunchOutput, StepResult
from segue.flow.agents import ChosenAgent
from segue.flow.evidence import verdict_after
from segue.flow.launch import Attempts, LaunchRequest, Series
from segue.parts.bridge.context import ConversationContext

_PIECE = 16 * 1024
"""A piece of text this long or longer may have been cut within a line."""

After = Callable[[Outcome], Awaitable[tuple[str, ...]]]
"""Work to do after the agent, in the same step; returns the branches with the agent's work."""


async def launch_agent(
    context: ConversationContext,
    key: str,
    phase: str,
    by: ChosenAgent,
    request: LaunchRequest,
    after: After | None = None,
    *,
    again: bool = False,
) -> StepResult[LaunchOutput]:
    """Launch the agent; launch it again after an interruption and after a usage limit has passed.

    `key` is the folder of the attempts in the journal. `again`: retry a failure that was recorded earlier.
    Raises OverBudget.
    """
    series = Series(
        chain=(by,), task="", label=key, phase="launch", kind=phase, folder=key, retry_recorded=again
    )
    attempts = Attempts(context.launcher, series, {})
    async for attempt in attempts:
        said = TurnTranscript(context.started)
        async with attempt.launch(request, said.hear) as outcome:
            branches = await after(outcome) if after else outcome.branches
            text, failure = said.conclude(outcome, whole=context.settings.reads == "turn")
            attempt.output = LaunchOutput(
                verdict=verdict_after(failure),
                failure=failure,
                text=text,
                branches=branches,
                agent_id=said.agent_id,
                url=said.url,
            )
    return attempts.result


class TurnTranscript:
    """Everything an agent says in a turn; messages are separated, the pieces of a long one are joined."""

    def __init__(self, started: set[str]) -> None:
        """`started` gets the ids of the agents that report one."""
        self._started = started
        self._said = AnswerText()
        self._cut = False
        self.agent_id: str | None = None
        self.url: str | None = None

    def hear(self, event: Event) -> None:
        """Take note of an event."""
        if isinstance(event, AgentStarted):
            self.agent_id, self.url = event.agent_id or self.agent_id, event.url or self.url
            self._started.update(filter(None, [self.agent_id]))
        elif isinstance(event, AgentText):
            between = "" if self._cut or not len(self._said) else "\n\n"
            self._said.add(f"{between}{event.text}")
            self._cut = len(event.text) >= _PIECE

    def conclude(self, outcome: Outcome, whole: bool) -> tuple[str, Failure | None]:
        """Return the last message, or the whole turn, and why it failed: what is too long is never cut."""
        text = self._join(outcome.text) if whole else outcome.text
        if not is_too_long(text):
            return text, outcome.failure
        what = (
            f"What the agent said in this turn is too long: at most {LONGEST_ANSWER:,} characters are read."
        )
        return "", outcome.failure or Failure(FailureKind.OUTPUT_LIMIT, what)

    def _join(self, last: str) -> str:
        """Return everything, including the last message; one character too much says that it is too long."""
        said = str(self._said)
        return said if said.strip().endswith(last.strip()) else f"{said}\n\n{last}"
