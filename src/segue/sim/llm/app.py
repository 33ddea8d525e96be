"""The model simulator as an app: four APIs that accept any key, and the controls under `/_sim/`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, Protocol

from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from segue.sim.llm import chat, gemini, messages, responses
from segue.sim.llm.script import (
    BadRequest,
    LlmAnswer,
    LlmEntry,
    LlmRequest,
    LlmScript,
    compose_answer,
    pick_entry,
)
from segue.sim.services import LOCAL_ONLY, LoggedRequest, ScriptPlayer
from segue.system.http.server import drop_connection

Player = ScriptPlayer[LlmScript]


class Dialect(Protocol):
    """The functions that read and write one API: a module each."""

    def read_request(self, body: dict[str, Any], /) -> LlmRequest: ...
    def build_document(self, answer: LlmAnswer, body: dict[str, Any], /) -> dict[str, Any]: ...
    def build_stream(self, answer: LlmAnswer, body: dict[str, Any], /) -> Iterator[bytes]: ...
    def build_error(self, status: int, message: str, /) -> dict[str, Any]: ...
    def build_late_error(self, error: dict[str, Any], answer: LlmAnswer, /) -> bytes: ...


DIALECTS: dict[str, Dialect] = {
    "/v1/chat/completions": chat,
    "/v1/responses": responses,
    "/v1/messages": messages,
    "/v1beta/models/{model}:generateContent": gemini,
    "/v1beta/models/{model}:streamGenerateContent": gemini,
}


def llm_app(script: LlmScript | None = None, player: Player | None = None) -> Starlette:
    """Build the app; `player` has the script and the log of requests."""
    player = player or ScriptPlayer(LlmScript, script)
    return Starlette(
        routes=[
            *(
                Route(path, partial(complete, player, dialect), methods=["POST"])
                for path, dialect in DIALECTS.items()
            ),
            Route("/v1/messages/count_tokens", partial(count, player), methods=["POST"]),
            Route("/v1beta/models/{model}:countTokens", partial(count, player), methods=["POST"]),
            Route("/v1/models", partial(list_models, player)),
            *player.routes(),
        ],
        middleware=[LOCAL_ONLY],
    )


async def complete(player: Player, dialect: Dialect, request: Request) -> Response:
    """Answer a request in its dialect."""
    return await player.serve(request, partial(_answer, player, dialect, request))


async def count(player: Player, request: Request) -> Response:
    """Answer `POST /v1/messages/count_tokens`, and Google's `countTokens`."""
    tokens = max(1, len(await request.body()) // 4)

    async def answer(_logged: LoggedRequest) -> Response:
        return JSONResponse({"input_tokens": tokens, "totalTokens": tokens})

    return await player.serve(request, answer)


async def list_models(player: Player, request: Request) -> Response:
    """Answer `GET /v1/models`."""

    async def answer(_logged: LoggedRequest) -> Response:
        if not _key(request):
            return JSONResponse(chat.build_error(401, "No API key was given."), 401)
        item = {"object": "model", "type": "model", "created": 0, "owned_by": "segue"}
        items = [{"id": name, **item} for name in player.script.models]
        return JSONResponse({"object": "list", "data": items, "has_more": False})

    return await player.serve(request, answer)


async def _answer(player: Player, dialect: Dialect, request: Request, logged: LoggedRequest) -> Response:
    if not _key(request):
        return JSONResponse(dialect.build_error(401, "No API key was given."), 401)
    body = _parse(await request.body()) | _read_path(request)
    try:
        asked = dialect.read_request(body)
    except BadRequest as error:
        return JSONResponse(dialect.build_error(400, str(error)), 400)
    entry = pick_entry(player.deck, asked)
    logged.fault = "" if entry.cut is None else "cut"
    await asyncio.sleep(entry.delay)
    if entry.status >= 400:
        given = entry.reply if isinstance(entry.reply, dict) else {"message": entry.reply}
        text = given.get("message")
        refusal = dialect.build_error(entry.status, text if isinstance(text, str) else "The script says so.")
        refusal["error"] |= given if isinstance(entry.reply, dict) else {}
        if entry.late is not None and asked.stream:
            begun = compose_answer(replace(entry, reply="Let me"), asked)
            pieces = list(dialect.build_stream(begun, body))
            late = dialect.build_late_error(refusal, begun)
            headers = {**entry.headers, "content-type": "text/event-stream"}
            return StreamingResponse(_send(request, [*pieces[: entry.late], late], None), 200, headers)
        return JSONResponse(refusal, entry.status, entry.headers)
    return _respond(request, dialect, entry, asked, body)


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
