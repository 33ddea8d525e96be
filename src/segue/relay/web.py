"""The relay over HTTP: `POST /run`, `GET /actions`, `GET /health`, behind a token and the guard."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from segue.relay.audit import Audit
from segue.relay.desk import Call, Desk
from segue.relay.options import RelaySettings
from segue.relay.tokens import TokenFile
from segue.system.http.guard import (
    LOOPBACK_HOSTS,
    AsgiApp,
    Message,
    Receive,
    RequestGuard,
    Scope,
    Send,
    answer,
)

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

MAX_BODY = 64 * 1024
_LONGEST_KEY = 255
_OPEN = frozenset({"/health"})


def relay_app(settings: RelaySettings, tokens: TokenFile, audit: Audit, desk: Desk) -> AsgiApp:
    """The whole thing: door, guard, routes."""
    hosts = (*LOOPBACK_HOSTS, settings.host, *settings.hosts)
    guarded = RequestGuard(_routes(desk), None, hosts, max_body=MAX_BODY)
    return Door(guarded, tokens, audit)


class Door:
    """Asks for the token before anything is read, and notes everybody who is turned away further in."""

    def __init__(self, app: AsgiApp, tokens: TokenFile, audit: Audit) -> None:
        self._app = app
        self._tokens = tokens
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request in, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"] in _OPEN or self._tokens.accepts(_bearer(scope)):
            await self._app(scope, receive, self._watched(scope, send))
        else:
            self._audit.stranger(401, path=scope["path"][:200], caller=_caller(scope))
            await answer(send, 401, "a token is needed: Authorization: Bearer TOKEN")

    def _watched(self, scope: Scope, send: Send) -> Send:
        async def watched(message: Message) -> None:
            refused = message["type"] == "http.response.start" and message["status"] >= 400
            if refused and not scope.get("segue.noted"):
                self._audit.stranger(message["status"], path=scope["path"][:200], caller=_caller(scope))
            await send(message)

        return watched


def _routes(desk: Desk) -> Starlette:
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def health(_request: Request) -> Response:
        return JSONResponse({"ok": True})

    async def actions(_request: Request) -> Response:
        return JSONResponse({"actions": desk.actions()})

    async def run(request: Request) -> Response:
        call = _call(await request.body(), request)
        if isinstance(call, str):
            return JSONResponse({"error": call, "code": "request"}, 400)
        request.scope["segue.noted"] = True
        reply = await desk.run(call, request.receive)
        return JSONResponse(reply.body, reply.status, dict(reply.headers))

    routes = [
        Route("/health", health, methods=["GET"]),
        Route("/actions", actions, methods=["GET"]),
        Route("/run", run, methods=["POST"]),
    ]
    return Starlette(routes=routes)


def _call(body: bytes, request: Request) -> Call | str:
    """What is asked for, or what is wrong with the question."""
    try:
        asked: Any = json.loads(body)
    except (ValueError, RecursionError):
        return "the body is no JSON"
    if not isinstance(asked, dict) or not asked.keys() <= {"action", "parameters"}:
        return 'the body must be {"action": NAME, "parameters": {…}}'
    action, parameters = asked.get("action"), asked.get("parameters", {})
    if not isinstance(action, str) or not isinstance(parameters, dict):
        return "action must be a text and parameters an object"
    keys = request.headers.getlist("idempotency-key")
    if len(keys) > 1 or any(not 0 < len(key) <= _LONGEST_KEY for key in keys):
        return f"one Idempotency-Key of at most {_LONGEST_KEY} characters"
    return Call(action, parameters, keys[0] if keys else None, _caller(request.scope))


def _bearer(scope: Scope) -> str:
    given = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    scheme, _, token = given[0].decode("latin-1").partition(" ") if len(given) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else ""


def _caller(scope: Scope) -> str:
    return str(scope["client"][0]) if scope.get("client") else ""
