"""The cloud simulator as an app: the API, its gate, and the controls under `/_sim/`."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from segue.sim.cloud import v0, v1
from segue.sim.cloud.answers import CloudRefusal
from segue.sim.cloud.gate import CloudGate
from segue.sim.cloud.script import CloudScript
from segue.sim.cloud.state import Cloud
from segue.sim.cloud.v1 import Handler
from segue.sim.script import check_script

_SINCE = "2026-01-01T00:00:00.000Z"


async def show_me(cloud: Cloud, request: Request) -> Response:
    """Show the key and, unless it is a team's, its owner."""
    facts: dict[str, object] = {"apiKeyName": "Simulated key", "createdAt": _SINCE}
    if cloud.script.service_account:
        return JSONResponse(facts)
    facts["userEmail"] = "dev@example.com"
    if request.url.path.startswith("/v1"):
        facts |= {"userId": 1, "userFirstName": "Dev", "userLastName": "Eloper"}
    return JSONResponse(facts)


async def list_models(cloud: Cloud, request: Request) -> Response:
    """List the models; v0 shows only their ids."""
    if request.url.path.startswith("/v1"):
        return JSONResponse({"items": cloud.script.models})
    return JSONResponse({"models": [m if isinstance(m, str) else m["id"] for m in cloud.script.models]})


async def list_repositories(cloud: Cloud, request: Request) -> Response:
    """List the repositories on GitHub."""
    found = [url for url in cloud.remotes.list_addresses() if url.startswith("github.com/")]
    if request.url.path.startswith("/v1"):
        return JSONResponse({"items": [{"url": f"https://{url}"} for url in found]})
    items = []
    for url in found:
        owner, _, name = url.removeprefix("github.com/").partition("/")
        items.append({"owner": owner, "name": name, "repository": f"https://{url}"})
    return JSONResponse({"repositories": items})


async def exchange_key(_request: Request) -> Response:
    """Give the SDK a token for its key."""
    return JSONResponse({"accessToken": "simulated", "refreshToken": "simulated"})


async def ignore(request: Request) -> Response:
    """Answer the SDK's own services, such as telemetry, with an empty message."""
    if "json" in request.headers.get("content-type", ""):
        return JSONResponse({})
    return Response(b"", media_type="application/proto")


def cloud_app(script: CloudScript | None = None, repos: Mapping[str, Path] | None = None) -> Starlette:
    """Build the app; `repos` maps addresses (https://github.com/me/app) to bare repositories."""
    cloud = Cloud.make(script or CloudScript(), repos or {})

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await cloud.close()

    return Starlette(
        routes=[
            *(
                Route(path, partial(handler, cloud), methods=[method])
                for method, path, handler in (*v1.ROUTES, *v0.ROUTES, *_ACCOUNT, *_CONTROLS)
            ),
            Route("/auth/exchange_user_api_key", exchange_key, methods=["POST"]),
            Route("/aiserver.v1.{rest:path}", ignore, methods=["POST"]),
            Route("/_sim/log", cloud.log.answer, methods=["GET", "DELETE"]),
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


async def _load(cloud: Cloud, request: Request) -> Response:
    """Play another script."""
    cloud.load(await _read_script(request, ""))
    return JSONResponse({})


async def _add_entries(cloud: Cloud, request: Request) -> Response:
    """Add entries that are tried before the others."""
    cloud.deck.put_first((await _read_script(request, "on")).on)
    return JSONResponse({})


async def _add_faults(cloud: Cloud, request: Request) -> Response:
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


async def _release(cloud: Cloud, request: Request) -> Response:
    """Let an agent's run end that the script holds."""
    cloud.find_agent(request.path_params["agent"]).latest.released.set()
    return JSONResponse({})


async def _release_all(cloud: Cloud, _request: Request) -> Response:
    """Let all runs end that the script holds."""
    for agent in cloud.agents.values():
        agent.latest.released.set()
    return JSONResponse({})


async def _show_state(cloud: Cloud, _request: Request) -> Response:
    """Return how many agents there are, and how many are active."""
    return JSONResponse({"agents": len(cloud.agents), "active": cloud.count_active()})


async def _download(cloud: Cloud, request: Request) -> Response:
    """Serve a download address."""
    found = cloud.downloads.get(request.path_params["token"])
    if found is None or found.expires <= time.time():
        return Response("<Error><Code>AccessDenied</Code></Error>", 403, media_type="application/xml")
    return Response(found.data, media_type="application/octet-stream")


_ACCOUNT: list[tuple[str, str, Handler]] = [
    *(("GET", f"/{version}/me", show_me) for version in ("v0", "v1")),
    *(("GET", f"/{version}/models", list_models) for version in ("v0", "v1")),
    *(("GET", f"/{version}/repositories", list_repositories) for version in ("v0", "v1")),
]
_CONTROLS: list[tuple[str, str, Handler]] = [
    ("GET", "/_sim/state", _show_state),
    ("POST", "/_sim/script", _load),
    ("POST", "/_sim/on", _add_entries),
    ("POST", "/_sim/faults", _add_faults),
    ("POST", "/_sim/release", _release_all),
    ("POST", "/_sim/agents/{agent}/release", _release),
    ("GET", "/_sim/artifacts/{token}", _download),
]
