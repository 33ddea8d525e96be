"""The model simulator as an app: four APIs that accept any key, and the controls under `/_sim/`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from segue.sim.llm import chat, gemini, messages, responses
from segue.sim.llm.script import LlmAnswer, LlmEntry, LlmRequest, LlmScript, compose_answer, pick_entry
from segue.sim.llm.wire import BadRequest
from segue.sim.services import LoggedRequest, ScriptPlayer, refuse_web_page
from segue.system.http.server import drop_connection


@dataclass(frozen=True, slots=True)
class Dialect:
    """The functions that read and write one API."""

    read_request: Callable[[dict[str, Any]], LlmRequest]
    build_document: Callable[[LlmAnswer, dict[str, Any]], dict[str, Any]]
    build_stream: Callable[[LlmAnswer, dict[str, Any]], Iterator[bytes]]
    build_error: Callable[[int, str], dict[str, Any]]


CHAT = Dialect(chat.read_request, chat.build_document, chat.build_stream, chat.build_error)
RESPONSES = Dialect(
    responses.read_request, responses.build_document, responses.build_stream, chat.build_error
)
MESSAGES = Dialect(
    messages.read_request, messages.build_document, messages.build_stream, messages.build_error
)
GEMINI = Dialect(gemini.read_request, gemini.build_document, gemini.build_stream, gemini.build_error)


@dataclass(frozen=True, slots=True)
class LlmService:
    """One simulator."""

    player: ScriptPlayer[LlmScript]

    async def complete(self, request: Request, dialect: Dialect) -> Response:
        """Answer a request in its dialect."""
        if refusal := refuse_web_page(request):
            return refusal
        logged = self.player.log.add(request, await request.body())
        response = await self._answer(request, dialect, logged)
        logged.status = response.status_code
        return response

    async def _answer(self, request: Request, dialect: Dialect, logged: LoggedRequest) -> Response:
        if not _key(request):
            return JSONResponse(dialect.build_error(401, "No API key was given."), 401)
        body = _parse(await request.body()) | _read_path(request)
        try:
            asked = dialect.read_request(body)
        except BadRequest as error:
            return JSONResponse(dialect.build_error(400, str(error)), 400)
        entry = pick_entry(self.player.deck, asked)
        logged.fault = "" if entry.cut is None else "cut"
        await asyncio.sleep(entry.delay)
        if entry.status >= 400:
            text = entry.reply if isinstance(entry.reply, str) else "The script says so."
            return JSONResponse(dialect.build_error(entry.status, text), entry.status, entry.headers)
        return _respond(request, dialect, entry, asked, body)

    async def count(self, request: Request) -> Response:
        """Answer `POST /v1/messages/count_tokens`, and Google's `countTokens`."""
        self.player.log.add(request, await request.body()).status = 200
        tokens = max(1, len(await request.body()) // 4)
        return JSONResponse({"input_tokens": tokens, "totalTokens": tokens})

    async def list_models(self, request: Request) -> Response:
        """Answer `GET /v1/models`."""
        self.player.log.add(request, b"").status = 200 if _key(request) else 401
        if not _key(request):
            return JSONResponse(chat.build_error(401, "No API key was given."), 401)
        items = [
            {"id": name, "object": "model", "type": "model", "created": 0, "owned_by": "segue"}
            for name in self.player.script.models
        ]
        return JSONResponse({"object": "list", "data": items, "has_more": False})


def llm_app(script: LlmScript | None = None) -> Starlette:
    """Build the app."""
    player = ScriptPlayer(LlmScript, script)
    service = LlmService(player)

    def speak(dialect: Dialect) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            return await service.complete(request, dialect)

        return endpoint

    return Starlette(
        routes=[
            Route("/v1/chat/completions", speak(CHAT), methods=["POST"]),
            Route("/v1/responses", speak(RESPONSES), methods=["POST"]),
            Route("/v1/messages", speak(MESSAGES), methods=["POST"]),
            Route("/v1/messages/count_tokens", service.count, methods=["POST"]),
            Route("/v1beta/models/{model}:generateContent", speak(GEMINI), methods=["POST"]),
            Route("/v1beta/models/{model}:streamGenerateContent", speak(GEMINI), methods=["POST"]),
            Route("/v1beta/models/{model}:countTokens", service.count, methods=["POST"]),
            Route("/v1/models", service.list_models),
            *player.routes(),
        ]
    )


def _respond(
    request: Request, dialect: Dialect, entry: LlmEntry, asked: LlmRequest, body: dict[str, Any]
) -> Response:
    answer = compose_answer(entry, asked)
    if asked.stream:
        pieces = list(dialect.build_stream(answer, body))
        headers = {**entry.headers, "content-type": "text/event-stream"}
        return StreamingResponse(_send(request, pieces, entry.cut), entry.status, headers)
    document = json.dumps(dialect.build_document(answer, body), ensure_ascii=False).encode()
    headers = {**entry.headers, "content-type": "application/json"}
    if entry.cut is None:
        return Response(document, entry.status, headers)
    return StreamingResponse(_send(request, [document], 0), entry.status, headers)


async def _send(request: Request, pieces: list[bytes], cut: int | None) -> AsyncIterator[bytes]:
    """Yield the pieces; after `cut` of them, half a piece and then close the connection."""
    for number, piece in enumerate(pieces):
        if number == cut:
            yield piece[: len(piece) // 2]
            await drop_connection(request.scope, request.receive, reset=False)
            return
        yield piece


def _key(request: Request) -> str:
    bearer = request.headers.get("authorization", "").partition(" ")[2]
    return bearer or request.headers.get("x-api-key", "") or request.headers.get("x-goog-api-key", "")


def _read_path(request: Request) -> dict[str, Any]:
    """Read what Google's API has in the path and the others have in the body."""
    if "model" not in request.path_params:
        return {}
    return {
        "model": request.path_params["model"],
        "stream": request.url.path.endswith(":streamGenerateContent"),
    }


def _parse(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
