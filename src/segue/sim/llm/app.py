"""Puts the model simulator together: four APIs, a key that may be any, and the controls under `/_sim/`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from segue.sim.http.log import RequestLog, Seen, from_a_web_page
from segue.sim.http.script import complaint
from segue.sim.llm import chat, gemini, messages, responses
from segue.sim.llm.script import Answer, Answers, Ask, Entry, Script, answer
from segue.sim.llm.wire import BadRequest
from segue.system.http.server import drop_connection


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API: how it is read and written."""

    ask: Callable[[dict[str, Any]], Ask]
    whole: Callable[[Answer, dict[str, Any]], dict[str, Any]]
    stream: Callable[[Answer, dict[str, Any]], Iterator[bytes]]
    error: Callable[[int, str], dict[str, Any]]


CHAT = Dialect(chat.ask, chat.whole, chat.stream, chat.error)
RESPONSES = Dialect(responses.ask, responses.whole, responses.stream, chat.error)
MESSAGES = Dialect(messages.ask, messages.whole, messages.stream, messages.error)
GEMINI = Dialect(gemini.ask, gemini.whole, gemini.stream, gemini.error)


@dataclass(slots=True)
class Models:
    """The state of one simulator."""

    answers: Answers
    log: RequestLog = field(default_factory=RequestLog)

    async def complete(self, request: Request, dialect: Dialect) -> Response:
        """Answer a request in its dialect."""
        if from_a_web_page(request):
            return Response("for programs on this machine alone", 403)
        seen = self.log.add(request, await request.body())
        response = await self._answer(request, dialect, seen)
        seen.status = response.status_code
        return response

    async def _answer(self, request: Request, dialect: Dialect, seen: Seen) -> Response:
        if not _key(request):
            return JSONResponse(dialect.error(401, "No API key was given."), 401)
        body = seen.body if isinstance(seen.body, dict) else _parsed(await request.body())
        body = body | _in_path(request)
        try:
            asked = dialect.ask(body)
        except BadRequest as error:
            return JSONResponse(dialect.error(400, str(error)), 400)
        entry = self.answers.pick(asked)
        seen.fault = "" if entry.cut is None else "cut"
        await asyncio.sleep(entry.delay)
        if entry.status >= 400:
            text = entry.reply if isinstance(entry.reply, str) else "The script says so."
            return JSONResponse(dialect.error(entry.status, text), entry.status, entry.headers)
        return _spoken(request, dialect, entry, asked, body)

    async def count(self, request: Request) -> Response:
        """`POST /v1/messages/count_tokens`, and Google's `countTokens`."""
        self.log.add(request, await request.body()).status = 200
        tokens = max(1, len(await request.body()) // 4)
        return JSONResponse({"input_tokens": tokens, "totalTokens": tokens})

    async def list_models(self, request: Request) -> Response:
        """`GET /v1/models`."""
        self.log.add(request, b"").status = 200 if _key(request) else 401
        if not _key(request):
            return JSONResponse(chat.error(401, "No API key was given."), 401)
        items = [
            {"id": name, "object": "model", "type": "model", "created": 0, "owned_by": "segue"}
            for name in self.answers.script.models
        ]
        return JSONResponse({"object": "list", "data": items, "has_more": False})

    async def load(self, request: Request) -> Response:
        """Play another script from its beginning, or with `/_sim/on` put entries before the others."""
        if from_a_web_page(request):
            return Response("for programs on this machine alone", 403)
        try:
            if request.url.path.endswith("/on"):
                self.answers.put_first(TypeAdapter(list[Entry]).validate_json(await request.body()))
            else:
                script = Script.model_validate_json(await request.body())
                self.answers = Answers(script, list(script.on))
        except ValidationError as error:
            return JSONResponse(chat.error(400, complaint(error)), 400)
        return JSONResponse({})


def llm_app(script: Script | None = None) -> Starlette:
    """The simulator as an app."""
    script = script or Script()
    models = Models(Answers(script, list(script.on)))

    def speak(dialect: Dialect) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            return await models.complete(request, dialect)

        return endpoint

    return Starlette(
        routes=[
            Route("/v1/chat/completions", speak(CHAT), methods=["POST"]),
            Route("/v1/responses", speak(RESPONSES), methods=["POST"]),
            Route("/v1/messages", speak(MESSAGES), methods=["POST"]),
            Route("/v1/messages/count_tokens", models.count, methods=["POST"]),
            Route("/v1beta/models/{model}:generateContent", speak(GEMINI), methods=["POST"]),
            Route("/v1beta/models/{model}:streamGenerateContent", speak(GEMINI), methods=["POST"]),
            Route("/v1beta/models/{model}:countTokens", models.count, methods=["POST"]),
            Route("/v1/models", models.list_models),
            Route("/_sim/log", models.log.answer, methods=["GET", "DELETE"]),
            Route("/_sim/script", models.load, methods=["POST"]),
            Route("/_sim/on", models.load, methods=["POST"]),
        ]
    )


def _spoken(request: Request, dialect: Dialect, entry: Entry, asked: Ask, body: dict[str, Any]) -> Response:
    said = answer(entry, asked)
    if asked.stream:
        whole = list(dialect.stream(said, body))
        headers = {**entry.headers, "content-type": "text/event-stream"}
        return StreamingResponse(_sent(request, whole, entry.cut), entry.status, headers)
    document = json.dumps(dialect.whole(said, body), ensure_ascii=False).encode()
    headers = {**entry.headers, "content-type": "application/json"}
    if entry.cut is None:
        return Response(document, entry.status, headers)
    return StreamingResponse(_sent(request, [document], 0), entry.status, headers)


async def _sent(request: Request, whole: list[bytes], cut: int | None) -> AsyncIterator[bytes]:
    """The pieces; after so many of them half a piece and nobody there."""
    for number, piece in enumerate(whole):
        if number == cut:
            yield piece[: len(piece) // 2]
            await drop_connection(request.scope, request.receive, reset=False)
            return
        yield piece


def _key(request: Request) -> str:
    bearer = request.headers.get("authorization", "").partition(" ")[2]
    return bearer or request.headers.get("x-api-key", "") or request.headers.get("x-goog-api-key", "")


def _in_path(request: Request) -> dict[str, Any]:
    """What Google's API says in the path, where the others have it in the body."""
    if "model" not in request.path_params:
        return {}
    return {
        "model": request.path_params["model"],
        "stream": request.url.path.endswith(":streamGenerateContent"),
    }


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
