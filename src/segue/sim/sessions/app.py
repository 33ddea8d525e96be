"""The gate of a simulated vendor: faults, keys, a log of requests, and the controls under `/_sim/`."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from segue.sim.services import LOCAL_ONLY, control_routes
from segue.sim.sessions.engine import SessionEngine, SimSession, VendorHabits
from segue.sim.sessions.script import SessionFault, SessionScript
from segue.system.http.guard import replay
from segue.system.http.server import drop_connection

Handler = Callable[[SessionEngine, Request], Awaitable[Response]]
_EXECUTED = ("lost", "failed", "silent")


class SessionRefusal(Exception):
    """The vendor refuses a request."""

    def __init__(self, status: int, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.kind = status, message, kind


class SimVendor(Struct, frozen=True):
    """A vendor: its routes, how it reads a key, and how it words an error."""

    habits: VendorHabits
    routes: Sequence[tuple[str, str, Handler]]
    read_key: Callable[[Request], str]
    refuse: Callable[[SessionRefusal], dict[str, Any]]

    def build_app(self, script: SessionScript, repos: Mapping[str, Path]) -> Starlette:
        """Build the app of this vendor."""
        return session_app(self, script, repos)


class SessionGate:
    """Lets requests pass, or fail as the script says."""

    def __init__(self, app: ASGIApp, engine: SessionEngine, vendor: SimVendor) -> None:
        self._app, self._engine, self._vendor = app, engine, vendor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        if request.url.path.startswith("/_sim/"):
            await self._app(scope, receive, send)
        else:
            await self._serve(request, receive, send)

    async def _serve(self, request: Request, receive: Receive, send: Send) -> None:
        body, scope = await request.body(), request.scope
        logged = self._engine.log.add(request, body)
        fault = self._engine.faults.pick(request.method, request.url.path)
        logged.fault = fault.fault if fault else ""
        again = replay(body, receive)

        async def record(message: Message) -> None:
            if message["type"] == "http.response.start":
                logged.status = message["status"]
            await send(message)

        key = self._vendor.read_key(request)
        if not key or (self._engine.script.keys and key not in self._engine.script.keys):
            await self._word(SessionRefusal(401, "The key is not valid.", "authentication_error"))(
                scope, again, record
            )
        elif fault is not None and fault.fault in _EXECUTED:
            await self._app(scope, again, _discard)
            if fault.fault == "silent":
                while (await receive())["type"] != "http.disconnect":
                    pass
            elif fault.fault == "lost":
                await drop_connection(scope, receive, reset=True)
            else:
                await self._word(SessionRefusal(500, "Internal error"))(scope, again, record)
        elif fault is not None and fault.fault != "lag":
            await self._refuse(fault)(scope, again, record)
        else:
            scope["segue.lag"] = fault is not None
            await self._app(scope, again, record)

    def _refuse(self, fault: SessionFault) -> Response:
        missing = fault.fault == "missing"
        status, said = (404, "Not found.") if missing else (fault.status, fault.message or "Refused.")
        response = self._word(SessionRefusal(status, said))
        if fault.retry_after is not None:
            response.headers["Retry-After"] = fault.retry_after
        return response

    def _word(self, refusal: SessionRefusal) -> Response:
        return JSONResponse(self._vendor.refuse(refusal), refusal.status)


async def _discard(_message: Message) -> None:
    """Drop an answer that shall never arrive."""


def session_app(
    vendor: SimVendor, script: SessionScript | None = None, repos: Mapping[str, Path] | None = None
) -> Starlette:
    """Build the app; `repos` maps addresses (https://github.com/me/app) to bare repositories."""
    engine = SessionEngine.make(vendor.habits, script or SessionScript(), repos or {})

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await engine.close()

    takers = {
        "script": engine.load,
        "on": lambda script: engine.deck.put_first(script.on),
        "faults": lambda script: engine.faults.faults.extend(script.faults),
    }

    async def refuse(_request: Request, error: Exception) -> Response:
        assert isinstance(error, SessionRefusal)
        return JSONResponse(vendor.refuse(error), error.status)

    return Starlette(
        routes=[
            *(
                Route(path, partial(handler, engine), methods=[method])
                for method, path, handler in (*vendor.routes, *_CONTROLS)
            ),
            *control_routes(SessionScript, engine.log, takers),
        ],
        middleware=[LOCAL_ONLY, Middleware(SessionGate, engine=engine, vendor=vendor)],
        exception_handlers={SessionRefusal: refuse},
        lifespan=lifespan,
    )


def list_sessions(engine: SessionEngine, request: Request) -> list[SimSession]:
    """Return the sessions that a list shows, newest first; a list that lags leaves out the newest."""
    shown = [session for session in engine.sessions.values() if session.state != "deleted"]
    return list(reversed(shown[:-1] if request.scope.get("segue.lag") else shown))


def find_session(engine: SessionEngine, request: Request) -> SimSession:
    """Return the session that a path names."""
    session = engine.sessions.get(request.path_params["session"])
    if session is None or session.state == "deleted":
        raise SessionRefusal(404, "There is no such session.", "not_found_error")
    return session


def find_repository(engine: SessionEngine, url: str) -> str:
    """Return the address as it is known; refuse one that is not."""
    if engine.remotes.find(url) is None:
        raise SessionRefusal(400, f"Repository {url} is not known.", "invalid_request_error")
    return url


def require(body: Mapping[str, Any], known: Sequence[str], needed: Sequence[str]) -> None:
    """Refuse a body that lacks a field or has one that nobody has documented."""
    if missing := [name for name in needed if not body.get(name)]:
        raise SessionRefusal(400, f"{missing[0]}: Field required", "invalid_request_error")
    if unknown := [name for name in body if name not in known]:
        raise SessionRefusal(400, f"{unknown[0]}: Extra inputs are not permitted", "invalid_request_error")


async def read_json(request: Request) -> dict[str, Any]:
    """Return the object in the body."""
    try:
        body = await request.json()
    except ValueError:
        raise SessionRefusal(400, "The body is not JSON.", "invalid_request_error") from None
    if not isinstance(body, dict):
        raise SessionRefusal(400, "The body is not an object.", "invalid_request_error")
    return body


def bearer(request: Request) -> str:
    """Return the key of the header Authorization."""
    found = re.match(r"(?:Bearer|token) (\S+)$", request.headers.get("authorization", ""), re.IGNORECASE)
    return found[1] if found else ""


async def _release(engine: SessionEngine, _request: Request) -> Response:
    for session in engine.sessions.values():
        session.released.set()
    return JSONResponse({})


async def _show(engine: SessionEngine, _request: Request) -> Response:
    return JSONResponse({"sessions": len(engine.sessions), "active": engine.count_active()})


_CONTROLS: list[tuple[str, str, Handler]] = [
    ("GET", "/_sim/state", _show),
    ("POST", "/_sim/release", _release),
]
