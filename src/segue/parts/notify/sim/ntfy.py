"""An ntfy server as far as notifications go: messages are published, polled, and their buttons pressed."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from segue.domain.options import Options
from segue.parts.notify.sim.press import ChatEntry, find_fault, send_press
from segue.sim.services import LOCAL_ONLY, LoggedRequest, ScriptPlayer

_MAX_ACTIONS = 3
_MAX_BYTES = 4096
_KINDS = ("view", "http", "broadcast")


class NtfyScript(Options, frozen=True):
    """Everything a script can say."""

    on: Sequence[ChatEntry] = []
    """what goes wrong with messages"""
    token: str = ""
    """the access token that is needed; empty: none"""


class NtfyPressed(Options, frozen=True):
    """The body of `POST /_sim/press`."""

    button: str
    """the text on the button"""
    message: int = -1
    """the message's place, from 0; the newest if negative"""


class Ntfy:
    """The topics of one server."""

    def __init__(self, script: NtfyScript | None) -> None:
        self.player = ScriptPlayer(NtfyScript, script)
        self.messages: list[dict[str, Any]] = []

    async def publish(self, request: Request) -> Response:
        """Take a message as JSON."""
        return await self.player.serve(request, lambda logged: self._publish(request, logged))

    async def _publish(self, request: Request, logged: LoggedRequest) -> Response:
        if refusal := find_fault(self.player.deck) or self._refuse(request):
            return refusal
        body = logged.body
        if not isinstance(body, dict) or not body.get("topic"):
            return _error(40024, "invalid request: topic missing")
        actions = body.get("actions", [])
        if len(actions) > _MAX_ACTIONS or not all(_is_action(one) for one in actions):
            return _error(40018, "invalid request: actions invalid")
        text = str(body.get("message", "triggered"))
        if len(text.encode()) > _MAX_BYTES:
            return _error(41301, "attachment too large, or bandwidth limit reached", 413)
        shown = {**body, "message": text, "actions": [{"id": secrets.token_hex(5), **one} for one in actions]}
        kept = {"id": secrets.token_hex(6), "time": int(time.time()), "event": "message", **shown}
        self.messages.append(kept)
        return JSONResponse(kept)

    async def poll(self, request: Request) -> Response:
        """Return the messages of a topic, one JSON document a line."""
        if refusal := self._refuse(request):
            return refusal
        topic = request.path_params["topic"]
        lines = [json.dumps(one) for one in self.messages if one["topic"] == topic]
        return PlainTextResponse("".join(f"{line}\n" for line in lines), media_type="application/x-ndjson")

    async def press(self, request: Request) -> Response:
        """Press a button as a phone does, and return how the press was answered."""
        try:
            pressed = NtfyPressed(**await request.json())
            actions = self.messages[pressed.message]["actions"]
            button = next(one for one in actions if one["label"] == pressed.button)
        except (TypeError, ValueError, IndexError, StopIteration):
            return JSONResponse({"error": "there is no such button"}, 404)
        body = button.get("body", "").encode()
        answer = await send_press(
            button.get("method", "POST"), button["url"], button.get("headers", {}), body
        )
        return JSONResponse({"answers": [answer]})

    def _refuse(self, request: Request) -> Response | None:
        wanted = self.player.script.token
        if not wanted or request.headers.get("authorization") == f"Bearer {wanted}":
            return None
        return _error(40101, "unauthorized", 401)


def ntfy_app(script: NtfyScript | None = None) -> Starlette:
    """Build the app."""
    ntfy = Ntfy(script)
    return Starlette(
        routes=[
            Route("/", ntfy.publish, methods=["POST", "PUT"]),
            Route("/_sim/press", ntfy.press, methods=["POST"]),
            *ntfy.player.routes(),
            Route("/{topic}/json", ntfy.poll),
        ],
        middleware=[LOCAL_ONLY],
    )


def _is_action(action: Any) -> bool:
    is_known = isinstance(action, dict) and action.get("action") in _KINDS and bool(action.get("label"))
    return is_known and (action["action"] == "broadcast" or bool(action.get("url")))


def _error(code: int, words: str, status: int = 400) -> Response:
    return JSONResponse({"code": code, "http": status, "error": words}, status)
