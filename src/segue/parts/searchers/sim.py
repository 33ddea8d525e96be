"""The search simulator: SearXNG, Brave and Tavily on one port, a script, and the controls under `/_sim/`."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from segue.domain.options import Options
from segue.sim.script import Deck, check_pattern, equals, matches
from segue.sim.services import LOCAL_ONLY, LoggedRequest, ScriptPlayer
from segue.system.http.server import drop_connection

SearchApi = Literal["searxng", "brave", "tavily"]
SearchFault = Literal[
    "down", "rate_limited", "bad_key", "junk", "html", "cut", "no_json", "used_up", "silent"
]

FAULTS: dict[str, str] = {
    "down": "503, or the `status` of the entry",
    "rate_limited": "429 as the service words it; `headers` may contain retry-after",
    "bad_key": "the service rejects the key",
    "junk": "200 with JSON of another shape",
    "html": "200 with a page for people",
    "cut": "the connection is closed in the middle of the answer",
    "no_json": "SearXNG only: 403, as an instance without the format answers",
    "used_up": "Tavily only: 432, the plan's limit",
    "silent": "SearXNG only: no results, and the engines that did not answer",
}


class FoundPage(Options, frozen=True):
    """A page that a search finds."""

    title: str
    url: str
    text: str = ""


class SearchEntry(Options, frozen=True):
    """One answer: when it applies, what is found, and what goes wrong."""

    match: str = ""
    """a regular expression found in the query"""
    api: SearchApi | None = None
    """only `searxng`, `brave` or `tavily`"""
    times: int = 0
    """the entry answers this many searches; 0: any number"""
    results: Sequence[FoundPage] = []
    """what is found: `title`, `url`, `text`"""
    fault: SearchFault | None = None
    """what goes wrong"""
    status: int = 503
    """the HTTP status of the fault `down`"""
    headers: Mapping[str, str] = {}
    """headers of the answer, such as retry-after"""
    delay: float = 0.0
    """seconds before the answer"""

    def __post_init__(self) -> None:
        check_pattern(self.match)


class SearchScript(Options, frozen=True):
    """Everything a script can say."""

    on: Sequence[SearchEntry] = []
    """the answers; the first that matches and is not used up is given"""


def pick_entry(deck: Deck[SearchEntry], api: SearchApi, query: str) -> SearchEntry:
    """Return the entry that answers the query; without one, a page about the query is found."""
    page = FoundPage(title=query, url="https://example.com/", text=f"About {query}.")
    return deck.pick({"api": equals(api), "match": matches(query)}) or SearchEntry(results=[page])


def build_results(api: SearchApi, query: str, results: Sequence[FoundPage]) -> dict[str, Any]:
    """Build a good answer."""
    if api == "searxng":
        return _searxng(query, results)
    return _brave(query, results) if api == "brave" else _tavily(query, results)


def build_error(api: SearchApi, status: int, code: str, words: str) -> dict[str, Any]:
    """Build a refusal."""
    if api == "brave":
        inner = {"id": str(uuid.uuid4()), "status": status, "code": code, "detail": words, "meta": {}}
        return {"type": "ErrorResponse", "error": inner, "time": 0}
    return {"detail": {"error": words}} if api == "tavily" else {"error": words}


def build_silence(query: str) -> dict[str, Any]:
    """Build SearXNG's answer if its engines do not answer."""
    return {**_searxng(query, []), "unresponsive_engines": [["google", "timeout"], ["bing", "CAPTCHA"]]}


def _searxng(query: str, results: Sequence[FoundPage]) -> dict[str, Any]:
    listed = [
        {
            "url": result.url,
            "title": result.title,
            "content": result.text,
            "engine": "duckduckgo",
            "engines": ["duckduckgo"],
            "positions": [place],
            "score": 1 / place,
            "category": "general",
        }
        for place, result in enumerate(results, 1)
    ]
    empty: dict[str, Any] = {"answers": [], "corrections": [], "infoboxes": [], "suggestions": []}
    return {"query": query, "number_of_results": 0, "results": listed, **empty, "unresponsive_engines": []}


def _brave(query: str, results: Sequence[FoundPage]) -> dict[str, Any]:
    whole: dict[str, Any] = {"type": "search", "query": {"original": query, "more_results_available": False}}
    if results:
        listed = [
            {"type": "search_result", "title": r.title, "url": r.url, "description": r.text, "language": "en"}
            for r in results
        ]
        whole["web"] = {"type": "search", "results": listed, "family_friendly": True}
    return whole


def _tavily(query: str, results: Sequence[FoundPage]) -> dict[str, Any]:
    listed = [
        {"title": r.title, "url": r.url, "content": r.text, "score": 1 / place, "raw_content": None}
        for place, r in enumerate(results, 1)
    ]
    rest: dict[str, Any] = {"follow_up_questions": None, "answer": None, "images": []}
    return {"query": query, **rest, "results": listed, "response_time": 0.1, "request_id": str(uuid.uuid4())}


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
        ],
        middleware=[LOCAL_ONLY],
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
