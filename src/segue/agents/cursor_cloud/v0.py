"""Version 0 of the Cloud Agents API, the legacy one: one status per agent, no ids of ours, no usage.

What v1 calls a run is a turn of the conversation here: `turn-2` answers the second prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar
from urllib.parse import quote

from msgspec import Struct

from segue.agents.cursor_cloud.api import (
    Branch,
    CloudOrder,
    Look,
    RunRef,
    Status,
    compute_age,
    explain_conflict,
    parse_status,
    read_name,
    send,
)
from segue.agents.cursor_cloud.errors import CloudError
from segue.agents.local.values import Json, as_list, as_table, as_text
from segue.domain.events import AgentUsage
from segue.system.http.client import HttpClient

_TURN = "turn-"
_PAGES = 5
_NAMELESS = 20
"""How many agents are asked for their prompt because their branch has no name yet."""


class CloudV0(Struct, frozen=True):
    """The legacy version."""

    http: HttpClient
    mints_ids: ClassVar[bool] = False

    def owns(self, ref: RunRef) -> bool:
        """Return whether a run belongs to this version of the API."""
        return bool(ref.agent) and ref.run.startswith(_TURN)

    async def launch(self, order: CloudOrder, deadline: float) -> RunRef:
        """Launch an agent; never repeated, because nothing would refuse a second one."""
        body: dict[str, Any] = {
            "prompt": {"text": order.prompt},
            "source": {"repository": order.repository, **({"ref": order.base} if order.base else {})},
            "target": {"autoCreatePr": order.auto_create_pr, "branchName": order.branch},
            **({"model": order.model} if order.model else {}),
        }
        answer = await send(self.http, "POST", "/v0/agents", deadline, body=body)
        return RunRef(read_name(answer, answer.json(), "an agent"), f"{_TURN}1")

    async def find(self, order: CloudOrder, deadline: float) -> RunRef | None:
        """Return the agent that was launched with this order, among the newest few hundred.

        It is recognised by its branch or, before the API reports one, by the mark in its prompt.
        """
        cursor, nameless = "", 0
        for _ in range(_PAGES):
            query = {"limit": "100", **({"cursor": cursor} if cursor else {})}
            page = (await send(self.http, "GET", "/v0/agents", deadline, query=query)).json()
            for agent in map(as_table, as_list(page.get("agents"))):
                name, branch = as_text(agent.get("id")), as_table(agent.get("target")).get("branchName")
                is_ours = branch == order.branch
                if not branch and nameless < _NAMELESS:
                    nameless += 1
                    is_ours = await self._has_mark(name, order.mark, deadline)
                if is_ours:
                    return RunRef(name, f"{_TURN}1")
            cursor = as_text(page.get("nextCursor"))
            if not cursor:
                break
        return None

    async def latest(self, agent: str, deadline: float) -> RunRef:
        """Return the newest turn of an agent."""
        messages = await self._read_conversation(agent, deadline)
        return RunRef(agent, f"{_TURN}{sum(one.get('type') == 'user_message' for one in messages)}")

    async def follow_up(self, last: RunRef, order: CloudOrder, deadline: float) -> RunRef:
        """Send another prompt."""
        body = {"prompt": {"text": order.prompt}}
        try:
            await send(self.http, "POST", f"{_path(last.agent)}/followup", deadline, body=body)
        except CloudError as error:
            raise explain_conflict(error) from None
        return RunRef(last.agent, f"{_TURN}{_turn_number(last) + 1}")

    async def look(self, ref: RunRef, deadline: float) -> Look:
        """Read the state of a turn; the agent's status may still be that of the turn before."""
        answer = await send(self.http, "GET", _path(ref.agent), deadline)
        agent: Json = answer.json()
        word, turn = str(agent.get("status")), _turn_number(ref)
        status, text = parse_status(word), ""
        if status.is_terminal:
            reply = await self._read_reply(ref, deadline)
            status = Status.RUNNING if turn > 1 and status is Status.SUCCEEDED and reply == "" else status
            text = reply or as_text(agent.get("summary"))
        return Look(
            status,
            word,
            text=text,
            # A run that was stopped may seem to have succeeded.
            may_be_ours=status in (Status.CANCELLED, Status.SUCCEEDED),
            pushed=_read_branches(agent),
            # All turns have the same time of creation.
            age=compute_age(answer, agent.get("createdAt")) if turn == 1 else None,
        )

    async def stop(self, ref: RunRef, deadline: float) -> None:
        """Stop the agent."""
        await send(self.http, "POST", f"{_path(ref.agent)}/stop", deadline, repeatable=True)

    async def usage(self, ref: RunRef, deadline: float) -> AgentUsage | None:  # noqa: ARG002
        """Return nothing: this version does not count."""
        return None

    async def _has_mark(self, agent: str, mark: str, deadline: float) -> bool:
        messages = await self._read_if_there(agent, deadline)
        return bool(messages) and mark in as_text(messages[0].get("text"))

    async def _read_reply(self, ref: RunRef, deadline: float) -> str | None:
        """Return the last answer of a turn; empty if there is none yet, None if it cannot be read."""
        messages = await self._read_if_there(ref.agent, deadline)
        turn, reply = 0, ""
        for message in messages:
            if message.get("type") == "user_message":
                turn += 1
            elif turn == _turn_number(ref):
                reply = as_text(message.get("text")) or reply
        return reply if messages else None

    async def _read_if_there(self, agent: str, deadline: float) -> Sequence[Json]:
        """Return the conversation; nothing if the agent was deleted or archived meanwhile."""
        try:
            return await self._read_conversation(agent, deadline)
        except CloudError as error:
            if error.gone:
                return []
            raise

    async def _read_conversation(self, agent: str, deadline: float) -> Sequence[Json]:
        try:
            answer = await send(self.http, "GET", f"{_path(agent)}/conversation", deadline)
        except CloudError as error:
            raise explain_conflict(error) from None
        return [as_table(message) for message in as_list(answer.json().get("messages"))]


def _path(agent: str) -> str:
    return f"/v0/agents/{quote(agent, safe='')}"


def _turn_number(ref: RunRef) -> int:
    number = ref.run.removeprefix(_TURN)
    return int(number) if number.isdecimal() else 1


def _read_branches(agent: Json) -> list[Branch]:
    target = as_table(agent.get("target"))
    name, pull = as_text(target.get("branchName")), as_text(target.get("prUrl"))
    repository = as_text(as_table(agent.get("source")).get("repository"))
    return [Branch(repository, name, pull)] if name else []
