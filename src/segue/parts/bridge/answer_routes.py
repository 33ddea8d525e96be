"""Where answers to notifications arrive: `/answers` takes a token, `/answers/slack` what Slack has signed."""

from __future__ import annotations

import asyncio
import hmac
import html
import os
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from segue.domain.notification import NotifyError
from segue.parts.bridge.answers import AnswerDesk, AnswerReply
from segue.parts.notify.answers import PATH, TaskAnswer
from segue.parts.notify.options import NotifySettings
from segue.parts.notify.post import post_json
from segue.parts.notify.slack import SIGNATURE, TIMESTAMP, sign_request

SLACK_PATH = f"{PATH}/slack"
_WINDOW = 300.0
"""Seconds that the time of a request from Slack may differ from ours."""
_TOLD_SECONDS = 20.0
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Segue</title>
<meta name="viewport" content="width=device-width">
<style>body{{font:1.1rem system-ui;margin:3rem auto;max-width:32rem}}button{{font:inherit}}</style>
<p>{words}</p>{form}</html>"""
_FORM = '<form method="post"><button>{label}</button></form>'


class _SlackUser(Struct, frozen=True):
    id: str = ""
    username: str = ""
    name: str = ""


class _SlackPress(Struct, frozen=True):
    action_id: str = ""
    value: str = ""


class SlackInteraction(Struct, frozen=True):
    """The parts of Slack's message about a pressed button that matter."""

    type: str = ""
    user: _SlackUser = _SlackUser()
    actions: list[_SlackPress] = []
    response_url: str = ""


class AnswerRoutes:
    """The request handlers."""

    def __init__(self, desk: AnswerDesk, settings: NotifySettings) -> None:
        self._desk = desk
        self._settings = settings
        self._seen: dict[str, float] = {}
        """The signatures of Slack's requests in the window, so that none counts twice."""
        self._working: set[asyncio.Task[None]] = set()

    def routes(self) -> list[Route]:
        """Return the routes, which need no token but check a signature."""
        return [
            Route(PATH, self.show, methods=["GET"]),
            Route(PATH, self.take, methods=["POST"]),
            Route(SLACK_PATH, self.take_from_slack, methods=["POST"]),
        ]

    def origins(self) -> tuple[str, ...]:
        """Return the web pages that may send answers: our own, and ntfy's."""
        named = (self._settings.answers.url, self._settings.ntfy.url if self._settings.ntfy.topic else "")
        return tuple(_origin(url) for url in named if url)

    async def close(self) -> None:
        """Wait for what people were promised."""
        await asyncio.gather(*self._working, return_exceptions=True)

    async def show(self, request: Request) -> Response:
        """Ask before anything is decided: programs that look where a link leads decide nothing."""
        found = self._desk.read(request.query_params.get("token", ""))
        if isinstance(found, AnswerReply):
            return _page(found)
        words = f"Task {found.task} of run {found.run} needs you."
        return _page(AnswerReply(200, words), _FORM.format(label=found.action.capitalize()))

    async def take(self, request: Request) -> Response:
        """Decide as the token says; it is the body, a field of a form, or part of the address."""
        found = self._desk.read(_find_token(request, await request.body()))
        reply = found if isinstance(found, AnswerReply) else await self._desk.answer(found, "link")
        if "text/html" in request.headers.get("accept", ""):
            return _page(reply)
        headers = {"cache-control": "no-store"}
        if (origin := request.headers.get("origin", "")) in self.origins():
            headers["access-control-allow-origin"] = origin
        return PlainTextResponse(f"{reply.text}\n", reply.status, headers)

    async def take_from_slack(self, request: Request) -> Response:
        """Check what Slack sends, answer at once, decide, and tell Slack what happened."""
        secret = os.environ.get(self._settings.slack.signing_secret_env, "").strip()
        if not secret:
            name = self._settings.slack.signing_secret_env
            return PlainTextResponse(f"{name} is not set; nothing from Slack is believed\n", 503)
        body = await request.body()
        if refused := self._refuse(secret, request, body):
            return PlainTextResponse(f"{refused}\n", 401)
        try:
            payload = parse_qs(body.decode())["payload"][0]
            press = msgspec.json.decode(payload, type=SlackInteraction)
        except (KeyError, ValueError, RecursionError):
            return PlainTextResponse("this is not an interaction\n", 400)
        tokens = [one.value for one in press.actions if one.action_id.startswith("segue-")]
        if press.type == "block_actions" and tokens:
            work = asyncio.create_task(self._answer_slack(press, tokens[0]))
            self._working.add(work)
            work.add_done_callback(self._working.discard)
        return Response(status_code=200)

    def _refuse(self, secret: str, request: Request, body: bytes) -> str:
        """Return why a request is refused; empty if it is accepted."""
        at, given = request.headers.get(TIMESTAMP, ""), request.headers.get(SIGNATURE, "")
        right = sign_request(secret, at, body)
        if not hmac.compare_digest(given.encode("utf-8", "surrogatepass"), right.encode()):
            return "the signature is missing or wrong"
        now = time.time()
        if not (at.isascii() and at.isdecimal()) or abs(now - int(at)) > _WINDOW:
            return "the request is too old, or a clock is wrong"
        self._seen = {known: until for known, until in self._seen.items() if until > now}
        if right in self._seen:
            return "the request was delivered before"
        self._seen[right] = int(at) + _WINDOW
        return ""

    async def _answer_slack(self, press: SlackInteraction, token: str) -> None:
        users = self._settings.slack.users
        found = self._desk.read(token)
        if users and press.user.id not in users:
            reply = AnswerReply(403, "You may not answer here: notify.slack.users names who may.")
        elif isinstance(found, TaskAnswer):
            name = press.user.username or press.user.name
            reply = await self._desk.answer(found, f"Slack, {name} {press.user.id}")
        else:
            reply = found
        await self._tell_slack(press.response_url, reply)

    async def _tell_slack(self, where: str, reply: AnswerReply) -> None:
        """Put what happened in the place of the message; what can be repeated goes to one person alone."""
        hook = self._settings.slack.url
        if hook is None or _origin(where) != _origin(hook.reveal()):
            return  # only to the server that the notification was sent to
        text = html.escape(f"Segue: {reply.text}", quote=False)
        alone: dict[str, Any] = {"replace_original": False, "response_type": "ephemeral"}
        how: dict[str, Any] = {"replace_original": True} if reply.is_final else alone
        try:
            await post_json(where, {"text": text, **how}, {}, self._settings.slack.attempts, _TOLD_SECONDS)
        except NotifyError:
            return  # the decision counts; `segue status` shows it


def _find_token(request: Request, body: bytes) -> str:
    if named := request.query_params.get("token"):
        return named
    text = body.decode("utf-8", "replace").strip()
    if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return parse_qs(text).get("token", [""])[0]
    return text


def _page(reply: AnswerReply, form: str = "") -> HTMLResponse:
    return HTMLResponse(_PAGE.format(words=html.escape(reply.text), form=form), reply.status, _HEADERS)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
