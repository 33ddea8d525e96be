"""The bridge over HTTP: messages in, conversations out, and Cursor's webhooks, all behind the guard."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from segue.domain.errors import SegueError, UsageError
from segue.domain.run import Run
from segue.features.bridge.conversations import (
    begin_conversation,
    describe,
    find_conversation,
    list_conversations,
    resolve_repo,
    summarise,
)
from segue.features.bridge.options import bridge_settings
from segue.features.bridge.webhooks import (
    WEBHOOKS,
    conversation_path,
    is_signed,
    names_conversation,
    parse_delivery,
    store_delivery,
)
from segue.runtime.app import App
from segue.runtime.plan import agent_text
from segue.runtime.wiring import agent_kind
from segue.system.http.guard import LOOPBACK_HOSTS, RequestGuard

if TYPE_CHECKING:
    from segue.store.store import Store


_MAX_LIMIT = 1000


class MessageBody(msgspec.Struct, frozen=True):
    """The body of `POST /messages`."""

    message: str = ""
    conversation: str | None = None
    """The one to continue; a new one begins if unset."""
    agent: str | None = None
    repo: str | None = None


class BridgeRoutes(Struct, frozen=True):
    """The request handlers."""

    app: App
    store: Store
    ensure: Callable[[str], None]
    """Make sure that a conversation is running."""
    inbox: str
    repo: str | None

    async def messages(self, request: Request) -> JSONResponse:
        """Begin a conversation, or send a message to one."""
        try:
            body = msgspec.json.decode(await request.body(), type=MessageBody)
        except (msgspec.DecodeError, RecursionError) as error:
            raise UsageError(f"The body is not valid: {error}.") from None
        if not body.message.strip():
            raise UsageError("message is missing.", hint='{"message": "…", "conversation": "…"}')
        run = await asyncio.to_thread(self._send, body)
        self.ensure(run.id)
        return _answer({"conversation": run.id}, 202)

    def _send(self, body: MessageBody) -> Run:
        if body.conversation:
            run = find_conversation(self.store, body.conversation)
            self.store.send(run.id, "message", {"kind": "message", "text": body.message})
            return run
        agent = body.agent or agent_text(self.app)
        agent_kind(agent, self.app.loaded)
        repo = body.repo or self.repo
        if not repo:
            raise UsageError("No repository was named.", hint='Send "repo", or serve with --repo')
        where = resolve_repo(repo)
        return begin_conversation(self.store, self.app, agent, where, body.message, force_new=True)[0]

    async def conversations(self, request: Request) -> JSONResponse:
        """Return the conversations, newest first."""
        given = request.query_params.get("limit", "20")
        limit = min(int(given), _MAX_LIMIT) if given.isascii() and given.isdecimal() else 20
        runs = await asyncio.to_thread(list_conversations, self.store, limit)
        return _answer([await asyncio.to_thread(summarise, self.store, run) for run in runs])

    async def conversation(self, request: Request) -> JSONResponse:
        """Return one conversation with everything that was said and done."""
        try:
            run = await asyncio.to_thread(find_conversation, self.store, request.path_params["id"])
        except UsageError as error:
            return _error(error, 404)
        address = conversation_path(secret, run.id) if (secret := self._webhook_secret()) else None
        return _answer({**await asyncio.to_thread(describe, self.store, run), "webhook": address})

    async def webhook(self, request: Request) -> JSONResponse:
        """Store a delivery before answering it; refuse it unless it is signed."""
        secret = self._webhook_secret()
        if not secret:
            return JSONResponse({"error": "no secret is configured; unsigned webhooks are refused"}, 503)
        body = await request.body()
        if not is_signed(secret, body, request.headers.get("x-webhook-signature")):
            return JSONResponse({"error": "the signature is missing or wrong"}, 401)
        named = request.query_params.get("conversation")
        if named and not names_conversation(secret, named, request.query_params.get("signature")):
            error = "the address of the conversation is not signed; GET /conversations/ID returns it"
            return JSONResponse({"error": error}, 401)
        try:
            delivery = parse_delivery(body)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)
        if delivery is None:
            return _answer({"taken": False})
        fresh = await asyncio.to_thread(store_delivery, self.store, self.inbox, delivery, named)
        return _answer({"taken": fresh})

    def _webhook_secret(self) -> str:
        return os.environ.get(bridge_settings(self.app.loaded.settings).webhook_secret_env, "").strip()


def make_bridge_app(routes: BridgeRoutes, token: str) -> Starlette:
    """Return the routes behind the guard."""
    settings = bridge_settings(routes.app.loaded.settings)
    hosts = (*LOOPBACK_HOSTS, settings.listen, *settings.hosts)
    open_paths = (WEBHOOKS, "/health")
    return Starlette(
        routes=[
            Route("/messages", routes.messages, methods=["POST"]),
            Route("/conversations", routes.conversations, methods=["GET"]),
            Route("/conversations/{id}", routes.conversation, methods=["GET"]),
            Route(WEBHOOKS, routes.webhook, methods=["POST"]),
            Route("/health", _health, methods=["GET"]),
        ],
        middleware=[Middleware(RequestGuard, token=token, hosts=hosts, open_paths=open_paths)],
        exception_handlers={SegueError: _handle_error},
    )


async def _health(_request: Request) -> JSONResponse:
    return _answer({"ok": True})


async def _handle_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SegueError)
    return _error(error, 400 if isinstance(error, UsageError) else 500)


def _answer(data: Any, status: int = 200) -> JSONResponse:
    return JSONResponse({"schema": 1, "data": data}, status, headers={"cache-control": "no-store"})


def _error(error: SegueError, status: int) -> JSONResponse:
    return JSONResponse({"schema": 1, "error": {"message": error.message, "hint": error.hint}}, status)
