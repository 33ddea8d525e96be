"""The app between an agent and its model: forwards what it gets, and stores it on the way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from segue.system.http.client import LOOPBACK
from segue.system.http.server import drop_connection
from segue.system.recording.spool import ExchangeSpool, RecordingSpool, kept_headers

if TYPE_CHECKING:
    import httpx2

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_OF_A_CONNECTION = frozenset(
    (
        *("host", "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "te", "trailer"),
        *("proxy-authorization", "transfer-encoding", "upgrade", "content-length", "accept-encoding"),
    )
)
"""Headers that are not passed on: they belong to one connection."""


def forward_app(secret: str, upstream: str, spool: RecordingSpool) -> Starlette:
    """Build the app. It answers below a secret path only, so that nobody else is forwarded."""

    @asynccontextmanager
    async def opened(app: Starlette) -> AsyncIterator[None]:
        import httpx2

        is_local = urlsplit(upstream).hostname in LOOPBACK
        # The agent decides how long it waits.
        async with httpx2.AsyncClient(timeout=None, trust_env=not is_local, follow_redirects=False) as client:
            app.state.client = client
            yield

    async def forward(request: Request) -> Response:
        client: httpx2.AsyncClient = request.app.state.client
        return await _forward(client, request, upstream.rstrip("/"), secret, spool)

    return Starlette(routes=[Route(f"/{secret}{{rest:path}}", forward, methods=_METHODS)], lifespan=opened)


async def _forward(
    client: httpx2.AsyncClient, request: Request, upstream: str, secret: str, spool: RecordingSpool
) -> Response:
    import httpx2

    body = await request.body()
    query = f"?{request.url.query}" if request.url.query else ""
    path = request.url.path.removeprefix(f"/{secret}") + query
    kept = spool.begin(request.method, path, request.headers.get("content-encoding", ""), body)
    headers = [(name, value) for name, value in request.headers.items() if name not in _OF_A_CONNECTION]
    # What is not compressed can be read and redacted.
    headers.append(("accept-encoding", "identity"))
    asked = client.build_request(request.method, upstream + path, headers=headers, content=body)
    try:
        found = await client.send(asked, stream=True)
    except httpx2.HTTPError:
        await drop_connection(request.scope, request.receive, reset=True)
        return Response(status_code=502)
    if kept is not None:
        kept.head(found.status_code, kept_headers(found.headers.items()))
        if found.headers.get("content-length") == "0":
            kept.end()
    passed = {name: value for name, value in found.headers.items() if name.lower() not in _OF_A_CONNECTION}
    return StreamingResponse(_pieces(request, found, kept), found.status_code, passed)


async def _pieces(
    request: Request, found: httpx2.Response, kept: ExchangeSpool | None
) -> AsyncIterator[bytes]:
    import httpx2

    missing = int(found.headers.get("content-length", -1))
    try:
        async for piece in found.aiter_raw():
            missing -= len(piece)
            if kept is not None:
                kept.piece(piece)
                if missing == 0:  # an agent that has its answer may hang up before this is asked for more
                    kept.end()
            yield piece
        if kept is not None:
            kept.end()
    except httpx2.HTTPError:
        await drop_connection(request.scope, request.receive, reset=False)
    finally:
        await found.aclose()
