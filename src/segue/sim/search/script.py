"""The script of the search simulator, and the answers of SearXNG, Brave and Tavily in their shapes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from segue.domain.options import Options
from segue.sim.script import Deck, check_pattern, equals, matches

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
    """Everything the simulator can be told."""

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
