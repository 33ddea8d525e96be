"""The Cloud Agents API v0, the legacy one: one status per agent, no ids of our own, no streams, no usage.

What v1 calls a run is here a turn of the conversation: `turn-2` answers the second thing that was asked.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

from segue.agents.cursor.tools import table
from segue.agents.cursor_cloud.api import TURN, Branch, Order, Place, Used, View
from segue.agents.cursor_cloud.client import age, ask, content
from segue.agents.cursor_cloud.errors import CloudError
from segue.agents.cursor_cloud.sse import Frame
from segue.agents.cursor_cloud.status import Status, normalised
from segue.system.http.client import HttpClient

_PAGES = 5
_PAGE = "100"
_NAMELESS = 20
"""How many agents are asked what they were asked, because their branch has no name yet."""


class CloudV0:
    """The legacy generation."""

    mints_ids = False
    streams = False
    tells_cancelled = False

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    def owns(self, place: Place) -> bool:
        """Whether it names a turn."""
        return bool(place.agent) and place.run.startswith(TURN)

    async def launch(self, order: Order, deadline: float) -> Place:
        """Launch an agent; never repeated, because nothing would refuse the second one."""
        body: dict[str, Any] = {
            "prompt": {"text": f"{order.prompt}\n\n{mark(order.token)}\n"},
            "source": {"repository": order.repository, **({"ref": order.ref} if order.ref else {})},
            "target": {"autoCreatePr": order.auto_create_pr, "branchName": branch_name(order.token)},
            **({"model": order.model} if order.model else {}),
        }
        agent = content(await ask(self._http, "POST", "/v0/agents", deadline, body=body)).get("id")
        if not isinstance(agent, str) or not agent:
            raise CloudError("bad_answer", "the API's answer names no agent")
        return Place(agent, f"{TURN}1")

    async def find(self, token: str, deadline: float) -> Place | None:
        """The agent that was launched with this token, among the newest few hundred.

        It is known by its branch; while the API does not name that, by the mark in what it was asked.
        """
        nameless = 0
        async with aclosing(self._newest(deadline)) as newest:
            async for agent, branch in newest:
                found = branch == branch_name(token)
                if not branch and nameless < _NAMELESS:
                    nameless += 1
                    found = await self._was_asked(agent, mark(token), deadline)
                if found:
                    return Place(agent, f"{TURN}1")
        return None

    async def latest(self, agent: str, deadline: float) -> Place:
        """The newest turn of an agent."""
        messages = await self._conversation(agent, deadline)
        return Place(agent, f"{TURN}{_turns(messages)}")

    async def follow_up(self, last: Place, order: Order, deadline: float) -> Place:
        """Ask another thing."""
        body = {"prompt": {"text": order.prompt}}
        try:
            await ask(self._http, "POST", f"{_path(last.agent)}/followup", deadline, body=body)
        except CloudError as error:
            raise _conflict(error) from None
        return Place(last.agent, f"{TURN}{_number(last) + 1}")

    async def get(self, place: Place, deadline: float) -> View:
        """Where a turn stands; the agent's status may still be that of the turn before."""
        answer = await ask(self._http, "GET", _path(place.agent), deadline)
        agent = content(answer)
        word = str(agent.get("status"))
        status, text = normalised(word), ""
        if status.terminal:
            said = await self._reply(place, deadline)
            stale = _number(place) > 1 and status is Status.SUCCEEDED and said == ""
            status = Status.RUNNING if stale else status
            text = said or _string(agent.get("summary"))
        # There is one instant of creation for all turns.
        old = age(answer, agent.get("createdAt")) if _number(place) == 1 else None
        return View(status, word, text, branches=_branches(agent), age=old)

    def stream(
        self,
        place: Place,  # noqa: ARG002 - there is nothing to follow
        last_id: str | None,  # noqa: ARG002
        silence: float,  # noqa: ARG002
    ) -> AsyncGenerator[Frame, None]:
        """There are no streams here: this one ends at once."""
        return _nothing()

    async def cancel(self, place: Place, deadline: float) -> bool:
        """Stop the agent; one that does not run is a conflict."""
        try:
            await ask(self._http, "POST", f"{_path(place.agent)}/stop", deadline, repeatable=True)
        except CloudError as error:
            if error.status != 409:
                raise
            return False
        return True

    async def usage(self, place: Place, deadline: float) -> Used | None:  # noqa: ARG002 - never said
        """Nothing is said about it here."""
        return None

    async def _newest(self, deadline: float) -> AsyncGenerator[tuple[str, str], None]:
        """Agents, newest first, with the branches they work on as far as the API names them."""
        cursor = ""
        for _ in range(_PAGES):
            query = {"limit": _PAGE, **({"cursor": cursor} if cursor else {})}
            page = content(await ask(self._http, "GET", "/v0/agents", deadline, query=query))
            for agent in map(table, _items(page.get("agents"))):
                yield _string(agent.get("id")), _string(table(agent.get("target")).get("branchName"))
            cursor = _string(page.get("nextCursor"))
            if not cursor:
                break

    async def _was_asked(self, agent: str, words: str, deadline: float) -> bool:
        try:
            messages = await self._conversation(agent, deadline)
        except CloudError as error:
            if error.gone:
                return False
            raise
        return bool(messages) and words in _string(messages[0].get("text"))

    async def _reply(self, place: Place, deadline: float) -> str | None:
        """What was said last in answer to the turn; empty when nothing yet, None when nobody may look."""
        try:
            messages = await self._conversation(place.agent, deadline)
        except CloudError as error:
            if error.gone:
                return None
            raise
        turn, said = 0, ""
        for message in messages:
            if message.get("type") == "user_message":
                turn += 1
            elif turn == _number(place):
                said = _string(message.get("text")) or said
        return said

    async def _conversation(self, agent: str, deadline: float) -> Sequence[Mapping[str, Any]]:
        try:
            answer = await ask(self._http, "GET", f"{_path(agent)}/conversation", deadline)
        except CloudError as error:
            raise _conflict(error) from None
        return [table(message) for message in _items(content(answer).get("messages"))]


async def _nothing() -> AsyncGenerator[Frame, None]:
    for frame in tuple[Frame, ...]():
        yield frame


def branch_name(token: str) -> str:
    """The branch by which a launch is found again."""
    return f"segue/{token[:12]}"


def mark(token: str) -> str:
    """The last line of a launch's prompt, by which it is found again before its branch has a name."""
    return f"<!-- segue {token[:12]} -->"


def _conflict(error: CloudError) -> CloudError:
    """A conflict that is not said to be something else means: deleted or archived."""
    if error.status == 409 and error.code != "agent_busy":
        return CloudError("agent_archived", error.message, status=409)
    return error


def _path(agent: str) -> str:
    return f"/v0/agents/{quote(agent, safe='')}"


def _turns(messages: Sequence[Mapping[str, Any]]) -> int:
    return sum(1 for message in messages if message.get("type") == "user_message")


def _number(place: Place) -> int:
    number = place.run.removeprefix(TURN)
    return int(number) if number.isdecimal() else 1


def _branches(agent: Mapping[str, Any]) -> tuple[Branch, ...]:
    target = table(agent.get("target"))
    name = _string(target.get("branchName"))
    repository = _string(table(agent.get("source")).get("repository"))
    return (Branch(repository, name, _string(target.get("prUrl"))),) if name else ()


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
