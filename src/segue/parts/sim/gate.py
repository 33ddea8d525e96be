"""What the simulators of cloud agents share: repositories, the gate before their API, and the app."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from segue.parts.sim.cloud.remote import Remotes
from segue.sim.services import LOCAL_ONLY, LoggedRequest, S, ScriptPlayer
from segue.system.http.guard import replay
from segue.system.http.server import drop_connection


class RemotePlayer(ScriptPlayer[S]):
    """Plays a script whose agents push to repositories."""

    def __init__(self, kind: type[S], script: S | None, repos: Mapping[str, Path] | None) -> None:
        """`repos` maps addresses (https://github.com/me/app) to bare repositories."""
        self.remotes = Remotes()
        super().__init__(kind, script)
        self._add(repos or {})

    def play(self, script: S) -> None:
        """Play another script from its beginning; agents and repositories stay."""
        super().play(script)
        self._add(script.repos)  # type: ignore[attr-defined]

    async def close(self) -> None:
        """Stop everything."""

    def _add(self, repos: Mapping[str, Path]) -> None:
        for url, bare in repos.items():
            self.remotes.add(url, bare)


class GateCall(Struct):
    """One request to a simulated API, and what can be done with it."""

    request: Request
    logged: LoggedRequest
    fault: Any
    _app: ASGIApp
    _again: Receive
    _send: Send
    headers: dict[str, str] = field(default_factory=dict)
    """What is added to the headers of the answer."""

    async def execute(self) -> None:
        """Let the API answer."""
        await self._app(self.request.scope, self._again, self._record)

    async def execute_unheard(self) -> None:
        """Let the API do what was asked, and drop its answer."""
        await self._app(self.request.scope, self._again, _discard)

    async def answer(self, response: Response) -> None:
        """Answer instead of the API."""
        await response(self.request.scope, self._again, self._record)

    async def reset(self) -> None:
        """Cut the connection."""
        await drop_connection(self.request.scope, self.request.receive, reset=True)

    async def _record(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.logged.status = message["status"]
            answered = MutableHeaders(scope=message)
            for name, value in self.headers.items():
                answered.setdefault(name, value)
        await self._send(message)


async def _discard(_message: Message) -> None:
    """Drop an answer that must never arrive."""


class SimGate:
    """Middleware that logs every request and finds its fault; the simulator's own controls pass it."""

    def __init__(
        self, app: ASGIApp, player: RemotePlayer[Any], serve: Callable[[GateCall], Awaitable[None]]
    ) -> None:
        self._app, self._player, self._serve = app, player, serve

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["path"].startswith("/_sim/"):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await request.body()
        logged = self._player.log.add(request, body)
        fault = self._player.faults.pick(request.method, request.url.path)
        logged.fault = fault.fault if fault else ""
        await self._serve(GateCall(request, logged, fault, self._app, replay(body, receive), send))


P = TypeVar("P", bound=RemotePlayer[Any])


def gated_app(
    player: P,
    routes: Sequence[tuple[str, str, Callable[[P, Request], Awaitable[Response]]]],
    serve: Callable[[P, GateCall], Awaitable[None]],
    handlers: Mapping[Any, Any],
    more: Sequence[Route] = (),
) -> Starlette:
    """Build the app of a simulator; `serve` decides about each request to its API."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await player.close()

    own = [Route(path, partial(handler, player), methods=[method]) for method, path, handler in routes]
    return Starlette(
        routes=[*own, *more, *player.routes()],
        middleware=[LOCAL_ONLY, Middleware(SimGate, player=player, serve=partial(serve, player))],
        exception_handlers=handlers,
        lifespan=lifespan,
    )
