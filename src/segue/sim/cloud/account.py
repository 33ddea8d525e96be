"""The account behind a key: `/me`, `/models`, `/repositories`, and the calls of Cursor's SDK."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from segue.sim.cloud.state import Cloud
from segue.sim.cloud.v1 import Handler

_SINCE = "2026-01-01T00:00:00.000Z"


async def show_me(request: Request, cloud: Cloud) -> Response:
    """Show the key and, unless it is a team's, its owner."""
    facts: dict[str, object] = {"apiKeyName": "Simulated key", "createdAt": _SINCE}
    if cloud.script.service_account:
        return JSONResponse(facts)
    facts["userEmail"] = "dev@example.com"
    if request.url.path.startswith("/v1"):
        facts |= {"userId": 1, "userFirstName": "Dev", "userLastName": "Eloper"}
    return JSONResponse(facts)


async def list_models(request: Request, cloud: Cloud) -> Response:
    """List the models; v0 shows only their ids."""
    if request.url.path.startswith("/v1"):
        return JSONResponse({"items": cloud.script.models})
    return JSONResponse({"models": [m if isinstance(m, str) else m["id"] for m in cloud.script.models]})


async def list_repositories(request: Request, cloud: Cloud) -> Response:
    """List the repositories on GitHub."""
    found = [url for url in cloud.remotes.list_addresses() if url.startswith("github.com/")]
    if request.url.path.startswith("/v1"):
        return JSONResponse({"items": [{"url": f"https://{url}"} for url in found]})
    items = []
    for url in found:
        owner, _, name = url.removeprefix("github.com/").partition("/")
        items.append({"owner": owner, "name": name, "repository": f"https://{url}"})
    return JSONResponse({"repositories": items})


async def exchange_key(_request: Request, _cloud: Cloud) -> Response:
    """Give the SDK a token for its key."""
    return JSONResponse({"accessToken": "simulated", "refreshToken": "simulated"})


async def ignore(request: Request, _cloud: Cloud) -> Response:
    """Answer the SDK's own services, such as telemetry, with an empty message."""
    if "json" in request.headers.get("content-type", ""):
        return JSONResponse({})
    return Response(b"", media_type="application/proto")


def list_routes(bind: Callable[[Handler], Callable[[Request], Awaitable[Response]]]) -> list[Route]:
    """List the routes that are not about agents."""
    table: list[tuple[str, str, Handler]] = [
        ("POST", "/auth/exchange_user_api_key", exchange_key),
        ("POST", "/aiserver.v1.{rest:path}", ignore),
    ]
    for version in ("v0", "v1"):
        table += [
            ("GET", f"/{version}/me", show_me),
            ("GET", f"/{version}/models", list_models),
            ("GET", f"/{version}/repositories", list_repositories),
        ]
    return [Route(path, bind(handler), methods=[method]) for method, path, handler in table]
