"""The cloud simulator as an app: the API, its gate, and the controls under `/_sim/`."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from segue.sim.cloud import account, v0, v1
from segue.sim.cloud.answers import CloudRefusal
from segue.sim.cloud.gate import CloudGate
from segue.sim.cloud.script import CloudScript
from segue.sim.cloud.state import Cloud
from segue.sim.cloud.v1 import Handler
from segue.sim.script import check_script


def cloud_app(script: CloudScript | None = None, repos: Mapping[str, Path] | None = None) -> Starlette:
    """Build the app; `repos` maps addresses (https://github.com/me/app) to bare repositories."""
    cloud = Cloud.make(script or CloudScript(), repos or {})

    def bind(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            return await handler(request, cloud)

        return endpoint

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await cloud.close()

    return Starlette(
        routes=[
            *v1.list_routes(bind),
            *v0.list_routes(bind),
            *account.list_routes(bind),
            *_controls(cloud, bind),
        ],
        middleware=[Middleware(CloudGate, cloud=cloud)],
        exception_handlers={CloudRefusal: _answer_refusal, HTTPException: _answer_unknown_path},
        lifespan=lifespan,
    )


async def _answer_refusal(_request: Request, error: Exception) -> Response:
    assert isinstance(error, CloudRefusal)
    return error.response()


async def _answer_unknown_path(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return CloudRefusal("not_found", error.detail, status=error.status_code).response()


async def _load(request: Request, cloud: Cloud) -> Response:
    """Play another script."""
    cloud.load(await _read_script(request, ""))
    return JSONResponse({})


async def _add_entries(request: Request, cloud: Cloud) -> Response:
    """Add entries that are tried before the others."""
    cloud.deck.put_first((await _read_script(request, "on")).on)
    return JSONResponse({})


async def _add_faults(request: Request, cloud: Cloud) -> Response:
    """Add faults, counted from now on."""
    cloud.faults.faults.extend((await _read_script(request, "faults")).faults)
    return JSONResponse({})


async def _read_script(request: Request, key: str) -> CloudScript:
    """Read a script, or the part of one with this key."""
    try:
        value = await request.json()
        return check_script({key: value} if key else value, CloudScript)
    except ValueError as error:
        raise CloudRefusal("validation_error", str(error)) from None


async def _release(request: Request, cloud: Cloud) -> Response:
    """Let an agent's run end that the script holds."""
    cloud.find_agent(request.path_params["agent"]).latest.released.set()
    return JSONResponse({})


async def _release_all(_request: Request, cloud: Cloud) -> Response:
    """Let all runs end that the script holds."""
    for agent in cloud.agents.values():
        agent.latest.released.set()
    return JSONResponse({})


async def _show_state(_request: Request, cloud: Cloud) -> Response:
    """Return how many agents there are, and how many are active."""
    return JSONResponse({"agents": len(cloud.agents), "active": cloud.count_active()})


async def _download(request: Request, cloud: Cloud) -> Response:
    """Serve a download address."""
    found = cloud.downloads.get(request.path_params["token"])
    if found is None or found.expires <= time.time():
        return Response("<Error><Code>AccessDenied</Code></Error>", 403, media_type="application/xml")
    return Response(found.data, media_type="application/octet-stream")


def _controls(
    cloud: Cloud, bind: Callable[[Handler], Callable[[Request], Awaitable[Response]]]
) -> list[Route]:
    return [
        Route("/_sim/log", cloud.log.answer, methods=["GET", "DELETE"]),
        Route("/_sim/state", bind(_show_state)),
        Route("/_sim/script", bind(_load), methods=["POST"]),
        Route("/_sim/on", bind(_add_entries), methods=["POST"]),
        Route("/_sim/faults", bind(_add_faults), methods=["POST"]),
        Route("/_sim/release", bind(_release_all), methods=["POST"]),
        Route("/_sim/agents/{agent}/release", bind(_release), methods=["POST"]),
        Route("/_sim/artifacts/{token}", bind(_download)),
    ]
