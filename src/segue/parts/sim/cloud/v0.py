"""Cloud Agents API v0, the legacy one: one status per agent, conversations, webhooks."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from segue.parts.sim.cloud.launch import CloudLaunchOrder, WantedRepository, cancel, delete, follow_up, launch
from segue.parts.sim.cloud.objects import CloudAgentRecord, drop_missing, format_time
from segue.parts.sim.cloud.requests import CloudRefusal, FollowupBodyV0, LaunchBodyV0, read_body
from segue.parts.sim.cloud.state import Cloud
from segue.parts.sim.cloud.v1 import Handler, offer, take_agents

_ARTIFACTS = "/opt/cursor/artifacts/"
_KEPT = 183 * 24 * 3600


async def create(cloud: Cloud, request: Request) -> Response:
    """Launch an agent."""
    body = await read_body(request, LaunchBodyV0)
    target, source = body.target, body.source
    on_current = source.pr_url is not None and not target.auto_branch
    shown = drop_missing({"url": source.repository, "startingRef": source.ref, "prUrl": source.pr_url})
    order = CloudLaunchOrder(
        body.prompt.text,
        [
            WantedRepository(
                shown, source.repository, source.ref, source.pr_url, target.branch_name, on_current
            )
        ],
        msgspec.to_builtins(target) | {"autoCreatePR": target.auto_create_pr},
        auto_pr=target.auto_create_pr,
        webhook=body.webhook,
        model=body.model,
    )
    agent, run, work = await launch(cloud, order)
    answer = _describe(agent, cloud)
    if run.play.entry.has("webhook_early"):
        await work
    return JSONResponse(answer, 201)


async def list_agents(cloud: Cloud, request: Request) -> Response:
    """List agents, newest first."""
    agents, following = take_agents(request, cloud)
    return JSONResponse({"agents": [_describe(agent, cloud) for agent in agents], **following})


async def get(cloud: Cloud, request: Request) -> Response:
    """Show one agent."""
    return JSONResponse(_describe(cloud.find_agent(request.path_params["agent"]), cloud))


async def show_conversation(cloud: Cloud, request: Request) -> Response:
    """Show all messages, oldest first."""
    agent = _find_usable(request, cloud)
    return JSONResponse({"id": agent.id, "messages": agent.messages})


async def send_followup(cloud: Cloud, request: Request) -> Response:
    """Give the same agent another prompt."""
    agent = _find_usable(request, cloud)
    body = await read_body(request, FollowupBodyV0)
    if agent.stopped and cloud.script.stop_is_final:
        raise CloudRefusal("agent_archived", "A stopped agent cannot be resumed.")
    run, work = follow_up(cloud, agent, body.prompt.text)
    agent.stopped = False
    if run.play.entry.has("webhook_early"):
        await work
    return JSONResponse({"id": agent.id})


async def stop(cloud: Cloud, request: Request) -> Response:
    """Stop the current run."""
    agent = _find_usable(request, cloud)
    cancel(cloud, agent, agent.latest)
    agent.stopped = True
    return JSONResponse({"id": agent.id})


async def remove(cloud: Cloud, request: Request) -> Response:
    """Delete an agent for good."""
    agent = _find_usable(request, cloud)
    delete(cloud, agent)
    return JSONResponse({"id": agent.id})


async def list_artifacts(cloud: Cloud, request: Request) -> Response:
    """List the files an agent has left, for half a year."""
    agent = cloud.find_agent(request.path_params["agent"])
    young = agent.created > time.time() - _KEPT
    items = [
        {"absolutePath": _ARTIFACTS + path, "sizeBytes": len(data), "updatedAt": format_time(at)}
        for path, (data, at) in list(agent.artifacts.items())[:100]
        if young
    ]
    return JSONResponse({"artifacts": items})


async def download(cloud: Cloud, request: Request) -> Response:
    """Return a temporary address of one of them."""
    agent = cloud.find_agent(request.path_params["agent"])
    return offer(request, cloud, agent, request.query_params.get("path", "").removeprefix(_ARTIFACTS))


def _describe(agent: CloudAgentRecord, cloud: Cloud) -> dict[str, Any]:
    return agent.describe_v0(cloud.script.stopped_status)


def _find_usable(request: Request, cloud: Cloud) -> CloudAgentRecord:
    """Find an agent; deleted and archived ones are a conflict here."""
    agent = cloud.agents.get(request.path_params["agent"])
    if agent is None:
        raise CloudRefusal("agent_not_found")
    if agent.deleted:
        raise CloudRefusal("agent_deleted")
    if agent.archived:
        raise CloudRefusal("agent_archived")
    return agent


_ONE = "/v0/agents/{agent}"
ROUTES: list[tuple[str, str, Handler]] = [
    ("POST", "/v0/agents", create),
    ("GET", "/v0/agents", list_agents),
    ("GET", _ONE, get),
    ("DELETE", _ONE, remove),
    ("GET", f"{_ONE}/conversation", show_conversation),
    ("POST", f"{_ONE}/followup", send_followup),
    ("POST", f"{_ONE}/stop", stop),
    ("GET", f"{_ONE}/artifacts", list_artifacts),
    ("GET", f"{_ONE}/artifacts/download", download),
]
