"""The gate of a simulated vendor: faults, keys, a log of requests, and the controls under `/_sim/`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from segue.parts.clouds.sim.engine import SessionEngine, SimSession, VendorHabits
from segue.parts.clouds.sim.script import SessionFault, SessionScript
from segue.parts.sim.gate import GateCall, gated_app

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

    def build_app(
        self, script: SessionScript | None = None, repos: Mapping[str, Path] | None = None
    ) -> Starlette:
        """Build the app; `repos` maps addresses (https://github.com/me/app) to bare repositories."""

        async def refuse(_request: Request, error: Exception) -> Response:
            assert isinstance(error, SessionRefusal)
            return self.word(error)

        engine = SessionEngine(self.habits, script, repos)
        return gated_app(engine, (*self.routes, *_CONTROLS), partial(_serve, self), {SessionRefusal: refuse})

    def word(self, refusal: SessionRefusal) -> Response:
        """Answer with an error in the vendor's words."""
        return JSONResponse(self.refuse(refusal), refusal.status)


async def _serve(vendor: SimVendor, engine: SessionEngine, call: GateCall) -> None:
    """Serve a request, or let it fail as the script says."""
    fault: SessionFault | None = call.fault
    key = vendor.read_key(call.request)
    if not key or (engine.script.keys and key not in engine.script.keys):
        refusal = SessionRefusal(401, "The key is not valid.", "authentication_error")
        await call.answer(vendor.word(refusal))
    elif fault is not None and fault.fault in _EXECUTED:
        await call.execute_unheard()
        if fault.fault == "silent":
            while (await call.request.receive())["type"] != "http.disconnect":
                pass
        elif fault.fault == "lost":
            await call.reset()
        else:
            await call.answer(vendor.word(SessionRefusal(500, "Internal error")))
    elif fault is not None and fault.fault != "lag":
        await call.answer(_refuse(vendor, fault))
    else:
        call.request.scope["segue.lag"] = fault is not None
        await call.execute()


def _refuse(vendor: SimVendor, fault: SessionFault) -> Response:
    missing = fault.fault == "missing"
    status, said = (404, "Not found.") if missing else (fault.status, fault.message or "Refused.")
    response = vendor.word(SessionRefusal(status, said))
    if fault.retry_after is not None:
        response.headers["Retry-After"] = fault.retry_after
    return response


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
