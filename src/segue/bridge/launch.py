"""Launches the agents of a conversation: one for each turn, and the subagents it asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from segue.bridge.context import ConversationContext
from segue.domain.answer import LONGEST_ANSWER
from segue.domain.events import AgentStarted, AgentText, Event
from segue.domain.outcome import Outcome
from segue.domain.results import LaunchOutput, StepResult
from segue.flow.evidence import verdict_after
from segue.flow.launch import LaunchRequest, Series, Try

KEPT_TEXT = LONGEST_ANSWER
_PIECE = 16 * 1024
"""A piece of text this long or longer may have been cut within a line."""

After = Callable[[Outcome], Awaitable[tuple[str, ...]]]
"""Work to do after the agent, in the same step; returns the branches with the agent's work."""


async def launch_agent(
    context: ConversationContext, request: LaunchRequest, after: After | None = None, *, again: bool = False
) -> StepResult[LaunchOutput]:
    """Launch the agent; launch it again after an interruption and after a usage limit has passed.

    The key of the request is the folder of the attempts in the journal. `again`: retry a failure that was
    recorded earlier. Raises OverBudget.
    """
    key = request.key
    series = Series(chain=(request.by,), task=key, phase="launch", folder=key, retry_recorded=again)

    async def attempt(now: Try) -> StepResult[LaunchOutput]:
        said = _Transcript(context)

        async def conclude(outcome: Outcome) -> LaunchOutput:
            branches = await after(outcome) if after else outcome.branches
            text = said.text(outcome.text) if context.settings.reads == "turn" else outcome.text
            return LaunchOutput(
                verdict=verdict_after(outcome.failure),
                failure=outcome.failure,
                text=_cut(text),
                branches=branches,
                agent_id=said.agent_id,
                url=said.url,
            )

        attempt_key, number = series.key(now.number), now.number
        tried = replace(request, key=attempt_key, attempt=number, by=now.by, name=key, hear=said.hear)
        return await context.launcher.launch(tried, conclude)

    return (await context.launcher.attempt(series, attempt))[1]


class _Transcript:
    """Everything an agent says in a turn; messages are separated, the pieces of a long one are joined."""

    def __init__(self, context: ConversationContext) -> None:
        self._started = context.started
        self._text = ""
        self._cut = False
        self.agent_id: str | None = None
        self.url: str | None = None

    def hear(self, event: Event) -> None:
        """Take note of an event."""
        if isinstance(event, AgentStarted):
            self.agent_id, self.url = event.agent_id or self.agent_id, event.url or self.url
            self._started.update(filter(None, [self.agent_id]))
        elif isinstance(event, AgentText):
            between = "" if self._cut or not self._text else "\n\n"
            self._text = f"{self._text}{between}{event.text}"[-2 * KEPT_TEXT :]
            self._cut = len(event.text) >= _PIECE

    def text(self, last: str) -> str:
        """Return everything, including the last message."""
        return self._text if self._text.strip().endswith(last.strip()) else f"{self._text}\n\n{last}"


def _cut(text: str) -> str:
    """Return the end of a long text, beginning with a whole line: half a line could look like a command."""
    if len(text) <= KEPT_TEXT:
        return text
    return text[-KEPT_TEXT:].partition("\n")[2]
