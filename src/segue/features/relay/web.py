"""The relay over HTTP: `POST /run`, `GET /actions` and `GET /health`, behind a token and the guard."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from segue.features.relay.audit import Audit
from segue.features.relay.options import RelaySettings, TokenFile
from segue.features.relay.service import ActionRequest, ActionService
from segue.system.http.guard import (
    LOOPBACK_HOSTS,
    AsgiApp,
    Message,
    Receive,
    RequestGuard,
    Scope,
    Send,
    send_error,
)

MAX_BODY = 64 * 1024
_MAX_KEY = 255
_OPEN = frozenset({"/health"})


class RunBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /run`."""

    action: str
    parameters: dict[str, Any] = {}


def make_relay_app(
    settings: RelaySettings, tokens: TokenFile, audit: Audit, service: ActionService
) -> Starlette:
    """Return the routes behind token and guard."""

    async def health(_request: Request) -> Response:
        return JSONResponse({"ok": True})

    async def actions(_request: Request) -> Response:
        return JSONResponse({"actions": service.list_actions()})

    async def run(request: Request) -> Response:
        wanted = _read_request(await request.body(), request)
        if isinstance(wanted, str):
            return JSONResponse({"error": wanted, "code": "request"}, 400)
        request.scope["segue.logged"] = True
        reply = await service.run(wanted)
        return JSONResponse(reply.body, reply.status, dict(reply.headers))

    hosts = (*LOOPBACK_HOSTS, settings.host, *settings.hosts)
    return Starlette(
        routes=[
            Route("/health", health, methods=["GET"]),
            Route("/actions", actions, methods=["GET"]),
            Route("/run", run, methods=["POST"]),
        ],
        middleware=[
            Middleware(TokenMiddleware, tokens=tokens, audit=audit),
            Middleware(RequestGuard, token=None, hosts=hosts, max_body=MAX_BODY),
        ],
    )


class TokenMiddleware:
    """Checks the token before anything is read, and logs every request that is refused further in."""

    def __init__(self, app: AsgiApp, tokens: TokenFile, audit: Audit) -> None:
        self._app = app
        self._tokens = tokens
        self._audit = audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"] in _OPEN or self._tokens.accepts(_bearer_token(scope)):
            await self._app(scope, receive, self._logging(scope, send))
        else:
            self._log(scope, 401)
            await send_error(send, 401, "a token is needed: Authorization: Bearer TOKEN")

    def _logging(self, scope: Scope, send: Send) -> Send:
        async def send_and_log(message: Message) -> None:
            refused = message["type"] == "http.response.start" and message["status"] >= 400
            if refused and not scope.get("segue.logged"):
                self._log(scope, message["status"])
            await send(message)

        return send_and_log

    def _log(self, scope: Scope, status: int) -> None:
        self._audit.write_refusal(status, path=scope["path"][:200], caller=_caller(scope))


def _read_request(body: bytes, request: Request) -> ActionRequest | str:
    """Return the request, or what is wrong with it."""
    try:
        asked = msgspec.json.decode(body, type=RunBody)
    except (msgspec.DecodeError, RecursionError) as error:
        return f'the body must be {{"action": NAME, "parameters": {{…}}}}: {error}'
    keys = request.headers.getlist("idempotency-key")
    if len(keys) > 1 or any(not 0 < len(key) <= _MAX_KEY for key in keys):
        return f"send one Idempotency-Key of at most {_MAX_KEY} characters"
    return ActionRequest(asked.action, asked.parameters, keys[0] if keys else None, _caller(request.scope))


def _bearer_token(scope: Scope) -> str:
    given = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    scheme, _, token = given[0].decode("latin-1").partition(" ") if len(given) == 1 else ("", "", "")
    return token.strip() if scheme.lower() == "bearer" else ""


def _caller(scope: Scope) -> str:
    return str(scope["client"][0]) if scope.get("client") else ""
