"""Version 1 of the Cloud Agents API: agents under ids that we choose, and their runs."""

from __future__ import annotations

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
    parse_status,
    read_name,
    send,
)
from segue.agents.cursor_cloud.errors import CloudError
from segue.agents.local.values import Json, as_count, as_list, as_table, as_text
from segue.domain.events import AgentUsage
from segue.system.http.client import HttpClient


class CloudV1(Struct, frozen=True):
    """The current version."""

    http: HttpClient
    mints_ids: ClassVar[bool] = True
    """We choose an agent's id, so a second launch is refused."""

    def owns(self, ref: RunRef) -> bool:
        """Return whether a run belongs to this version of the API."""
        return bool(ref.agent and ref.run) and not ref.run.startswith("turn-")

    async def launch(self, order: CloudOrder, deadline: float) -> RunRef:
        """Launch an agent; safe to repeat, because ids are unique."""
        where = {"url": order.repository, **({"startingRef": order.base} if order.base else {})}
        body = {
            "agentId": order.agent_id,
            **_make_body(order),
            "repos": [where],
            "autoCreatePR": order.auto_create_pr,
            "name": order.title[:100],
            **({"workOnCurrentBranch": True} if order.on_base else {}),
        }
        headers = {"Idempotency-Key": order.token}
        answer = await send(
            self.http, "POST", "/v1/agents", deadline, body=body, headers=headers, repeatable=True
        )
        return RunRef(order.agent_id, read_name(answer, as_table(answer.json().get("run")), "a run"))

    async def find(self, order: CloudOrder, deadline: float) -> RunRef | None:
        """Return the agent that was launched with the order's token, if there is one."""
        try:
            return await self.latest(order.agent_id, deadline)
        except CloudError as error:
            if error.gone:
                return None
            raise

    async def latest(self, agent: str, deadline: float) -> RunRef:
        """Return an agent's newest run."""
        answer = await send(self.http, "GET", _path(agent), deadline)
        run = as_text(answer.json().get("latestRunId"))
        if not run:
            answer = await send(self.http, "GET", f"{_path(agent)}/runs", deadline, query={"limit": "1"})
            items = as_list(answer.json().get("items")) or [None]
            run = read_name(answer, as_table(items[0]), "a run")
        return RunRef(agent, run)

    async def follow_up(self, last: RunRef, order: CloudOrder, deadline: float) -> RunRef:
        """Start another run. The API may ignore the key here, so this is not repeated blindly."""
        path, headers = f"{_path(last.agent)}/runs", {"Idempotency-Key": order.token}
        answer = await send(self.http, "POST", path, deadline, body=_make_body(order), headers=headers)
        return RunRef(last.agent, read_name(answer, as_table(answer.json().get("run")), "a run"))

    async def look(self, ref: RunRef, deadline: float) -> Look:
        """Read the state of a run."""
        answer = await send(self.http, "GET", _run_path(ref), deadline)
        run: Json = answer.json()
        took, status = run.get("durationMs"), parse_status(run.get("status"))
        return Look(
            status,
            str(run.get("status")),
            text=as_text(run.get("result")),
            error=_read_error(run.get("error")),
            may_be_ours=status is Status.CANCELLED,
            pushed=_read_branches(run),
            age=compute_age(answer, run.get("createdAt")),
            duration=took / 1000 if isinstance(took, int | float) else None,
        )

    async def stop(self, ref: RunRef, deadline: float) -> None:
        """Cancel a run."""
        await send(self.http, "POST", f"{_run_path(ref)}/cancel", deadline, repeatable=True)

    async def usage(self, ref: RunRef, deadline: float) -> AgentUsage | None:
        """Return what a run has used; counting that may take the API a moment, meanwhile it is nothing."""
        query = {"runId": ref.run}
        answer = await send(self.http, "GET", f"{_path(ref.agent)}/usage", deadline, query=query)
        for run in map(as_table, as_list(answer.json().get("runs"))):
            if run.get("id") == ref.run:
                used = as_table(run.get("usage"))
                return AgentUsage(
                    as_count(used.get("inputTokens")),
                    as_count(used.get("outputTokens")),
                    _read_cost(as_table(run.get("cost"))),
                    as_count(used.get("cacheReadTokens")),
                    as_count(used.get("cacheWriteTokens")),
                )
        return None


def _make_body(order: CloudOrder) -> dict[str, Any]:
    model = {"model": {"id": order.model}} if order.model else {}
    return {"prompt": {"text": order.prompt}, "mode": "plan" if order.plan else "agent", **model}


def _path(agent: str) -> str:
    return f"/v1/agents/{quote(agent, safe='')}"


def _run_path(ref: RunRef) -> str:
    return f"{_path(ref.agent)}/runs/{quote(ref.run, safe='')}"


def _read_branches(run: Json) -> list[Branch]:
    entries = map(as_table, as_list(as_table(run.get("git")).get("branches")))
    return [
        Branch(*(as_text(entry.get(name)) for name in ("repoUrl", "branch", "prUrl"))) for entry in entries
    ]


def _read_error(error: Any) -> str:
    """Return the error in words; its shape is not documented."""
    if isinstance(error, str):
        return error
    table = as_table(error)
    return as_text(table.get("message")) or as_text(table.get("code")) or (str(error) if error else "")


def _read_cost(cost: Json) -> float | None:
    """Return what is charged, or else the raw cost, in dollars; None if the API does not report it."""
    for name in ("chargedCents", "rawCostCents"):
        value = cost.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return value / 100
    return None
