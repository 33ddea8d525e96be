"""SearXNG: a metasearch engine that people host themselves."""

from __future__ import annotations

from typing import Any

from segue.domain.errors import SearchFailed
from segue.ports import Hit
from segue.searchers.asking import Service, ask, clean_query, document
from segue.searchers.hits import hits


class SearxngSearcher:
    """Asks an instance for its results as JSON."""

    name = "searxng"

    def __init__(self, service: Service) -> None:
        self._service = service

    async def search(self, query: str) -> list[Hit]:
        """What the instance finds, best first."""
        service = self._service
        asked = {"q": clean_query(service, query), "format": "json"}
        answer = await ask(service, "GET", "/search", query=asked)
        if answer.status == 403:
            # That is how an instance says that it knows the format and does not offer it.
            raise service.failed(
                "the instance offers no JSON (HTTP 403)",
                "Add `json` to search.formats in the instance's settings.yml, or use an instance of your own",
            )
        found = document(service, answer)
        results = hits(found.get("results"), ("title", "url", "content"), service.options.max_results)
        if not results and found.get("unresponsive_engines"):
            raise self._silent(found["unresponsive_engines"])
        return results

    def _silent(self, engines: Any) -> SearchFailed:
        named = [" ".join(map(str, engine)) for engine in engines if isinstance(engine, list)]
        return self._service.failed(
            f"its engines do not answer: {'; '.join(named)[:300]}",
            "Try again later, or enable other engines in the instance",
        )
