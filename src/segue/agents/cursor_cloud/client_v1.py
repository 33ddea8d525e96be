"""Version 1 of the Cloud Agents API: durable agents, runs, streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

from segue.agents.cloud.calls import (
    Freshness,
    Resume,
    SseFrame,
    ask,
    compute_age,
    listen,
    read_body,
    read_name,
    send,
)
from segue.agents.cloud.errors import CloudError
from segue.agents.cloud.transcript import Transcript
from segue.agents.cloud.vendor import TURN, CloudApi, CloudLook, CloudOrder, CloudSign
from segue.agents.cursor_cloud.api import (
    Branch,
    CursorCloudOptions,
    RunRef,
    make_agent_id,
    make_look,
    parse_status,
)
from segue.agents.cursor_cloud.stream import StreamReader
from segue.agents.local.values import as_count, as_list, as_table, as_text
from segue.domain.events import AgentUsage, Event
from segue.system.http.client import HttpClient

_USAGE_TRIES = 3


class CloudV1(CloudApi):
    """The current version, for one job."""

    mints_ids = True
    """We choose an agent's id, so a second launch is refused."""

    def __init__(self, http: HttpClient, options: CursorCloudOptions) -> None:
        self._http, self._options = http, options
        self._resume = Resume()
        self._reader: StreamReader | None = None

    def owns(self, ref: RunRef) -> bool:
        """Return whether a run belongs to this version of the API."""
        return bool(ref.agent and ref.run) and not ref.run.startswith(TURN)

    async def launch(self, order: CloudOrder, deadline: float) -> RunRef:
        """Launch an agent under an id made from the token; safe to repeat, because ids are unique."""
        agent = make_agent_id(order.token)
        body: dict[str, Any] = {
            "agentId": agent,
            **_make_body(order),
            "repos": [_drop_empty({"url": order.repository, "startingRef": order.base})],
            "autoCreatePR": self._options.auto_create_pr,
            **_drop_empty({"name": order.title[:100], "workOnCurrentBranch": order.on_base}),
        }
        headers = {"Idempotency-Key": order.token}
        answer = await send(
            self._http, "POST", "/v1/agents", deadline, body=body, headers=headers, repeatable=True
        )
        return RunRef(agent, read_name(answer, as_table(read_body(answer).get("run")), "id", "a run"))

    async def find(self, order: CloudOrder, deadline: float) -> RunRef | None:
        """Return the agent that was launched with the order's token, if there is one."""
        try:
            return await self.latest(make_agent_id(order.token), deadline)
        except CloudError as error:
            if error.gone:
                return None
            raise

    async def latest(self, agent: str, deadline: float) -> RunRef:
        """Return the newest run of an agent."""
        answer = await send(self._http, "GET", _path(agent), deadline)
        run = read_body(answer).get("latestRunId")
        if isinstance(run, str) and run:
            return RunRef(agent, run)
        answer = await send(self._http, "GET", f"{_path(agent)}/runs", deadline, query={"limit": "1"})
        items = as_list(read_body(answer).get("items")) or [None]
        return RunRef(agent, read_name(answer, as_table(items[0]), "id", "a run"))

    async def follow_up(self, last: RunRef, order: CloudOrder, deadline: float) -> RunRef:
        """Start another run. The API may ignore the key here, so this is not repeated blindly."""
        answer = await send(
            self._http,
            "POST",
            f"{_path(last.agent)}/runs",
            deadline,
            body=_make_body(order),
            headers={"Idempotency-Key": order.token},
        )
        return RunRef(last.agent, read_name(answer, as_table(read_body(answer).get("run")), "id", "a run"))

    async def look(self, session: str, order: CloudOrder, seen: Transcript, deadline: float) -> CloudLook:  # noqa: ARG002
        """Read the state of a run."""
        answer = await send(self._http, "GET", _run_path(session), deadline)
        run = read_body(answer)
        took = run.get("durationMs")
        return make_look(
            parse_status(run.get("status")),
            str(run.get("status")),
            order,
            _read_branches(run.get("git")),
            text=as_text(run.get("result")),
            error=_read_error(run.get("error")),
            duration=took / 1000 if isinstance(took, int | float) else None,
            age=compute_age(answer, run.get("createdAt")),
        )

    def page(self, session: str) -> str:
        """Return the agent's page."""
        return RunRef.parse(session).url

    async def stream(self, session: str, silence: float) -> AsyncGenerator[SseFrame, None]:
        """Yield what a run says after the last event that was read; only this version has streams."""
        last = self._resume.last_id
        headers = {"Last-Event-ID": last} if last else {}
        async with aclosing(listen(self._http, f"{_run_path(session)}/stream", headers, silence)) as frames:
            async for frame in frames:
                if frame is not None:
                    yield frame

    def read(self, event: SseFrame, seen: Transcript) -> CloudSign:
        """Read an event that is new; one without an id does not show that the agent works."""
        reader = self._reader = self._reader or StreamReader(seen)
        fresh = self._resume.note(event)
        if fresh is Freshness.SEEN:
            return CloudSign.NOTHING
        reader.read(event, fresh)
        if reader.is_finished:
            return CloudSign.STATE
        return CloudSign.WORK if event.id else CloudSign.NOTHING

    def may_say_more(self) -> bool:
        """Return whether the stream has not reported the end of the run."""
        return self._reader is None or not self._reader.is_finished

    def close(self, seen: Transcript) -> list[Event]:
        """Return the end of the last message, and the rest."""
        if self._reader is not None:
            self._reader.close()
        return seen.close()

    async def stop(self, session: str, deadline: float) -> None:
        """Cancel a run."""
        await send(self._http, "POST", f"{_run_path(session)}/cancel", deadline, repeatable=True)

    async def usage(self, session: str, deadline: float) -> AgentUsage | None:
        """Return what a run has used; counting that may take the API a moment."""
        used: AgentUsage | None = None
        for left in reversed(range(_USAGE_TRIES)):
            used = await self._read_usage(RunRef.parse(session), deadline)
            if used is None or used.input_tokens or used.output_tokens or used.cost_usd or not left:
                break
            await asyncio.sleep(self._options.retry_pause)
        return used

    async def _read_usage(self, ref: RunRef, deadline: float) -> AgentUsage | None:
        path = f"{_path(ref.agent)}/usage"
        answer = await ask(self._http, "GET", path, deadline, query={"runId": ref.run})
        found = [run for run in map(as_table, as_list(answer.get("runs"))) if run.get("id") == ref.run]
        if not found:
            return None
        usage, cost = as_table(found[0].get("usage")), as_table(found[0].get("cost"))
        return AgentUsage(
            as_count(usage.get("inputTokens")),
            as_count(usage.get("outputTokens")),
            _read_cost(cost),
            as_count(usage.get("cacheReadTokens")),
            as_count(usage.get("cacheWriteTokens")),
        )


