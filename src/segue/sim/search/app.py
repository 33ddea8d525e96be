"""The search simulator as an app: three APIs on one port, and the controls under `/_sim/`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from segue.sim.search.script import (
    SearchApi,
    SearchEntry,
    SearchScript,
    build_error,
    build_results,
    build_silence,
    pick_entry,
)
from segue.sim.services import LoggedRequest, ScriptPlayer
from segue.system.http.server import drop_connection

_MAX_RESULTS = 20
_FORBIDDEN = "<!doctype html><title>403 Forbidden</title><h1>Forbidden</h1>"


def search_app(script: SearchScript | None = None) -> Starlette:
    """Build the app: GET `/search` is SearXNG, POST with JSON is Tavily."""
    player = ScriptPlayer(SearchScript, script)
    return Starlette(
        routes=[
            Route("/search", partial(search, player, "searxng")),
            Route("/search", partial(search, player, "tavily"), methods=["POST"]),
            Route("/res/v1/web/search", partial(search, player, "brave")),
            *player.routes(),
        ]
    )


async def search(player: ScriptPlayer[SearchScript], api: SearchApi, request: Request) -> Response:
    """Answer a search as this service does."""
    return await player.serve(request, partial(_answer, player, api, request))


async def _answer(
    player: ScriptPlayer[SearchScript], api: SearchApi, request: Request, logged: LoggedRequest
) -> Response:
    body = logged.body
    if refusal := _refuse(request, api, body):
        return refusal
    asked = body if api == "tavily" else request.query_params
    query = str(asked.get("query" if api == "tavily" else "q"))
    most = int(asked.get({"tavily": "max_results", "brave": "count"}.get(api, ""), _MAX_RESULTS))
    entry = pick_entry(player.deck, api, query)
    await asyncio.sleep(entry.delay)
    if entry.fault is not None:
        return _fail(request, api, query, entry)
    return JSONResponse(build_results(api, query, entry.results[:most]), headers=entry.headers)


def _refuse(request: Request, api: SearchApi, body: Any) -> Response | None:
    """Refuse what the services refuse: no key, no query, too many results."""
    if api == "searxng":
        if request.query_params.get("format") != "json":
            return Response("<!doctype html><title>SearXNG</title>", media_type="text/html")
        return None if request.query_params.get("q") else JSONResponse({"error": "No query"}, 400)
    if api == "brave":
        if not request.headers.get("x-subscription-token"):
            return _refusal(api, 422, "VALIDATION", "x-subscription-token: required")
        asked = request.query_params
        good = (
            0 < len(asked.get("q", "")) <= 400 and 1 <= int(asked.get("count", _MAX_RESULTS)) <= _MAX_RESULTS
        )
        words = "Unable to validate request parameter(s)"
        return None if good else _refusal(api, 422, "VALIDATION", words)
    if not request.headers.get("authorization", "").startswith("Bearer "):
        return _bad_key(api)
    good = (
        isinstance(body, dict) and bool(body.get("query")) and 0 <= body.get("max_results", 5) <= _MAX_RESULTS
    )
    return None if good else _refusal(api, 400, "", "Query is missing.")


def _fail(request: Request, api: SearchApi, query: str, entry: SearchEntry) -> Response:
    plain = {
        "html": Response("<html>Sign in to the network</html>", media_type="text/html"),
        "junk": JSONResponse({"results": "none", "web": ["?"]}),
        "no_json": Response(_FORBIDDEN, 403, media_type="text/html"),
        "silent": JSONResponse(build_silence(query)),
        "bad_key": _bad_key(api),
        "cut": StreamingResponse(_cut(request, build_results(api, query, entry.results))),
    }
    refusals = {
        "down": (entry.status, "INTERNAL_ERROR", "Something went wrong."),
        "rate_limited": (429, "RATE_LIMITED", "Request rate limit exceeded for plan"),
        "used_up": (432, "", "This request exceeds your plan's set usage limit."),
    }
    assert entry.fault is not None
    if entry.fault in plain:
        return plain[entry.fault]
    status, code, words = refusals[entry.fault]
    return _refusal(api, status, code, words, entry.headers)


def _refusal(
    api: SearchApi, status: int, code: str, words: str, headers: Mapping[str, str] | None = None
) -> Response:
    return JSONResponse(build_error(api, status, code, words), status, headers)


def _bad_key(api: SearchApi) -> Response:
    if api == "brave":
        words = "The provided subscription token is invalid."
        return _refusal(api, 422, "SUBSCRIPTION_TOKEN_INVALID", words)
    return _refusal(api, 401, "", "Unauthorized: missing or invalid API key.")


async def _cut(request: Request, document: dict[str, Any]) -> AsyncIterator[bytes]:
    whole = json.dumps(document).encode()
    yield whole[: len(whole) // 2]
    await drop_connection(request.scope, request.receive, reset=False)
