"""Version 1 of the Cloud Agents API: durable agents, runs, streams."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

from segue.agents.cloud.calls import compute_age, listen, read_body, read_name, send
from segue.agents.cloud.errors import CloudError
from segue.agents.cloud.sse import SseFrame
from segue.agents.cursor_cloud.api import (
    TURN,
    Branch,
    CloudRequest,
    RunRef,
    RunSnapshot,
    make_agent_id,
    parse_status,
)
from segue.agents.local.values import as_count, as_list, as_table, as_text
from segue.domain.events import AgentUsage
from segue.system.http.client import HttpClient


class CloudV1:
    """The current version."""

    mints_ids = True
    """We choose an agent's id, so a second launch is refused."""
    reports_cancelled = True
    """A cancelled run says so afterwards."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    def owns(self, ref: RunRef) -> bool:
        """Return whether a run belongs to this version of the API."""
        return bool(ref.agent and ref.run) and not ref.run.startswith(TURN)

    async def launch(self, request: CloudRequest, deadline: float) -> RunRef:
        """Launch an agent under an id made from the token; safe to repeat, because ids are unique."""
        agent = make_agent_id(request.token)
        body: dict[str, Any] = {
            "agentId": agent,
            **_make_body(request),
            "repos": [_drop_empty({"url": request.repository, "startingRef": request.base})],
            "autoCreatePR": request.auto_create_pr,
            **_drop_empty({"name": request.name[:100], "workOnCurrentBranch": request.on_base}),
        }
        headers = {"Idempotency-Key": request.token}
        answer = await send(
            self._http, "POST", "/v1/agents", deadline, body=body, headers=headers, repeatable=True
        )
        return RunRef(agent, read_name(answer, as_table(read_body(answer).get("run")), "id", "a run"))

    async def find(self, token: str, deadline: float) -> RunRef | None:
        """Return the agent that was launched with this token, if there is one."""
        try:
            return await self.latest(make_agent_id(token), deadline)
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

    async def follow_up(self, last: RunRef, request: CloudRequest, deadline: float) -> RunRef:
        """Start another run. The API may ignore the key here, so this is not repeated blindly."""
        answer = await send(
            self._http,
            "POST",
            f"{_path(last.agent)}/runs",
            deadline,
            body=_make_body(request),
            headers={"Idempotency-Key": request.token},
        )
        return RunRef(last.agent, read_name(answer, as_table(read_body(answer).get("run")), "id", "a run"))

    async def get(self, ref: RunRef, deadline: float) -> RunSnapshot:
        """Return the state of a run."""
        answer = await send(self._http, "GET", _run_path(ref), deadline)
        run = read_body(answer)
        took = run.get("durationMs")
        return RunSnapshot(
            parse_status(run.get("status")),
            str(run.get("status")),
            text=as_text(run.get("result")),
            error=_read_error(run.get("error")),
            branches=_read_branches(run.get("git")),
            duration=took / 1000 if isinstance(took, int | float) else None,
            age=compute_age(answer, run.get("createdAt")),
        )

    async def stream(
        self, ref: RunRef, last_id: str | None, silence: float
    ) -> AsyncGenerator[SseFrame, None]:
        """Yield what a run says after an id; only this version has streams."""
        headers = {"Last-Event-ID": last_id} if last_id else {}
        async with aclosing(listen(self._http, f"{_run_path(ref)}/stream", headers, silence)) as frames:
            async for frame in frames:
                if frame is not None:
                    yield frame

    async def cancel(self, ref: RunRef, deadline: float) -> bool:
        """Cancel a run; return False if it had already ended."""
        try:
            await send(self._http, "POST", f"{_run_path(ref)}/cancel", deadline, repeatable=True)
        except CloudError as error:
            if error.code != "run_not_cancellable":
                raise
            return False
        return True

    async def usage(self, ref: RunRef, deadline: float) -> AgentUsage | None:
        """Return what a run has used."""
        answer = await send(
            self._http, "GET", f"{_path(ref.agent)}/usage", deadline, query={"runId": ref.run}
        )
        runs = map(as_table, as_list(read_body(answer).get("runs")))
        found = [run for run in runs if run.get("id") == ref.run]
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


def _make_body(request: CloudRequest) -> dict[str, Any]:
    model = {"model": {"id": request.model}} if request.model else {}
    return {"prompt": {"text": request.prompt}, "mode": "plan" if request.plan else "agent", **model}


def _path(agent: str) -> str:
    return f"/v1/agents/{quote(agent, safe='')}"


def _run_path(ref: RunRef) -> str:
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
