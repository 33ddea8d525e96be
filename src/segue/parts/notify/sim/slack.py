"""Slack as far as notifications go: an incoming webhook, buttons, signed presses and `response_url`."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from segue.domain.options import Options
from segue.parts.notify.sim.press import ChatEntry, find_fault, send_press
from segue.sim.services import LOCAL_ONLY, LoggedRequest, ScriptPlayer

_MAX_BLOCKS = 50
_MAX_TEXT = {"section": 3000, "button": 75}
_MAX_VALUE = 2000
_MAX_REPLIES = 5


class SlackScript(Options, frozen=True):
    """Everything a script can say."""

    on: Sequence[ChatEntry] = []
    """what goes wrong with messages"""
    request_url: str = ""
    """where presses are sent: the app's Request URL"""
    signing_secret: str = "slack-signing-secret"
    """what they are signed with"""


class SlackPressed(Options, frozen=True):
    """The body of `POST /_sim/press`."""

    button: str
    """the text on the button"""
    message: int = -1
    """the message's place, from 0; the newest if negative"""
    user: str = "U0ADA"
    """who presses it, by id"""
    secret: str = ""
    """another secret to sign with"""
    age: int = 0
    """how many seconds ago it was signed"""
    times: int = 1
    """how often the same request is delivered"""


class Slack:
    """The channel of one incoming webhook."""

    def __init__(self, script: SlackScript | None) -> None:
        self.player = ScriptPlayer(SlackScript, script)
        self.messages: list[dict[str, Any]] = []
        """Each with `text`, `blocks`, and `privately`: what one person alone sees."""
        self._replies: dict[str, tuple[int, int]] = {}

    async def post(self, request: Request) -> Response:
        """Take a message."""
        return await self.player.serve(request, self._post)

    async def _post(self, logged: LoggedRequest) -> Response:
        if failed := find_fault(self.player.deck):
            return failed
        if wrong := _find_mistake(logged.body):
            return PlainTextResponse(wrong, 400)
        self.messages.append({"text": "", "blocks": [], **logged.body, "privately": []})
        return PlainTextResponse("ok")

    async def respond(self, request: Request) -> Response:
        """Take an answer to a press: it replaces the message, or is shown to one person."""
        return await self.player.serve(request, lambda logged: self._respond(request, logged))

    async def _respond(self, request: Request, logged: LoggedRequest) -> Response:
        name = request.path_params["name"]
        place, left = self._replies.get(name, (0, 0))
        if not left:
            return PlainTextResponse("used_url", 404)
        self._replies[name] = (place, left - 1)
        said = logged.body
        if said.get("replace_original"):
            self.messages[place] |= {"text": said.get("text", ""), "blocks": said.get("blocks", [])}
        else:
            self.messages[place]["privately"].append(said.get("text", ""))
        return JSONResponse({"ok": True})

    async def show(self, _request: Request) -> Response:
        """Return the messages as people see them now."""
        return JSONResponse({"messages": self.messages})

    async def press(self, request: Request) -> Response:
        """Press a button as a person does: send a signed request, and return how it was answered."""
        try:
            pressed = SlackPressed(**await request.json())
            place = range(len(self.messages))[pressed.message]
            elements = [e for block in self.messages[place]["blocks"] for e in block.get("elements", [])]
            button = next(one for one in elements if one.get("text", {}).get("text") == pressed.button)
        except (TypeError, ValueError, IndexError, StopIteration):
            return JSONResponse({"error": "there is no such button"}, 404)
        headers, body = self._sign(pressed, self._describe(request, place, pressed.user, button))
        url = self.player.script.request_url
        answers = [await send_press("POST", url, headers, body) for _ in range(pressed.times)]
        return JSONResponse({"answers": answers})

    def _describe(self, request: Request, place: int, user: str, button: dict[str, Any]) -> dict[str, Any]:
        name = secrets.token_hex(12)
        self._replies[name] = (place, _MAX_REPLIES)
        text = self.messages[place]["text"]
        return {
            "type": "block_actions",
            "user": {"id": user, "username": user.lower(), "name": user.lower(), "team_id": "T0"},
            "api_app_id": "A0",
            "container": {"type": "message", "message_ts": f"{place}.0", "channel_id": "C0"},
            "team": {"id": "T0", "domain": "sim"},
            "channel": {"id": "C0", "name": "segue"},
            "message": {"type": "message", "text": text, "ts": f"{place}.0"},
            "response_url": f"{str(request.base_url).rstrip('/')}/actions/{name}",
            "actions": [{**button, "block_id": "b", "action_ts": f"{time.time():.6f}"}],
        }

    def _sign(self, pressed: SlackPressed, payload: dict[str, Any]) -> tuple[dict[str, str], bytes]:
        body = urlencode({"payload": json.dumps(payload)}).encode()
        at = str(int(time.time()) - pressed.age)
        secret = pressed.secret or self.player.script.signing_secret
        signature = hmac.new(secret.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
        return {
            "content-type": "application/x-www-form-urlencoded",
            "user-agent": "Slackbot 1.0 (+https://api.slack.com/robots)",
            "x-slack-request-timestamp": at,
            "x-slack-signature": f"v0={signature}",
        }, body


def slack_app(script: SlackScript | None = None) -> Starlette:
    """Build the app: every address below `/services/` is the same incoming webhook."""
    slack = Slack(script)
    return Starlette(
        routes=[
            Route("/services/{path:path}", slack.post, methods=["POST"]),
            Route("/actions/{name}", slack.respond, methods=["POST"]),
            Route("/_sim/messages", slack.show),
            Route("/_sim/press", slack.press, methods=["POST"]),
            *slack.player.routes(),
        ],
        middleware=[LOCAL_ONLY],
    )


def _find_mistake(body: Any) -> str:
    """Return how Slack words what is wrong with a message; empty: nothing."""
    if not isinstance(body, dict):
        return "invalid_payload"
    blocks = body.get("blocks", [])
    if not body.get("text") and not blocks:
        return "no_text"
    if len(blocks) > _MAX_BLOCKS or any(_is_wrong(block) for block in blocks):
        return "invalid_blocks"
    return ""


def _is_wrong(block: dict[str, Any]) -> bool:
    elements = block.get("elements", [])
    if block.get("type") == "actions":
        names = [one.get("action_id") for one in elements]
        return not elements or len(set(names)) < len(names) or any(_is_wrong(one) for one in elements)
    most = _MAX_TEXT.get(block.get("type", ""), _MAX_TEXT["section"])
    text = block.get("text", {}).get("text", "x")
    return not 0 < len(text) <= most or len(block.get("value", "")) > _MAX_VALUE
