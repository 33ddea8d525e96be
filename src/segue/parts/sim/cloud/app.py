"""The cloud simulator as an app: the API, a gate for every request, and the controls under `/_sim/`."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from segue.parts.sim.cloud import v0, v1
from segue.parts.sim.cloud.requests import ERROR_KINDS, CloudRefusal
from segue.parts.sim.cloud.script import SLOW_LISTS, STREAM_FAULTS, CloudFault, CloudScript
from segue.parts.sim.cloud.state import Cloud
from segue.parts.sim.cloud.v1 import Handler
from segue.parts.sim.gate import GateCall, gated_app
from segue.sim.services import BAD_GATEWAY


async def _serve(cloud: Cloud, call: GateCall) -> None:
    """Serve a request, or let it fail as the script says."""
    fault: CloudFault | None = call.fault
    call.request.scope["segue.fault"] = fault
    call.headers["x-request-id"] = str(uuid.uuid4())
    if fault is not None:
        await asyncio.sleep(fault.delay)
        if fault.fault == "reset":
            await call.reset()
            return
        if fault.fault not in ("slow", "reset_after", *STREAM_FAULTS):
            await call.answer(_answer(fault))
            return
    try:
        call.headers |= _admit(cloud, call.request)
    except CloudRefusal as refusal:
        await call.answer(refusal.response())
        return
    if fault is not None and fault.fault == "reset_after":
        await call.execute_unheard()
        await call.reset()
    else:
        await call.execute()


def _admit(cloud: Cloud, request: Request) -> dict[str, str]:
    """Check the key, count the request, and return the headers about rate limits."""
    key, script = _read_key(request.headers.get("authorization", "")), cloud.script
    if not key:
        raise CloudRefusal("unauthorized")
    if script.keys and key not in script.keys:
        raise CloudRefusal("api_key_not_found")
    headers = cloud.limiter.count(key, "all", [(script.rate_limit, 60.0)])
    for pattern, windows in SLOW_LISTS.items():
        if script.slow_lists and re.fullmatch(pattern, request.url.path):
            headers = cloud.limiter.count(key, pattern, windows)
    return headers


def _answer(fault: CloudFault) -> Response:
    if fault.fault == "bad_gateway":
        return HTMLResponse(BAD_GATEWAY, fault.status or 502)
    if fault.fault == "not_json":
        return Response(b'{"items": [{"id": "bc-', fault.status or 200, media_type="application/json")
    headers = {"Retry-After": fault.retry_after} if fault.retry_after is not None else {}
    refusal = CloudRefusal(
        fault.code or fault.fault,
        fault.message or ERROR_KINDS[fault.fault].message,
        status=fault.status or ERROR_KINDS[fault.fault].status,
        shape=fault.shape or ERROR_KINDS[fault.fault].shape,
        headers=headers,
    )
    return refusal.response()


def _read_key(header: str) -> str:
    """Return the key of either scheme, or nothing."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[0]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""


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
    return gated_app(
        Cloud(script, repos),
        (*v1.ROUTES, *v0.ROUTES, *_ACCOUNT, *_CONTROLS),
        _serve,
        {CloudRefusal: _answer_refusal, HTTPException: _answer_unknown_path},
        [
            Route("/auth/exchange_user_api_key", exchange_key, methods=["POST"]),
            Route("/aiserver.v1.{rest:path}", ignore, methods=["POST"]),
        ],
    )


async def _answer_refusal(_request: Request, error: Exception) -> Response:
    assert isinstance(error, CloudRefusal)
    return error.response()


async def _answer_unknown_path(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return CloudRefusal("not_found", error.detail, status=error.status_code).response()


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
    ("POST", "/_sim/release", _release_all),
    ("POST", "/_sim/agents/{agent}/release", _release),
    ("GET", "/_sim/artifacts/{token}", _download),
]
