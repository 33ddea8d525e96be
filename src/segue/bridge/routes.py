"""The bridge over HTTP: messages in, conversations out, and Cursor's webhooks. The guard stands before it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from segue.bridge import view, webhooks
from segue.bridge.session import begin, place
from segue.domain.errors import SegueError, UsageError
from segue.domain.run import Run
from segue.ports import Store
from segue.runtime.app import App
from segue.runtime.wiring import agent_kind

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse

_MOST = 1000


@dataclass(frozen=True, slots=True)
class Routes:
    """What answers."""

    app: App
    store: Store
    ensure: Callable[[str], None]
    """See to it that a conversation goes on."""
    inbox: str
    repo: str | None

    async def messages(self, request: Request) -> JSONResponse:
        """Begin a conversation, or say something in one."""
        body = await _object(request)
        text = body.get("message")
        if not isinstance(text, str) or not text.strip():
            raise UsageError("message is missing.", hint='{"message": "…", "conversation": "…"}')
        run = await asyncio.to_thread(self._said, body, text)
        self.ensure(run.id)
        return _answer({"conversation": run.id}, 202)

    def _said(self, body: dict[str, Any], text: str) -> Run:
        if named := body.get("conversation"):
            run = view.find(self.store, str(named))
            self.store.send(run.id, "message", {"kind": "message", "text": text})
            return run
        agent = str(body.get("agent") or self.app.agent_name())
        agent_class(agent)
        where = str(body.get("repo") or self.repo or "")
        if not where:
            raise UsageError("Nobody says where the agent works.", hint='Send "repo", or serve with --repo')
        return begin(self.store, self.app, agent, place(where), text, anew=True)[0]

    async def conversations(self, request: Request) -> JSONResponse:
        """All conversations, newest first."""
        said = request.query_params.get("limit", "20")
        limit = min(int(said), _MOST) if said.isascii() and said.isdecimal() else 20
        return _answer(await asyncio.to_thread(self._listed, limit))

    def _listed(self, limit: int) -> list[dict[str, Any]]:
        runs = view.conversations(self.store, limit)
        return [view.summary(run, self.store.steps(run.id), run.state) for run in runs]

    async def conversation(self, request: Request) -> JSONResponse:
        """One conversation with everything that was said and done."""

        def look() -> dict[str, Any]:
            run = view.find(self.store, request.path_params["id"])
            return view.detail(run, self.store.steps(run.id), run.state)

        try:
            return _answer(await asyncio.to_thread(look))
        except UsageError as error:
            return _error(error, 404)

    async def webhook(self, request: Request) -> JSONResponse:
        """A delivery: refused unless it is signed, written down before it is answered."""
        from starlette.responses import JSONResponse

        secret = os.environ.get(self.app.loaded.settings.bridge.webhook_secret_env, "").strip()
        if not secret:
            return JSONResponse({"error": "no secret is configured; unsigned webhooks are refused"}, 503)
        body = await request.body()
        if not webhooks.is_signed(secret, body, request.headers.get("x-webhook-signature")):
            return JSONResponse({"error": "the signature is missing or wrong"}, 401)
        try:
            delivery = webhooks.parse(body, request.headers.get("x-webhook-id"))
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)
        if delivery is None:
            return _answer({"taken": False})
        named = request.query_params.get("conversation")
        fresh = await asyncio.to_thread(webhooks.keep, self.store, self.inbox, delivery, named)
        return _answer({"taken": fresh})


def make_app(
    app: App, store: Store, ensure: Callable[[str], None], inbox: str, repo: str | None
) -> Starlette:
    """The routes as an ASGI app."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    routes = Routes(app, store, ensure, inbox, repo)
    return Starlette(
        routes=[
            Route("/messages", routes.messages, methods=["POST"]),
            Route("/conversations", routes.conversations, methods=["GET"]),
            Route("/conversations/{id}", routes.conversation, methods=["GET"]),
            Route("/webhooks/cursor", routes.webhook, methods=["POST"]),
            Route("/health", _health, methods=["GET"]),
        ],
        exception_handlers={SegueError: _refused},
    )


async def _health(_request: Request) -> JSONResponse:
    return _answer({"ok": True})


async def _refused(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SegueError)
    return _error(error, 400 if isinstance(error, UsageError) else 500)


async def _object(request: Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except (ValueError, RecursionError):
        raise UsageError("The body is not valid JSON.") from None
    if not isinstance(body, dict):
        raise UsageError("The body is not a JSON object.")
    return body


def _answer(data: Any, status: int = 200) -> JSONResponse:
    from starlette.responses import JSONResponse

    return JSONResponse({"schema": 1, "data": data}, status, headers={"cache-control": "no-store"})


def _error(error: SegueError, status: int) -> JSONResponse:
    from starlette.responses import JSONResponse

    return JSONResponse({"schema": 1, "error": {"message": error.message, "hint": error.hint}}, status)
