"""Cloud Agents API v1: durable agents, runs, streams."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from segue.sim.cloud.answers import Refusal
from segue.sim.cloud.launch import Order, Wanted, cancel, check_model, delete, follow_up, launch
from segue.sim.cloud.objects import NO_USAGE, Agent, Run, stamp
from segue.sim.cloud.requests import CreateAgent, CreateRun, read
from segue.sim.cloud.state import Cloud
from segue.sim.cloud.stream import stream

Handler = Callable[[Request, Cloud], Awaitable[Response]]


class _Numbered(Protocol):
    @property
    def number(self) -> int: ...


_Item = TypeVar("_Item", bound=_Numbered)


async def create_agent(request: Request, cloud: Cloud) -> Response:
    """Launch an agent."""
    body = await read(request, CreateAgent)
    if body.env and body.env.type != "cloud" and body.env.name not in cloud.script.pools:
        raise Refusal("validation_error", f"{body.env.type} {body.env.name!r} not found", shape="text")
    order = Order(
        body.prompt.text,
        [_wanted(repo.model_dump(exclude_none=True), body.workOnCurrentBranch) for repo in body.repos],
        body.model_dump(exclude_unset=True),
        name=body.name,
        agent_id=body.agentId,
        auto_pr=body.autoCreatePR,
        model=body.model.id if body.model else None,
    )
    agent, run, _ = await launch(cloud, order)
    return JSONResponse({"agent": agent.shown(), "run": run.shown(agent)}, 201)


def _wanted(repo: dict[str, Any], on_current: bool) -> Wanted:
    return Wanted(repo, repo["url"], repo.get("startingRef"), repo.get("prUrl"), on_current=on_current)


async def list_agents(request: Request, cloud: Cloud) -> Response:
    """Agents, newest first."""
    pull = request.query_params.get("prUrl")
    archived = request.query_params.get("includeArchived", "true") != "false"
    found = [
        agent
        for agent in cloud.agents.values()
        if not agent.deleted
        and (archived or not agent.archived)
        and (pull is None or any(checkout.pr == pull for checkout in agent.checkouts))
    ]
    agents, following = page(request, found)
    return JSONResponse({"items": [agent.summary() for agent in agents], **following})


async def get_agent(request: Request, cloud: Cloud) -> Response:
    """One agent."""
    return JSONResponse(_agent(request, cloud).shown())


async def delete_agent(request: Request, cloud: Cloud) -> Response:
    """Delete an agent for good."""
    agent = _agent(request, cloud)
    delete(cloud, agent)
    return JSONResponse({"id": agent.id})


async def archive(request: Request, cloud: Cloud) -> Response:
    """Archive or unarchive, as often as one likes."""
    agent = _agent(request, cloud)
    agent.archived = request.url.path.endswith("/archive")
    return JSONResponse({"id": agent.id})


async def create_run(request: Request, cloud: Cloud) -> Response:
    """A follow-up."""
    agent = _agent(request, cloud)
    body = await read(request, CreateRun)
    check_model(cloud, body.model.id if body.model else None)
    run, _ = follow_up(cloud, agent, body.prompt.text)
    return JSONResponse({"run": run.shown(agent)}, 201)


async def list_runs(request: Request, cloud: Cloud) -> Response:
    """An agent's runs, newest first."""
    agent = _agent(request, cloud)
    runs, following = page(request, agent.runs)
    return JSONResponse({"items": [run.shown(agent) for run in runs], **following})


async def get_run(request: Request, cloud: Cloud) -> Response:
    """One run."""
    agent, run = _run(request, cloud)
    return JSONResponse(run.shown(agent))


async def stream_run(request: Request, cloud: Cloud) -> Response:
    """What a run says, as it says it."""
    _, run = _run(request, cloud)
    return stream(request, cloud, run)


async def cancel_run(request: Request, cloud: Cloud) -> Response:
    """End a run."""
    agent, run = _run(request, cloud)
    cancel(cloud, agent, run)
    return JSONResponse({"id": run.id})


