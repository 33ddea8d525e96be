"""Cloud Agents API v1: durable agents, runs, streams."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from segue.parts.sim.cloud.feed import make_event
from segue.parts.sim.cloud.launch import (
    CloudLaunchOrder,
    WantedRepository,
    cancel,
    check_model,
    delete,
    follow_up,
    launch,
)
from segue.parts.sim.cloud.objects import (
    NO_USAGE,
    CloudAgentRecord,
    CloudRunRecord,
    drop_missing,
    format_time,
)
from segue.parts.sim.cloud.requests import (
    ERROR_KINDS,
    CloudRefusal,
    CreateAgentBody,
    CreateRunBody,
    RepositoryBody,
    read_body,
)
from segue.parts.sim.cloud.script import STREAM_FAULTS, CloudFault
from segue.parts.sim.cloud.state import Cloud
from segue.system.http.server import drop_connection

Handler = Callable[[Cloud, Request], Awaitable[Response]]


_Item = TypeVar("_Item", CloudAgentRecord, CloudRunRecord)


async def create_agent(cloud: Cloud, request: Request) -> Response:
    """Launch an agent."""
    body = await read_body(request, CreateAgentBody)
    if body.env and body.env.type != "cloud" and body.env.name not in cloud.script.pools:
        raise CloudRefusal("validation_error", f"{body.env.type} {body.env.name!r} not found", shape="text")
    order = CloudLaunchOrder(
        body.prompt.text,
        [_want(repo, body.work_on_current_branch) for repo in body.repos],
        await request.json(),
        name=body.name,
        agent_id=body.agent_id,
        auto_pr=body.auto_create_pr,
        model=body.model.id if body.model else None,
        plans=body.mode == "plan",
    )
    agent, run, _ = await launch(cloud, order)
    return JSONResponse({"agent": agent.describe(), "run": run.describe(agent)}, 201)


def _want(repo: RepositoryBody, on_current: bool) -> WantedRepository:
    shown = drop_missing(msgspec.to_builtins(repo))
    return WantedRepository(shown, repo.url, repo.starting_ref, repo.pr_url, on_current=on_current)


async def list_agents(cloud: Cloud, request: Request) -> Response:
    """List agents, newest first."""
    archived = request.query_params.get("includeArchived", "true") != "false"
    agents, following = take_agents(request, cloud, lambda agent: archived or not agent.archived)
    return JSONResponse({"items": [agent.summarize() for agent in agents], **following})


async def get_agent(cloud: Cloud, request: Request) -> Response:
    """Show one agent."""
    return JSONResponse(_agent(request, cloud).describe())


async def delete_agent(cloud: Cloud, request: Request) -> Response:
    """Delete an agent for good."""
    agent = _agent(request, cloud)
    delete(cloud, agent)
    return JSONResponse({"id": agent.id})


async def archive(cloud: Cloud, request: Request) -> Response:
    """Archive or unarchive an agent; repeating it changes nothing."""
    agent = _agent(request, cloud)
    agent.archived = request.url.path.endswith("/archive")
    return JSONResponse({"id": agent.id})


async def create_run(cloud: Cloud, request: Request) -> Response:
    """Start a follow-up."""
    agent = _agent(request, cloud)
    body = await read_body(request, CreateRunBody)
    check_model(cloud, body.model.id if body.model else None)
    run, _ = follow_up(cloud, agent, body.prompt.text, body.mode == "plan")
    return JSONResponse({"run": run.describe(agent)}, 201)


async def list_runs(cloud: Cloud, request: Request) -> Response:
    """List an agent's runs, newest first."""
    agent = _agent(request, cloud)
    runs, following = take_page(request, agent.runs)
    return JSONResponse({"items": [run.describe(agent) for run in runs], **following})


async def get_run(cloud: Cloud, request: Request) -> Response:
    """Show one run."""
    agent, run = _run(request, cloud)
    return JSONResponse(run.describe(agent))


async def show_stream(cloud: Cloud, request: Request) -> Response:
    """Stream the events of a run after the reader's last one."""
    _, run = _run(request, cloud)
    if run.feed.is_expired(cloud.script.retention):
        raise CloudRefusal("stream_expired")
    start = run.feed.find_position(request.headers.get("last-event-id"))
    headers = {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "x-cursor-stream-retention-seconds": str(int(cloud.script.retention)),
    }
    events = run.feed.follow(start, cloud.script.heartbeat)
    fault: CloudFault | None = request.scope["segue.fault"]
    if fault is not None and fault.fault in STREAM_FAULTS:
        events = _spoil_stream(request, fault, run, events)
    return StreamingResponse(events, headers=headers)


