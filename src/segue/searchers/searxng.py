"""SearXNG: a metasearch engine that people host themselves."""

from __future__ import annotations

from typing import Any

from segue.domain.errors import SearchFailed, UsageError
from segue.domain.verdict import Hit
from segue.searchers.asking import Service, ask, clean_query, document, hits
from segue.searchers.options import SearchSettings
from segue.system.services import Services


class SearxngSearcher:
    """Asks an instance for its results as JSON."""

    Options = SearchSettings
    name = "searxng"

    def __init__(self, options: SearchSettings, services: Services) -> None:
        if options.base_url is None:
            raise UsageError(
                "search.service is searxng, but search.base_url is not set.",
                hint='Set search.base_url to your instance, such as "http://localhost:8888"',
            )
        headers = {"accept": "application/json"}
        self._service = Service(self.name, options.base_url, headers, options, services.redactor.text)

    async def search(self, query: str) -> list[Hit]:
        """Return what the instance finds, best first."""
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
