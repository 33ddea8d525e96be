"""Version 0 of the Cloud Agents API, the legacy one: one status per agent, no ids, streams or usage.

What v1 calls a run is a turn of the conversation here: `turn-2` answers the second prompt.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

from segue.agents.cloud.calls import compute_age, read_body, send
from segue.agents.cloud.errors import CloudError
from segue.agents.cursor_cloud.api import (
    TURN,
    Branch,
    CloudRequest,
    RunRef,
    RunSnapshot,
    Status,
    parse_status,
)
from segue.agents.cursor_cloud.client import CloudV1
from segue.agents.local.values import as_list, as_table, as_text
from segue.domain.events import AgentUsage
from segue.system.http.client import HttpClient

_PAGES = 5
_PAGE = "100"
_NAMELESS = 20
"""How many agents are asked for their prompt because their branch has no name yet."""


class CloudV0:
    """The legacy version."""

    mints_ids = False
    reports_cancelled = False

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    def owns(self, ref: RunRef) -> bool:
        """Return whether a run belongs to this version of the API."""
        return bool(ref.agent) and ref.run.startswith(TURN)

    async def launch(self, request: CloudRequest, deadline: float) -> RunRef:
        """Launch an agent; never repeated, because nothing would refuse a second one."""
        body: dict[str, Any] = {
            "prompt": {"text": f"{request.prompt}\n\n{make_mark(request.token)}\n"},
            "source": {"repository": request.repository, **({"ref": request.base} if request.base else {})},
            "target": {"autoCreatePr": request.auto_create_pr, "branchName": make_branch(request.token)},
            **({"model": request.model} if request.model else {}),
        }
        agent = read_body(await send(self._http, "POST", "/v0/agents", deadline, body=body)).get("id")
        if not isinstance(agent, str) or not agent:
            raise CloudError("bad_answer", "the API's answer names no agent")
        return RunRef(agent, f"{TURN}1")

    async def find(self, token: str, deadline: float) -> RunRef | None:
        """Return the agent that was launched with this token, among the newest few hundred.

        It is recognised by its branch or, before the API reports one, by the mark in its prompt.
        """
        nameless = 0
        async with aclosing(self._newest(deadline)) as newest:
            async for agent, branch in newest:
                found = branch == make_branch(token)
                if not branch and nameless < _NAMELESS:
                    nameless += 1
                    found = await self._has_prompt(agent, make_mark(token), deadline)
                if found:
                    return RunRef(agent, f"{TURN}1")
        return None

    async def latest(self, agent: str, deadline: float) -> RunRef:
        """Return the newest turn of an agent."""
        messages = await self._conversation(agent, deadline)
        turns = sum(1 for message in messages if message.get("type") == "user_message")
        return RunRef(agent, f"{TURN}{turns}")

    async def follow_up(self, last: RunRef, request: CloudRequest, deadline: float) -> RunRef:
        """Send another prompt."""
        body = {"prompt": {"text": request.prompt}}
        try:
            await send(self._http, "POST", f"{_path(last.agent)}/followup", deadline, body=body)
        except CloudError as error:
            raise _explain_conflict(error) from None
        return RunRef(last.agent, f"{TURN}{_turn_number(last) + 1}")

    async def get(self, ref: RunRef, deadline: float) -> RunSnapshot:
        """Return the state of a turn; the agent's status may still be that of the turn before."""
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
        return RunSnapshot(status, word, text, branches=_read_branches(agent), age=old)

    async def cancel(self, ref: RunRef, deadline: float) -> bool:
        """Stop the agent; return False if it does not run."""
        try:
            await send(self._http, "POST", f"{_path(ref.agent)}/stop", deadline, repeatable=True)
        except CloudError as error:
            if error.status != 409:
                raise
            return False
        return True

    async def usage(self, ref: RunRef, deadline: float) -> AgentUsage | None:  # noqa: ARG002 - not reported
        """Return None: this version does not report usage."""
        return None

    async def _newest(self, deadline: float) -> AsyncGenerator[tuple[str, str], None]:
        """Yield agents, newest first, with the branches they work on if the API reports them."""
        cursor = ""
        for _ in range(_PAGES):
            query = {"limit": _PAGE, **({"cursor": cursor} if cursor else {})}
            page = read_body(await send(self._http, "GET", "/v0/agents", deadline, query=query))
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
            answer = await send(self._http, "GET", f"{_path(agent)}/conversation", deadline)
        except CloudError as error:
            raise _explain_conflict(error) from None
        return [as_table(message) for message in as_list(read_body(answer).get("messages"))]


CloudApi = CloudV1 | CloudV0
"""One version of the API. Everything raises CloudError; deadlines are times of the event loop."""


def make_branch(token: str) -> str:
    """Return the branch by which a launch is recognised."""
    return f"segue/{token[:12]}"


def make_mark(token: str) -> str:
    """Return the last line of a prompt, by which a launch is recognised before it has a branch."""
    return f"<!-- segue {token[:12]} -->"


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
