"""Version 0 of the Cloud Agents API, the legacy one: one status per agent, no ids, streams or usage.

What v1 calls a run is a turn of the conversation here: `turn-2` answers the second prompt.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

from segue.agents.cloud.calls import ask, compute_age, read_body, read_name, send
from segue.agents.cloud.errors import CloudError
from segue.agents.cloud.transcript import Transcript
from segue.agents.cloud.vendor import TURN, CloudApi, CloudLook, CloudOrder
from segue.agents.cursor_cloud.api import (
    Branch,
    CursorCloudOptions,
    RunRef,
    Status,
    make_look,
    parse_status,
)
from segue.agents.local.values import as_list, as_table, as_text
from segue.prompts.cloud import make_mark
from segue.system.http.client import HttpClient

_PAGES = 5
_PAGE = "100"
_NAMELESS = 20
"""How many agents are asked for their prompt because their branch has no name yet."""


class CloudV0(CloudApi):
    """The legacy version."""

    mints_ids = False

    def __init__(self, http: HttpClient, options: CursorCloudOptions) -> None:
        self._http, self._options = http, options

    def owns(self, ref: RunRef) -> bool:
        """Return whether a run belongs to this version of the API."""
        return bool(ref.agent) and ref.run.startswith(TURN)

    async def launch(self, order: CloudOrder, deadline: float) -> RunRef:
        """Launch an agent; never repeated, because nothing would refuse a second one."""
        body: dict[str, Any] = {
            "prompt": {"text": order.prompt},
            "source": {"repository": order.repository, **({"ref": order.base} if order.base else {})},
            "target": {"autoCreatePr": self._options.auto_create_pr, "branchName": order.branch},
            **({"model": order.model} if order.model else {}),
        }
        answer = await send(self._http, "POST", "/v0/agents", deadline, body=body)
        return RunRef(read_name(answer, read_body(answer), "id", "an agent"), f"{TURN}1")

    async def find(self, order: CloudOrder, deadline: float) -> RunRef | None:
        """Return the agent that was launched with this order, among the newest few hundred.

        It is recognised by its branch or, before the API reports one, by the mark in its prompt.
        """
        nameless = 0
        async with aclosing(self._newest(deadline)) as newest:
            async for agent, branch in newest:
                found = branch == order.branch
                if not branch and nameless < _NAMELESS:
                    nameless += 1
                    found = await self._has_prompt(agent, make_mark(order.key), deadline)
                if found:
                    return RunRef(agent, f"{TURN}1")
        return None

    async def latest(self, agent: str, deadline: float) -> RunRef:
        """Return the newest turn of an agent."""
        messages = await self._conversation(agent, deadline)
        turns = sum(1 for message in messages if message.get("type") == "user_message")
        return RunRef(agent, f"{TURN}{turns}")

    async def follow_up(self, last: RunRef, order: CloudOrder, deadline: float) -> RunRef:
        """Send another prompt."""
        body = {"prompt": {"text": order.prompt}}
        try:
            await send(self._http, "POST", f"{_path(last.agent)}/followup", deadline, body=body)
        except CloudError as error:
            raise _explain_conflict(error) from None
        return RunRef(last.agent, f"{TURN}{_turn_number(last) + 1}")

    async def look(self, session: str, order: CloudOrder, seen: Transcript, deadline: float) -> CloudLook:  # noqa: ARG002
        """Read the state of a turn; the agent's status may still be that of the turn before."""
        ref = RunRef.parse(session)
        answer = await send(self._http, "GET", _path(ref.agent), deadline)
        agent = read_body(answer)
        word = str(agent.get("status"))
        status, text = parse_status(word), ""
        if status.is_terminal:
            said = await self._reply(ref, deadline)
            stale = _turn_number(ref) > 1 and status is Status.SUCCEEDED and said == ""
            status = Status.RUNNING if stale else status
            text = said or as_text(agent.get("summary"))
        # All turns have the same time of creation.
        old = compute_age(answer, agent.get("createdAt")) if _turn_number(ref) == 1 else None
        return make_look(status, word, order, _read_branches(agent), text=text, reports_stops=False, age=old)

    def page(self, session: str) -> str:
        """Return the agent's page."""
        return RunRef.parse(session).url

    async def stop(self, session: str, deadline: float) -> None:
        """Stop the agent."""
        path = f"{_path(RunRef.parse(session).agent)}/stop"
        await send(self._http, "POST", path, deadline, repeatable=True)

    async def _newest(self, deadline: float) -> AsyncGenerator[tuple[str, str], None]:
        """Yield agents, newest first, with the branches they work on if the API reports them."""
        cursor = ""
        for _ in range(_PAGES):
            query = {"limit": _PAGE, **({"cursor": cursor} if cursor else {})}
            page = await ask(self._http, "GET", "/v0/agents", deadline, query=query)
            for agent in map(as_table, as_list(page.get("agents"))):
                yield as_text(agent.get("id")), as_text(as_table(agent.get("target")).get("branchName"))
            cursor = as_text(page.get("nextCursor"))
            if not cursor:
                break

    async def _has_prompt(self, agent: str, words: str, deadline: float) -> bool:
        try:
            messages = await self._conversation(agent, deadline)
        except CloudError as error:
            if error.gone:
                return False
            raise
        return bool(messages) and words in as_text(messages[0].get("text"))

    async def _reply(self, ref: RunRef, deadline: float) -> str | None:
        """Return the last answer of a turn; empty if there is none yet, None if it cannot be read."""
        try:
            messages = await self._conversation(ref.agent, deadline)
        except CloudError as error:
            if error.gone:
                return None
            raise
        turn, said = 0, ""
        for message in messages:
            if message.get("type") == "user_message":
                turn += 1
            elif turn == _turn_number(ref):
                said = as_text(message.get("text")) or said
        return said

    async def _conversation(self, agent: str, deadline: float) -> Sequence[Mapping[str, Any]]:
        try:
            found = await ask(self._http, "GET", f"{_path(agent)}/conversation", deadline)
        except CloudError as error:
            raise _explain_conflict(error) from None
        return [as_table(message) for message in as_list(found.get("messages"))]


def _explain_conflict(error: CloudError) -> CloudError:
    """Return the error; a conflict without another reason means that the agent was deleted or archived."""
    if error.status == 409 and error.code != "agent_busy":
        return CloudError("agent_archived", error.message, status=409)
    return error


def _path(agent: str) -> str:
    return f"/v0/agents/{quote(agent, safe='')}"


def _turn_number(ref: RunRef) -> int:
    number = ref.run.removeprefix(TURN)
    return int(number) if number.isdecimal() else 1


def _read_branches(agent: Mapping[str, Any]) -> tuple[Branch, ...]:
    target = as_table(agent.get("target"))
    name = as_text(target.get("branchName"))
    repository = as_text(as_table(agent.get("source")).get("repository"))
    return (Branch(repository, name, as_text(target.get("prUrl"))),) if name else ()
