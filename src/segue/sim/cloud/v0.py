"""Cloud Agents API v0, the legacy one: one status per agent, conversations, webhooks."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from segue.sim.cloud.answers import Refusal
from segue.sim.cloud.launch import Order, Wanted, cancel, delete, follow_up, launch
from segue.sim.cloud.objects import Agent, Webhook, stamp
from segue.sim.cloud.requests import Followup, Launch, read
from segue.sim.cloud.state import Cloud
from segue.sim.cloud.v1 import Handler, offer, page

_ARTIFACTS = "/opt/cursor/artifacts/"
_KEPT = 183 * 24 * 3600


async def create(request: Request, cloud: Cloud) -> Response:
    """Launch an agent."""
    body = await read(request, Launch)
    target, source = body.target, body.source
    on_current = source.prUrl is not None and not target.autoBranch
    asked = source.model_dump(exclude_none=True)
    order = Order(
        body.prompt.text,
        [Wanted(_as_v1(asked), source.repository, source.ref, source.prUrl, target.branchName, on_current)],
        target.model_dump() | {"autoCreatePR": target.autoCreatePr},
        auto_pr=target.autoCreatePr,
        webhook=Webhook(body.webhook.url, body.webhook.secret) if body.webhook else None,
        model=body.model,
    )
    agent, run, work = await launch(cloud, order)
    shown = agent.shown_v0(cloud.script.stopped_status)
    if run.play.has("webhook_early"):
        await work
    return JSONResponse(shown, 201)


def _as_v1(source: dict[str, Any]) -> dict[str, Any]:
    names = {"repository": "url", "ref": "startingRef", "prUrl": "prUrl"}
    return {names[name]: value for name, value in source.items()}


async def list_agents(request: Request, cloud: Cloud) -> Response:
    """Agents, newest first."""
    pull = request.query_params.get("prUrl")
    found = [
        agent
        for agent in cloud.agents.values()
        if not agent.deleted and (pull is None or any(checkout.pr == pull for checkout in agent.checkouts))
    ]
    agents, following = page(request, found)
    return JSONResponse({"agents": [_shown(agent, cloud) for agent in agents], **following})


async def get(request: Request, cloud: Cloud) -> Response:
    """One agent."""
    return JSONResponse(_shown(cloud.agent(request.path_params["agent"]), cloud))


async def conversation(request: Request, cloud: Cloud) -> Response:
    """What was said, oldest first."""
    agent = _usable(request, cloud)
    return JSONResponse({"id": agent.id, "messages": agent.messages})


async def followup(request: Request, cloud: Cloud) -> Response:
    """Another prompt for the same agent."""
    agent = _usable(request, cloud)
    body = await read(request, Followup)
    if agent.stopped and cloud.script.stop_is_final:
        raise Refusal("agent_archived", "A stopped agent cannot be resumed.")
    run, work = follow_up(cloud, agent, body.prompt.text)
    agent.stopped = False
    if run.play.has("webhook_early"):
        await work
    return JSONResponse({"id": agent.id})


async def stop(request: Request, cloud: Cloud) -> Response:
    """End what is running."""
    agent = _usable(request, cloud)
    cancel(cloud, agent, agent.latest)
    agent.stopped = True
    return JSONResponse({"id": agent.id})


async def remove(request: Request, cloud: Cloud) -> Response:
    """Delete an agent for good."""
    agent = _usable(request, cloud)
    delete(cloud, agent)
    return JSONResponse({"id": agent.id})


async def artifacts(request: Request, cloud: Cloud) -> Response:
    """The files an agent has left behind, for half a year."""
    agent = cloud.agent(request.path_params["agent"])
    young = agent.created > time.time() - _KEPT
    items = [
        {"absolutePath": _ARTIFACTS + path, "sizeBytes": len(data), "updatedAt": stamp(at)}
        for path, (data, at) in list(agent.artifacts.items())[:100]
        if young
    ]
    return JSONResponse({"artifacts": items})


async def download(request: Request, cloud: Cloud) -> Response:
    """An address that gives one of them, for a while."""
    agent = cloud.agent(request.path_params["agent"])
    return offer(request, cloud, agent, request.query_params.get("path", "").removeprefix(_ARTIFACTS))


def _shown(agent: Agent, cloud: Cloud) -> dict[str, Any]:
    return agent.shown_v0(cloud.script.stopped_status)


def _usable(request: Request, cloud: Cloud) -> Agent:
    """Deleted and archived agents are a conflict here, unknown ones are not found."""
    agent = cloud.agents.get(request.path_params["agent"])
    if agent is None:
        raise Refusal("agent_not_found")
    if agent.deleted:
        raise Refusal("agent_deleted")
    if agent.archived:
        raise Refusal("agent_archived")
    return agent


def routes(bind: Callable[[Handler], Callable[[Request], Awaitable[Response]]]) -> list[Route]:
    """Every path of agents."""
    one = "/v0/agents/{agent}"
    table: list[tuple[str, str, Handler]] = [
        ("POST", "/v0/agents", create),
        ("GET", "/v0/agents", list_agents),
        ("GET", one, get),
        ("DELETE", one, remove),
        ("GET", f"{one}/conversation", conversation),
        ("POST", f"{one}/followup", followup),
        ("POST", f"{one}/stop", stop),
        ("GET", f"{one}/artifacts", artifacts),
        ("GET", f"{one}/artifacts/download", download),
    ]
    return [Route(path, bind(handler), methods=[method]) for method, path, handler in table]
