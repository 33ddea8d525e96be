"""The bridge over HTTP: messages in, conversations out, and Cursor's webhooks, all behind the guard."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from segue.bridge.conversations import (
    begin_conversation,
    describe,
    find_conversation,
    list_conversations,
    resolve_repo,
    summarise,
)
from segue.bridge.webhooks import is_signed, parse_delivery, store_delivery
from segue.domain.errors import SegueError, UsageError
from segue.domain.run import Run
from segue.ports import Store
from segue.runtime.app import App
from segue.runtime.plan import agent_text
from segue.runtime.wiring import agent_kind
from segue.system.http.guard import LOOPBACK_HOSTS, RequestGuard

_WEBHOOKS = "/webhooks/cursor"
_MAX_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class BridgeRoutes:
    """The request handlers."""

    app: App
    store: Store
    ensure: Callable[[str], None]
    """Make sure that a conversation is running."""
    inbox: str
    repo: str | None

    async def messages(self, request: Request) -> JSONResponse:
        """Begin a conversation, or send a message to one."""
        body = await _read_object(request)
        text = body.get("message")
        if not isinstance(text, str) or not text.strip():
            raise UsageError("message is missing.", hint='{"message": "…", "conversation": "…"}')
        run = await asyncio.to_thread(self._send, body, text)
        self.ensure(run.id)
        return _answer({"conversation": run.id}, 202)

    def _send(self, body: dict[str, Any], text: str) -> Run:
        if named := body.get("conversation"):
            run = find_conversation(self.store, str(named))
            self.store.send(run.id, "message", {"kind": "message", "text": text})
            return run
        agent = str(body.get("agent") or agent_text(self.app))
        agent_kind(agent, self.app.loaded)
        repo = str(body.get("repo") or self.repo or "")
        if not repo:
            raise UsageError("No repository was named.", hint='Send "repo", or serve with --repo')
        return begin_conversation(self.store, self.app, agent, resolve_repo(repo), text, force_new=True)[0]

    async def conversations(self, request: Request) -> JSONResponse:
        """Return the conversations, newest first."""
        given = request.query_params.get("limit", "20")
        limit = min(int(given), _MAX_LIMIT) if given.isascii() and given.isdecimal() else 20

        def load() -> list[dict[str, Any]]:
            runs = list_conversations(self.store, limit)
            return [summarise(self.store, run) for run in runs]

        return _answer(await asyncio.to_thread(load))

    async def conversation(self, request: Request) -> JSONResponse:
        """Return one conversation with everything that was said and done."""

        def load() -> dict[str, Any]:
            run = find_conversation(self.store, request.path_params["id"])
            return describe(self.store, run)

        try:
            return _answer(await asyncio.to_thread(load))
        except UsageError as error:
            return _error(error, 404)

    async def webhook(self, request: Request) -> JSONResponse:
        """Store a delivery before answering it; refuse it unless it is signed."""
        secret = os.environ.get(self.app.loaded.settings.bridge.webhook_secret_env, "").strip()
        if not secret:
            return JSONResponse({"error": "no secret is configured; unsigned webhooks are refused"}, 503)
        body = await request.body()
        if not is_signed(secret, body, request.headers.get("x-webhook-signature")):
            return JSONResponse({"error": "the signature is missing or wrong"}, 401)
        try:
            delivery = parse_delivery(body, request.headers.get("x-webhook-id"))
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)
        if delivery is None:
            return _answer({"taken": False})
        named = request.query_params.get("conversation")
        fresh = await asyncio.to_thread(store_delivery, self.store, self.inbox, delivery, named)
        return _answer({"taken": fresh})


def make_bridge_app(routes: BridgeRoutes, token: str) -> Starlette:
    """Return the routes behind the guard."""
    settings = routes.app.loaded.settings.bridge
    hosts = (*LOOPBACK_HOSTS, settings.listen, *settings.hosts)
    return Starlette(
        routes=[
            Route("/messages", routes.messages, methods=["POST"]),
            Route("/conversations", routes.conversations, methods=["GET"]),
            Route("/conversations/{id}", routes.conversation, methods=["GET"]),
            Route(_WEBHOOKS, routes.webhook, methods=["POST"]),
            Route("/health", _health, methods=["GET"]),
        ],
        middleware=[Middleware(RequestGuard, token=token, hosts=hosts, open_paths=(_WEBHOOKS, "/health"))],
        exception_handlers={SegueError: _handle_error},
    )


async def _health(_request: Request) -> JSONResponse:
    return _answer({"ok": True})


async def _handle_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SegueError)
    return _error(error, 400 if isinstance(error, UsageError) else 500)


async def _read_object(request: Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except (ValueError, RecursionError):
        raise UsageError("The body is not valid JSON.") from None
    if not isinstance(body, dict):
        raise UsageError("The body is not a JSON object.")
    return body


def _answer(data: Any, status: int = 200) -> JSONResponse:
    return JSONResponse({"schema": 1, "data": data}, status, headers={"cache-control": "no-store"})


def _error(error: SegueError, status: int) -> JSONResponse:
    return JSONResponse({"schema": 1, "error": {"message": error.message, "hint": error.hint}}, status)
