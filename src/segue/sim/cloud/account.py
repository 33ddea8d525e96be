"""Who is asking and what there is: `/me`, `/models`, `/repositories`, and the SDK's own calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from segue.sim.cloud.state import Cloud
from segue.sim.cloud.v1 import Handler

_SINCE = "2026-01-01T00:00:00.000Z"


async def me(request: Request, cloud: Cloud) -> Response:
    """The key and, unless it is a team's, its owner."""
    facts: dict[str, object] = {"apiKeyName": "Simulated key", "createdAt": _SINCE}
    if cloud.script.service_account:
        return JSONResponse(facts)
    facts["userEmail"] = "dev@example.com"
    if request.url.path.startswith("/v1"):
        facts |= {"userId": 1, "userFirstName": "Dev", "userLastName": "Eloper"}
    return JSONResponse(facts)


async def models(request: Request, cloud: Cloud) -> Response:
    """The models, in v0 by their ids alone."""
    if request.url.path.startswith("/v1"):
        return JSONResponse({"items": cloud.script.models})
    return JSONResponse({"models": [m if isinstance(m, str) else m["id"] for m in cloud.script.models]})


async def repositories(request: Request, cloud: Cloud) -> Response:
    """The repositories on GitHub."""
    found = [url for url in cloud.remotes.addresses() if url.startswith("github.com/")]
    if request.url.path.startswith("/v1"):
        return JSONResponse({"items": [{"url": f"https://{url}"} for url in found]})
    items = []
    for url in found:
        owner, _, name = url.removeprefix("github.com/").partition("/")
        items.append({"owner": owner, "name": name, "repository": f"https://{url}"})
    return JSONResponse({"repositories": items})


async def exchange(_request: Request, _cloud: Cloud) -> Response:
    """The SDK swaps its key for a token first."""
    return JSONResponse({"accessToken": "simulated", "refreshToken": "simulated"})


async def ignore(request: Request, _cloud: Cloud) -> Response:
    """The SDK's own services, telemetry among them: an empty message means nothing in particular."""
    if "json" in request.headers.get("content-type", ""):
        return JSONResponse({})
    return Response(b"", media_type="application/proto")


def routes(bind: Callable[[Handler], Callable[[Request], Awaitable[Response]]]) -> list[Route]:
    """Every path beside agents."""
    table: list[tuple[str, str, Handler]] = [
        ("POST", "/auth/exchange_user_api_key", exchange),
        ("POST", "/aiserver.v1.{rest:path}", ignore),
    ]
    for version in ("v0", "v1"):
        table += [
            ("GET", f"/{version}/me", me),
            ("GET", f"/{version}/models", models),
            ("GET", f"/{version}/repositories", repositories),
        ]
    return [Route(path, bind(handler), methods=[method]) for method, path, handler in table]
