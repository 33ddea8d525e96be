"""Slack and ntfy as far as notifications go: messages arrive or fail, and their buttons are pressed."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlencode

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from segue.domain.options import Options
from segue.sim.script import Deck
from segue.sim.services import LOCAL_ONLY, LoggedRequest, ScriptPlayer

ChatFault = Literal["down", "rate_limited", "gone"]
_FAULTS: dict[str, tuple[int, str]] = {
    "down": (503, "service unavailable"),
    "rate_limited": (429, "rate_limited"),
    "gone": (404, "no_service"),
}
_PRESS_SECONDS = 120.0


class ChatEntry(Options, frozen=True):
    """What goes wrong with a message."""

    fault: ChatFault
    """`down` (503), `rate_limited` (429) or `gone` (404)"""
    times: int = 0
    """this many messages fail; 0: all"""
    retry_after: str = ""
    """the header Retry-After; empty: no such header"""


def find_fault(deck: Deck[ChatEntry]) -> Response | None:
    """Return the answer to a message that fails; None: it does not."""
    entry = deck.pick({})
    if entry is None:
        return None
    status, words = _FAULTS[entry.fault]
    return PlainTextResponse(words, status, {"retry-after": entry.retry_after} if entry.retry_after else {})


async def send_press(method: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Send what a pressed button sends; return the answer."""
    try:
        async with httpx2.AsyncClient(timeout=_PRESS_SECONDS, trust_env=False) as client:
            answer = await client.request(method, url, headers=dict(headers), content=body)
    except httpx2.HTTPError as error:
        return {"status": 0, "text": type(error).__name__}
    return {"status": answer.status_code, "text": answer.text}


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


class ButtonPress(Options, frozen=True):
    """The body of `POST /_sim/press`."""

    button: str
    """the text on the button"""
    message: int = -1
    """the message's place, from 0; the newest if negative"""


class SlackPress(ButtonPress, frozen=True):
    """The same for Slack, which signs presses."""

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
            pressed = SlackPress(**await request.json())
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

    def _sign(self, pressed: SlackPress, payload: dict[str, Any]) -> tuple[dict[str, str], bytes]:
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


_MAX_ACTIONS = 3
_MAX_BYTES = 4096
_KINDS = ("view", "http", "broadcast")


class NtfyScript(Options, frozen=True):
    """Everything a script can say."""

    on: Sequence[ChatEntry] = []
    """what goes wrong with messages"""
    token: str = ""
    """the access token that is needed; empty: none"""


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
            pressed = ButtonPress(**await request.json())
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
