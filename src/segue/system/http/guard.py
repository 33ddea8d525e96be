"""The guard of every server: it checks host, origin and token, and bounds the body's size and time.

A web page may reach a server on loopback under a name of its own (DNS rebinding): such a request names a
foreign host or origin, and is refused before anything else is read.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class RequestRefused(Exception):
    """A request that is refused before it reaches the app."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status


class RequestGuard:
    """ASGI middleware that checks requests and reads their bodies, so that no client delays the app."""

    def __init__(
        self,
        app: AsgiApp,
        token: str | None,
        hosts: Sequence[str],
        origins: Sequence[str] = (),
        max_body: int = 1_000_000,
        open_paths: Collection[str] = (),
        body_timeout: float = 30.0,
        same_origin: bool = False,
    ) -> None:
        """Create the guard. `open_paths` need no token: they check a signature, or reveal nothing.

        With `same_origin`, pages from the server's own host and port are allowed, too.
        """
        self._app = app
        self._token = token
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origin.lower() for origin in origins)
        self._max_body = max_body
        self._open_paths = frozenset(open_paths)
        self._body_timeout = body_timeout
        self._same_origin = same_origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on with its whole body."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._handle(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._check(scope)
            body = await self._body(scope, receive)
        except RequestRefused as refused:
            await send_error(send, refused.status, str(refused))
        else:
            await self._app(scope, replay(body, receive), send)

    def _check(self, scope: Scope) -> None:
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or without_port(hosts[0]).lower() not in self._hosts:
            raise RequestRefused(403, "this server does not answer for that host")
        own = {f"{scope.get('scheme', 'http')}://{hosts[0].lower()}"} if self._same_origin else set()
        if any(origin.lower() not in self._origins | own for origin in _values(scope, b"origin")):
            raise RequestRefused(403, "requests from that origin are refused")
        if self._token is not None and scope["path"] not in self._open_paths:
            given = _values(scope, b"authorization")
            if len(given) != 1 or not has_token(given[0], self._token):
                raise RequestRefused(401, "a token is needed: Authorization: Bearer TOKEN")

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        declared = _values(scope, b"content-length")
        if declared and declared[0].isdecimal() and int(declared[0]) > self._max_body:
            raise RequestRefused(413, f"more than {self._max_body} bytes")
        try:
            async with asyncio.timeout(self._body_timeout):
                return await self._read(receive)
        except TimeoutError:
            raise RequestRefused(408, "the body did not arrive in time") from None

    async def _read(self, receive: Receive) -> bytes:
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RequestRefused(400, "the body ended early")
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._max_body:
                raise RequestRefused(413, f"more than {self._max_body} bytes")
        return bytes(body)


def has_token(header: str, token: str) -> bool:
    """Return whether an Authorization header contains the token, in constant time."""
    scheme, _, given = header.partition(" ")
    right = hmac.compare_digest(given.strip().encode("utf-8", "surrogatepass"), token.encode())
    return right and scheme.lower() == "bearer"


async def send_error(send: Send, status: int, error: str) -> None:
    """Send an error and close the connection: the rest of the request is of no interest."""
    headers = [
        (b"content-type", b"application/json"),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"error": error}).encode()})


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for header, value in scope["headers"] if header.lower() == name]


def without_port(host: str) -> str:
    """Return the name or address in a Host header."""
    name, colon, port = host.rpartition(":")
    return name if colon and (port.isdecimal() or not port) and not host.endswith("]") else host


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields the body once, and then only the end of the connection."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
