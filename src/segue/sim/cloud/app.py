"""Puts the cloud simulator together: the API, its gate, and the controls under `/_sim/`."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from segue.sim.cloud import account, v0, v1
from segue.sim.cloud.answers import Refusal
from segue.sim.cloud.gate import Gate
from segue.sim.cloud.script import Entry, Fault, Script
from segue.sim.cloud.state import Cloud
from segue.sim.cloud.v1 import Handler
from segue.sim.http.script import complaint


def cloud_app(script: Script | None = None, repos: Mapping[str, Path] | None = None) -> Starlette:
    """The simulator as an app; `repos`: addresses (https://github.com/me/app) to bare repositories."""
    cloud = Cloud.make(script or Script(), repos or {})

    def bind(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            return await handler(request, cloud)

        return endpoint

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await cloud.close()

    return Starlette(
        routes=[*v1.routes(bind), *v0.routes(bind), *account.routes(bind), *_controls(cloud, bind)],
        middleware=[Middleware(Gate, cloud=cloud)],
        exception_handlers={Refusal: _refused, HTTPException: _no_such_path},
        lifespan=lifespan,
    )


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return error.response()


async def _no_such_path(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Refusal("not_found", error.detail, status=error.status_code).response()


async def _load(request: Request, cloud: Cloud) -> Response:
    """Play another script."""
    try:
        cloud.load(Script.model_validate_json(await request.body()))
    except ValidationError as error:
        raise Refusal("validation_error", complaint(error)) from None
    return JSONResponse({})


async def _add_entries(request: Request, cloud: Cloud) -> Response:
    """More entries, tried before those that are there."""
    try:
        entries = TypeAdapter(list[Entry]).validate_json(await request.body())
    except ValidationError as error:
        raise Refusal("validation_error", complaint(error)) from None
    cloud.playbook.put_first(entries)
    return JSONResponse({})


async def _add_faults(request: Request, cloud: Cloud) -> Response:
    """More faults, counted from now on."""
    try:
        cloud.faults.faults.extend(TypeAdapter(list[Fault]).validate_json(await request.body()))
    except ValidationError as error:
        raise Refusal("validation_error", complaint(error)) from None
    return JSONResponse({})


async def _release(request: Request, cloud: Cloud) -> Response:
    """Let a run go on that the script holds."""
    cloud.agent(request.path_params["agent"]).latest.released.set()
    return JSONResponse({})


async def _release_all(_request: Request, cloud: Cloud) -> Response:
    """Let every run go on that the script holds."""
    for agent in cloud.agents.values():
        agent.latest.released.set()
    return JSONResponse({})


async def _state(_request: Request, cloud: Cloud) -> Response:
    """How many agents there are, and how many have a run under way."""
    return JSONResponse({"agents": len(cloud.agents), "active": cloud.active()})


async def _artifact(request: Request, cloud: Cloud) -> Response:
    """What a download address gives."""
    found = cloud.downloads.get(request.path_params["token"])
    if found is None or found.expires <= time.time():
        return Response("<Error><Code>AccessDenied</Code></Error>", 403, media_type="application/xml")
    return Response(found.data, media_type="application/octet-stream")


def _controls(
    cloud: Cloud, bind: Callable[[Handler], Callable[[Request], Awaitable[Response]]]
) -> list[Route]:
    return [
        Route("/_sim/log", cloud.log.answer, methods=["GET", "DELETE"]),
        Route("/_sim/state", bind(_state)),
        Route("/_sim/script", bind(_load), methods=["POST"]),
        Route("/_sim/on", bind(_add_entries), methods=["POST"]),
        Route("/_sim/faults", bind(_add_faults), methods=["POST"]),
        Route("/_sim/release", bind(_release_all), methods=["POST"]),
        Route("/_sim/agents/{agent}/release", bind(_release), methods=["POST"]),
        Route("/_sim/artifacts/{token}", bind(_artifact)),
    ]