def _make_body(order: CloudOrder) -> dict[str, Any]:
    model = {"model": {"id": order.model}} if order.model else {}
    return {"prompt": {"text": order.prompt}, "mode": "plan" if order.plan else "agent", **model}


def _path(agent: str) -> str:
    return f"/v1/agents/{quote(agent, safe='')}"


def _run_path(session: str) -> str:
    ref = RunRef.parse(session)
    return f"{_path(ref.agent)}/runs/{quote(ref.run, safe='')}"


def _read_branches(git: Any) -> tuple[Branch, ...]:
    entries = [as_table(entry) for entry in as_list(as_table(git).get("branches"))]
    return tuple(
        Branch(as_text(entry.get("repoUrl")), as_text(entry.get("branch")), as_text(entry.get("prUrl")))
        for entry in entries
    )


def _read_error(error: Any) -> str:
    """Return the error in words; its shape is not documented."""
    if isinstance(error, str):
        return error
    found = as_table(error)
    return as_text(found.get("message")) or as_text(found.get("code")) or (str(error) if error else "")


def _read_cost(cost: Mapping[str, Any]) -> float | None:
    """Return what is charged, or else the raw cost, in dollars; None if the API does not report it."""
    for name in ("chargedCents", "rawCostCents"):
        value = cost.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return value / 100
    return None


def _drop_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}
