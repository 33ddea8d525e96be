"""Build the answers of SearXNG, Brave and Tavily, each in its own shape."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from segue.sim.search.script import FoundPage, SearchApi


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
