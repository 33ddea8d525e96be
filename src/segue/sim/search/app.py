"""Puts the search simulator together: three APIs on one port, and the controls under `/_sim/`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from segue.sim.http.log import RequestLog, from_a_web_page
from segue.sim.http.script import complaint
from segue.sim.search import shapes
from segue.sim.search.script import Api, Entries, Entry, Script
from segue.system.http.server import drop_connection

_MOST = 20
_FORBIDDEN = "<!doctype html><title>403 Forbidden</title><h1>Forbidden</h1>"


@dataclass(slots=True)
class Search:
    """The state of one simulator."""

    entries: Entries
    log: RequestLog = field(default_factory=RequestLog)

    async def searxng_or_tavily(self, request: Request) -> Response:
        """`/search`: SearXNG is asked with GET, Tavily with POST and JSON."""
        return await self._answered(request, "tavily" if request.method == "POST" else "searxng")

    async def brave(self, request: Request) -> Response:
        """`/res/v1/web/search`."""
        return await self._answered(request, "brave")

    async def _answered(self, request: Request, api: Api) -> Response:
        if from_a_web_page(request):
            return Response("for programs on this machine alone", 403)
        seen = self.log.add(request, await request.body())
        response = await self._answer(request, api, seen.body)
        seen.status = response.status_code
        return response

    async def _answer(self, request: Request, api: Api, body: Any) -> Response:
        if refused := _refused(request, api, body):
            return refused
        asked = body if api == "tavily" else request.query_params
        query = str(asked.get("query" if api == "tavily" else "q"))
        most = int(asked.get({"tavily": "max_results", "brave": "count"}.get(api, ""), _MOST))
        entry = self.entries.pick(api, query)
        await asyncio.sleep(entry.delay)
        if entry.fault is not None:
            return _faulty(request, api, query, entry)
        return JSONResponse(shapes.found(api, query, entry.results[:most]), headers=entry.headers)

    async def load(self, request: Request) -> Response:
        """Play another script from its beginning, or with `/_sim/on` put entries before the others."""
        if from_a_web_page(request):
            return Response("for programs on this machine alone", 403)
        try:
            if request.url.path.endswith("/on"):
                first = TypeAdapter(list[Entry]).validate_json(await request.body())
                self.entries = Entries([*first, *self.entries.entries])
            else:
                self.entries = Entries(list(Script.model_validate_json(await request.body()).on))
        except ValidationError as error:
            return JSONResponse({"error": complaint(error)}, 400)
        return JSONResponse({})


def search_app(script: Script | None = None) -> Starlette:
    """The simulator as an app."""
    search = Search(Entries(list((script or Script()).on)))
    return Starlette(
        routes=[
            Route("/search", search.searxng_or_tavily, methods=["GET", "POST"]),
            Route("/res/v1/web/search", search.brave),
            Route("/_sim/log", search.log.answer, methods=["GET", "DELETE"]),
            Route("/_sim/script", search.load, methods=["POST"]),
            Route("/_sim/on", search.load, methods=["POST"]),
        ]
    )


def _refused(request: Request, api: Api, body: Any) -> Response | None:
    """What the services refuse by themselves: no key, no query, too many results."""
    if api == "searxng":
        if request.query_params.get("format") != "json":
            return Response("<!doctype html><title>SearXNG</title>", media_type="text/html")
        return None if request.query_params.get("q") else JSONResponse({"error": "No query"}, 400)
    if api == "brave":
        if not request.headers.get("x-subscription-token"):
            return JSONResponse(shapes.error(api, 422, "VALIDATION", "x-subscription-token: required"), 422)
        asked = request.query_params
        good = 0 < len(asked.get("q", "")) <= 400 and 1 <= int(asked.get("count", _MOST)) <= _MOST
        words = "Unable to validate request parameter(s)"
        return None if good else JSONResponse(shapes.error(api, 422, "VALIDATION", words), 422)
    if not request.headers.get("authorization", "").startswith("Bearer "):
        return _bad_key(api)
    good = isinstance(body, dict) and bool(body.get("query")) and 0 <= body.get("max_results", 5) <= _MOST
    return None if good else JSONResponse(shapes.error(api, 400, "", "Query is missing."), 400)


def _faulty(request: Request, api: Api, query: str, entry: Entry) -> Response:
    plain = {
        "html": Response("<html>Sign in to the network</html>", media_type="text/html"),
        "junk": JSONResponse({"results": "none", "web": ["?"]}),
        "no_json": Response(_FORBIDDEN, 403, media_type="text/html"),
        "silent": JSONResponse(shapes.silent(query)),
        "bad_key": _bad_key(api),
        "cut": StreamingResponse(_cut(request, shapes.found(api, query, entry.results))),
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
    return JSONResponse(shapes.error(api, status, code, words), status, entry.headers)


def _bad_key(api: Api) -> Response:
    if api == "brave":
        words = "The provided subscription token is invalid."
        return JSONResponse(shapes.error(api, 422, "SUBSCRIPTION_TOKEN_INVALID", words), 422)
    return JSONResponse(shapes.error(api, 401, "", "Unauthorized: missing or invalid API key."), 401)


async def _cut(request: Request, document: dict[str, Any]) -> AsyncIterator[bytes]:
    whole = json.dumps(document).encode()
    yield whole[: len(whole) // 2]
    await drop_connection(request.scope, request.receive, reset=False)