async def usage(request: Request, cloud: Cloud) -> Response:
    """Tokens and cost, in all and per run."""
    agent = _agent(request, cloud)
    only = request.query_params.get("runId")
    runs = [run for run in agent.runs if only in (None, run.id)]
    if not runs:
        raise Refusal("run_not_found")
    total = {name: sum(run.usage[name] for run in runs) for name in NO_USAGE}
    costs = [run.cost for run in runs if run.cost]
    names = ("rawCostCents", "chargedCents")
    cost = {name: sum(cost.get(name, 0) for cost in costs) for name in names}
    facts = {"totalUsage": total, "runs": [_used(run) for run in runs]}
    return JSONResponse(facts | ({"cost": cost} if costs else {}))


def _used(run: Run) -> dict[str, Any]:
    facts: dict[str, Any] = {"id": run.id, "usage": run.usage}
    return facts | ({"cost": run.cost, "usageUuid": run.id.removeprefix("run-")} if run.cost else {})


async def artifacts(request: Request, cloud: Cloud) -> Response:
    """The files an agent has left behind."""
    agent = _agent(request, cloud)
    items = [
        {"path": f"artifacts/{path}", "sizeBytes": len(data), "updatedAt": stamp(at)}
        for path, (data, at) in list(agent.artifacts.items())[:100]
    ]
    return JSONResponse({"items": items})


async def download(request: Request, cloud: Cloud) -> Response:
    """An address that gives one of them, for a while."""
    agent = _agent(request, cloud)
    path = request.query_params.get("path")
    return offer(request, cloud, agent, path.removeprefix("artifacts/") if path else None)


def offer(request: Request, cloud: Cloud, agent: Agent, path: str | None) -> Response:
    """The answer both versions give to a download."""
    if not path:
        raise Refusal("validation_error", "path: Required")
    if path not in agent.artifacts:
        raise Refusal("artifact_not_found")
    token, expires = cloud.offer(agent.artifacts[path][0])
    url = f"{request.base_url}_sim/artifacts/{token}"
    return JSONResponse({"url": url, "expiresAt": stamp(expires)})


def page(request: Request, items: Sequence[_Item]) -> tuple[list[_Item], dict[str, str]]:
    """One page of the items, newest first, and the cursor of the next; no cursor at the end."""
    limit = request.query_params.get("limit", "20")
    if not limit.isdecimal() or not 1 <= int(limit) <= 100:
        raise Refusal("validation_error", "limit: must be between 1 and 100")
    before = _position(request.query_params.get("cursor"))
    found = [item for item in reversed(items) if before is None or item.number < before]
    shown, rest = found[: int(limit)], found[int(limit) :]
    if not rest:
        return shown, {}
    return shown, {"nextCursor": base64.urlsafe_b64encode(f"n{shown[-1].number}".encode()).decode()}


def _position(cursor: str | None) -> int | None:
    if not cursor:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor.encode()).decode()
        return int(text.removeprefix("n"))
    except (binascii.Error, ValueError):
        raise Refusal("validation_error", "cursor: invalid") from None


def _agent(request: Request, cloud: Cloud) -> Agent:
    return cloud.agent(request.path_params["agent"])


def _run(request: Request, cloud: Cloud) -> tuple[Agent, Run]:
    return cloud.run(request.path_params["agent"], request.path_params["run"])


def routes(bind: Callable[[Handler], Callable[[Request], Awaitable[Response]]]) -> list[Route]:
    """Every path of agents and runs."""
    one, runs = "/v1/agents/{agent}", "/v1/agents/{agent}/runs"
    table: list[tuple[str, str, Handler]] = [
        ("POST", "/v1/agents", create_agent),
        ("GET", "/v1/agents", list_agents),
        ("GET", one, get_agent),
        ("DELETE", one, delete_agent),
        ("POST", f"{one}/archive", archive),
        ("POST", f"{one}/unarchive", archive),
        ("GET", f"{one}/usage", usage),
        ("GET", f"{one}/artifacts", artifacts),
        ("GET", f"{one}/artifacts/download", download),
        ("POST", runs, create_run),
        ("GET", runs, list_runs),
        ("GET", f"{runs}/{{run}}", get_run),
        ("GET", f"{runs}/{{run}}/stream", stream_run),
        ("POST", f"{runs}/{{run}}/cancel", cancel_run),
    ]
    return [Route(path, bind(handler), methods=[method]) for method, path, handler in table]