async def _spoil_stream(
    request: Request, fault: CloudFault, run: CloudRunRecord, events: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    if fault.fault == "sse_silent":
        yield run.feed.make_status_event().encode()
        while (await request.receive())["type"] != "http.disconnect":
            pass
    elif fault.fault == "sse_error":
        code = fault.code or "stream_unavailable"
        text = fault.message or (ERROR_KINDS[code].message if code in ERROR_KINDS else code)
        yield run.feed.make_status_event().encode()
        yield make_event("error", {"code": code, "message": text}).encode()
    else:
        whole = fault.events
        async for data in events:
            if not whole:
                yield data[: len(data) * 2 // 3]
                await drop_connection(request.scope, request.receive, reset=False)
                return
            yield data
            whole -= 1


async def cancel_run(cloud: Cloud, request: Request) -> Response:
    """Cancel a run."""
    agent, run = _run(request, cloud)
    cancel(cloud, agent, run)
    return JSONResponse({"id": run.id})


async def show_usage(cloud: Cloud, request: Request) -> Response:
    """Show tokens and cost, in total and per run."""
    agent = _agent(request, cloud)
    only = request.query_params.get("runId")
    runs = [run for run in agent.runs if only in (None, run.id)]
    if not runs:
        raise CloudRefusal("run_not_found")
    total = {name: sum(run.usage[name] for run in runs) for name in NO_USAGE}
    costs = [run.cost for run in runs if run.cost]
    names = ("rawCostCents", "chargedCents")
    cost = {name: sum(cost.get(name, 0) for cost in costs) for name in names}
    facts = {"totalUsage": total, "runs": [_describe_usage(run) for run in runs]}
    return JSONResponse(facts | ({"cost": cost} if costs else {}))


def _describe_usage(run: CloudRunRecord) -> dict[str, Any]:
    facts: dict[str, Any] = {"id": run.id, "usage": run.usage}
    return facts | ({"cost": run.cost, "usageUuid": run.id.removeprefix("run-")} if run.cost else {})


async def list_artifacts(cloud: Cloud, request: Request) -> Response:
    """List the files an agent has left."""
    agent = _agent(request, cloud)
    items = [
        {"path": f"artifacts/{path}", "sizeBytes": len(data), "updatedAt": format_time(at)}
        for path, (data, at) in list(agent.artifacts.items())[:100]
    ]
    return JSONResponse({"items": items})


async def download(cloud: Cloud, request: Request) -> Response:
    """Return a temporary address of one of them."""
    agent = _agent(request, cloud)
    path = request.query_params.get("path")
    return offer(request, cloud, agent, path.removeprefix("artifacts/") if path else None)


def offer(request: Request, cloud: Cloud, agent: CloudAgentRecord, path: str | None) -> Response:
    """Answer a download, as both versions do."""
    if not path:
        raise CloudRefusal("validation_error", "path: Required")
    if path not in agent.artifacts:
        raise CloudRefusal("artifact_not_found")
    token, expires = cloud.offer(agent.artifacts[path][0])
    url = f"{request.base_url}_sim/artifacts/{token}"
    return JSONResponse({"url": url, "expiresAt": format_time(expires)})


def take_page(request: Request, items: Sequence[_Item]) -> tuple[list[_Item], dict[str, str]]:
    """Return one page of the items, newest first, and the cursor of the next, if there is one."""
    limit = request.query_params.get("limit", "20")
    if not limit.isdecimal() or not 1 <= int(limit) <= 100:
        raise CloudRefusal("validation_error", "limit: must be between 1 and 100")
    before = _read_cursor(request.query_params.get("cursor"))
    found = [item for item in reversed(items) if before is None or item.number < before]
    chosen, rest = found[: int(limit)], found[int(limit) :]
    if not rest:
        return chosen, {}
    return chosen, {"nextCursor": base64.urlsafe_b64encode(f"n{chosen[-1].number}".encode()).decode()}


def take_agents(
    request: Request, cloud: Cloud, is_wanted: Callable[[CloudAgentRecord], bool] = lambda _agent: True
) -> tuple[list[CloudAgentRecord], dict[str, str]]:
    """Return one page of the agents that were not deleted; `prUrl` asks for those of a pull request."""
    pull = request.query_params.get("prUrl")
    found = [agent for agent in cloud.agents.values() if not agent.deleted and is_wanted(agent)]
    return take_page(request, [a for a in found if pull is None or any(c.pr == pull for c in a.checkouts)])


def _read_cursor(cursor: str | None) -> int | None:
    if not cursor:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor.encode()).decode()
        return int(text.removeprefix("n"))
    except (binascii.Error, ValueError):
        raise CloudRefusal("validation_error", "cursor: invalid") from None


def _agent(request: Request, cloud: Cloud) -> CloudAgentRecord:
    return cloud.find_agent(request.path_params["agent"])


def _run(request: Request, cloud: Cloud) -> tuple[CloudAgentRecord, CloudRunRecord]:
    return cloud.find_run(request.path_params["agent"], request.path_params["run"])


_ONE, _RUNS = "/v1/agents/{agent}", "/v1/agents/{agent}/runs"
ROUTES: list[tuple[str, str, Handler]] = [
    ("POST", "/v1/agents", create_agent),
    ("GET", "/v1/agents", list_agents),
    ("GET", _ONE, get_agent),
    ("DELETE", _ONE, delete_agent),
    ("POST", f"{_ONE}/archive", archive),
    ("POST", f"{_ONE}/unarchive", archive),
    ("GET", f"{_ONE}/usage", show_usage),
    ("GET", f"{_ONE}/artifacts", list_artifacts),
    ("GET", f"{_ONE}/artifacts/download", download),
    ("POST", _RUNS, create_run),
    ("GET", _RUNS, list_runs),
    ("GET", f"{_RUNS}/{{run}}", get_run),
    ("GET", f"{_RUNS}/{{run}}/stream", show_stream),
    ("POST", f"{_RUNS}/{{run}}/cancel", cancel_run),
]
